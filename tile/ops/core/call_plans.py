"""Call plans: what the first call of an op did, for later calls that differ only in addresses.

The first call of a planned op checks its arguments, chooses configurations, allocates arrays and
launches kernels. A recorder notes the new arrays and the launches: which arguments or new arrays
each takes, and all else as constants (call_records.py). A later call with arrays of the same types,
shapes, strides and devices, equal numbers and the same backend allocates and launches only:

    @planned()
    def softmax(x, *, out=None): ...        launch(kernel, grid)(...) instead of kernel[grid](...)

With torch's tensors it becomes one generated function, without the checks of a launch, too
(call_replays.py). Arguments may be lists of arrays.

Arrays to write are compared with the others by address at each call. A call that reads array
elements on the host has no plan, nor has one with arguments of other kinds; these run as the first.
Numbers that change from call to call, as the seed of `dropout`, are named in `planned`: they are
not part of the key, and kernels take them, or functions of them, as `Varying` values.

The function that finds the plan is generated for the types of all arguments. For softmax(x) it is

    def call(x, axis, out):
        try:
            key = (7, <backend and checks>, x.dtype, x.get_device(), x.shape, x.stride(), axis)
            plan = plans.get(key)
        except unreadable:
            return function(x, axis, out=out)
        if recorder() is not None or observer() is not None:
            return function(x, axis, out=out)
        if plan is None:
            return record(key, (x, axis, out))
        return plan(x, axis, out)
"""

from __future__ import annotations

import functools
import inspect
import itertools
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ParamSpec, TypeVar, cast

import numpy as np

from tile.config import Config, config
from tile.frontend.python.source import DeviceFunction
from tile.ops.core.call_records import (
    RECORDER,
    CallPlan,
    Recorder,
    Varying,
    is_array,
    launch,
    sources_of,
)
from tile.ops.core.call_replays import build_replay
from tile.runtime.arguments.torch_tensors import is_plain_tensor, only_cuda_numbered
from tile.runtime.fast_path import UNREADABLE, scoped_settings
from tile.runtime.launch_hooks import active_observer
from tile.tracebacks import GENERATED, trim

__all__ = ["Varying", "launch", "planned"]

MOST_PLANS = 1024  # of an op; more signatures, as of sequences of many lengths, start anew
ATTEMPTS = 5  # to make a replay of a plan

P = ParamSpec("P")
R = TypeVar("R")
Accept = Callable[[Any], bool]
LISTS = (list, tuple)

_WRAPPER = """\
def ~call({signature}):
    try:
        ~read = ~readers.get(({kinds}))
        if ~read is None:
            ~read = ~new_reader({passed})
        return ~read({passed})
    except Exception as ~error:
        ~trim(~error)
        raise

def ~ordinary({passed}):
    return ~function({called})
"""

_READER = """\
def ~read({parameters}):
    try:
        {checks}
        ~key = {key}
        ~plan = ~plans.get(~key)
    except ~unreadable:
        return ~ordinary({parameters})
    if ~recorder() is not None or ~observer() is not None:
        return ~ordinary({parameters})
    if ~plan is None:
        return ~record(~key, ({parameters},))
    return ~plan({parameters})
"""


class _UnplannedError(ValueError):
    """An argument that has no key, or is not one that a plan may take."""


def planned(**varying: Accept) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Decorate an op whose calls have plans.

    varying: for each argument that is not part of the key, a function that returns True for values
        that a plan may take; the op itself handles others.
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        call = functools.wraps(function)(_Planned(function, varying).call)
        return cast("Callable[P, R]", call)

    return decorate


class _Planned:
    """An op whose calls have plans: `call`, whose attribute `plans` has them by key."""

    def __init__(self, function: Callable[..., Any], varying: Mapping[str, Accept]) -> None:
        parameters = inspect.signature(function).parameters
        self.names = tuple(parameters)
        self.plans: dict[tuple[Any, ...], Callable[..., Any]] = {}
        self._varying = varying
        self._readers: dict[tuple[type, ...], Callable[..., Any]] = {}
        self._prefix = "_"
        while any(name.startswith(self._prefix) for name in self.names):
            self._prefix += "_"
        named = [p.name for p in parameters.values() if p.kind is p.KEYWORD_ONLY]
        called = [f"{name}={name}" if name in named else name for name in self.names]
        text = _WRAPPER.format(
            signature=_signature(parameters),
            kinds="".join(f"type({name}), " for name in self.names),
            passed=", ".join(self.names),
            called=", ".join(called),
        )
        space = self._executed(
            text,
            function=function,
            readers=self._readers,
            new_reader=self._new_reader,
            trim=trim,
            **{f"d_{p.name}": p.default for p in parameters.values()},
        )
        self.call: Any = space["call"]
        self.call.plans = self.plans
        self._ordinary: Callable[..., Any] = space["ordinary"]

    def _executed(self, text: str, **names: Any) -> dict[str, Any]:
        """Execute a text with names for those that begin with `~`, and return what these are."""
        space = {self._prefix + name: value for name, value in names.items()}
        exec(compile(text.replace("~", self._prefix), GENERATED, "exec"), space)
        return {name.removeprefix(self._prefix): value for name, value in space.items()}

    def _new_reader(self, *arguments: Any) -> Callable[..., Any]:
        """Return the function that finds the plan of calls with these types of arguments."""
        reader = _Reader(self.names, arguments, self._varying)
        read = self._ordinary
        if reader.supported:
            variables = Config.variables()
            space = self._executed(
                reader.text(len(self._readers)),
                **reader.variables,
                plans=self.plans,
                unreadable=UNREADABLE,
                ordinary=self._ordinary,
                recorder=RECORDER.get,
                observer=active_observer.get,
                record=self._record,
                own=config.own.get,
                scoped=scoped_settings,
                backend=variables["backend"].text_reader(),
                checking=variables["sanitize"].text_reader(),
                items=_items_part,
                same=_same_items,
                unplanned=_UnplannedError,
            )
            read = space["read"]
        self._readers[tuple(map(type, arguments))] = read
        return read

    def _record(self, key: tuple[Any, ...], arguments: tuple[Any, ...]) -> Any:
        """Return the result of a first call, and make a plan of it, if it can have one."""
        pairs = [*sources_of(arguments)]
        if len({id(value) for _, value in pairs}) < len(pairs):  # positions would be ambiguous
            return self._ordinary(*arguments)
        recording = Recorder(self.names, tuple(s for s, _ in pairs), [v for _, v in pairs])
        with RECORDER.scope(recording):
            result = self._ordinary(*arguments)
        if len(self.plans) >= MOST_PLANS:
            self.plans.clear()
        plan = recording.plan(result)
        self.plans[key] = self._ordinary if plan is None else self._followed(key, plan)
        return result

    def _followed(self, key: tuple[Any, ...], plan: CallPlan) -> Callable[..., Any]:
        """Return the function that follows a plan, until a replay takes its place.

        A replay calls it where a kernel has changed, and needs to be made anew then.
        """
        attempts = itertools.count(1)

        def general(*arguments: Any) -> Any:
            values = plan.arrays(arguments)
            if not plan.allows(values):
                return self._ordinary(*arguments)
            result = plan.run(values, arguments)
            if next(attempts) <= ATTEMPTS:
                replay = build_replay(plan, arguments, values, self.names, general)
                if replay is not None:
                    self.plans[key] = replay
            return result

        return general


class _Reader:
    """Generates the function that finds the plan of calls with some types of arguments."""

    def __init__(
        self, names: Sequence[str], arguments: Sequence[Any], varying: Mapping[str, Accept]
    ) -> None:
        self.names = names
        self.variables = {f"accept_{name}": accept for name, accept in varying.items()}
        self._checks = [
            f"if not ~accept_{name}({name}): raise ~unplanned" for name in names if name in varying
        ]
        read = [(n, v) for n, v in zip(names, arguments, strict=True) if n not in varying]
        parts = [_parts(name, value) for name, value in read]
        self.supported = all(part is not None for part in parts)
        self._parts = [f"{part}, " for some in parts for part in some or ()]
        arrays = [name for name, value in read if is_array(value)]
        self._parts += [f"{one} is {other}, " for one, other in itertools.combinations(arrays, 2)]
        lists = [name for name, value in read if type(value) in LISTS]
        self._parts += [f"{_list_part(lists[:at], name)}, " for at, name in enumerate(lists)]

    def text(self, number: int) -> str:
        """Return the text of the function, whose number is the first part of its keys."""
        settings = f"{number}, ~backend() if ~own(None) is None else ~scoped(), ~checking(), "
        return _READER.format(
            parameters=", ".join(self.names),
            checks="\n        ".join(self._checks) or "pass",
            key=f"({settings}{''.join(self._parts)})",
        )


def _signature(parameters: Mapping[str, inspect.Parameter]) -> str:
    """Return the text of a signature whose defaults are variables."""
    words = []
    for parameter in parameters.values():
        if parameter.kind is parameter.KEYWORD_ONLY and "*" not in words:
            words.append("*")
        has_default = parameter.default is not parameter.empty
        words.append(f"{parameter.name}=~d_{parameter.name}" if has_default else parameter.name)
    return ", ".join(words)


def _parts(word: str, value: Any) -> list[str] | None:
    """Return the source of an argument's parts of the key; None if its type is not supported.

    Keys have no types of arguments, as each function has keys of its own.
    """
    kind: type = type(value)
    if value is None:
        return []
    if kind in (int, bool, str) or isinstance(value, DeviceFunction):
        return [word]
    if kind is float:
        return [f"{word}.hex()"]  # unlike floats, differs for -0.0
    if kind in LISTS:
        return []  # see `_list_part`
    if kind is np.ndarray:
        return [f"{word}.dtype", f"{word}.shape", f"{word}.strides", f"{word}.flags.writeable"]
    if is_plain_tensor(kind):
        return [f"{word}.dtype", _device(word), f"{word}.shape", f"{word}.stride()"]
    return None


def _list_part(earlier: Sequence[str], word: str) -> str:
    """Return the source of a list's part of the key: which of some lists it is, or its items."""
    tests = [f"{at} if ~same({one}, {word}) else " for at, one in enumerate(earlier)]
    return f"{''.join(tests)}~items({word})"


def _device(word: str) -> str:
    """Return the source of a tensor's device: its number, which is faster to read, if it has one.

    Without memory, or in that of the host, it is negative.
    """
    if not only_cuda_numbered():
        return f"{word}.device"
    return f"(~at if (~at := {word}.get_device()) >= 0 else {word}.device)"


def _items_part(values: Any) -> Any:
    """Return the part of a key for a list or tuple; raise `_UnplannedError` if it has none."""
    if not values or not all(map(is_plain_tensor, {*map(type, values)})):
        return tuple(map(_item_part, values))
    # Contiguous tensors need no strides.
    contiguous = [x.is_contiguous() for x in values]
    strides = False not in contiguous or tuple([x.stride() for x in values])
    devices = tuple({x.get_device() for x in values}) if only_cuda_numbered() else (-1,)
    if len(devices) > 1 or devices[0] < 0:
        devices = tuple([x.device for x in values])
    dtypes = tuple({x.dtype for x in values})
    if len(dtypes) > 1:
        dtypes = tuple([x.dtype for x in values])
    return dtypes, devices, strides, tuple([x.shape for x in values])


def _same_items(one: Any, other: Any) -> bool:
    """Return True if two lists or tuples have the same items."""
    return one is other or (len(one) == len(other) and all(map(operator.is_, one, other)))


def _item_part(value: Any) -> Any:
    """Return the part of a key for an item of a list or tuple."""
    kind: type = type(value)
    if kind in (int, bool, str, type(None)) or isinstance(value, DeviceFunction):
        return kind, value  # 1, 1.0 and True are equal
    if kind is float:
        return kind, value.hex()
    if kind in LISTS:
        return kind, _items_part(value)
    if kind is np.ndarray:
        return value.dtype, value.shape, value.strides, value.flags.writeable
    if is_plain_tensor(kind):
        return kind, value.dtype, value.device, value.shape, value.stride()
    raise _UnplannedError
