"""Call plans: what the first call of an op did, for later calls that differ only in addresses.

The first call of a planned op checks its arguments, chooses configurations, allocates arrays and
launches kernels. A recorder notes the new arrays and the launches: which arguments or new arrays
each takes, and all else as constants. A later call with arrays of the same types, shapes, strides
and devices, equal numbers and the same backend allocates and launches only:

    @planned()
    def softmax(x, *, out=None): ...        launch(kernel, grid)(...) instead of kernel[grid](...)

Arrays to write are compared with the others by address at each call. A call that reads array
elements on the host has no plan, nor has one with arguments of other kinds; these run as the first.
Numbers that change from call to call, as the seed of `dropout`, are named in `planned`: they are
not part of the key, and kernels take them, or functions of them, as `Varying` values.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, ParamSpec, TypeVar

import numpy as np

from tile.config import Config, config
from tile.frontend.python.source import DeviceFunction
from tile.instrumentation import Scoped
from tile.ir.types import Scalar
from tile.ops.core.new_arrays import DType, Maker, Shape, maker_of
from tile.runtime.arguments.torch_tensors import is_plain_tensor
from tile.runtime.launch_hooks import active_observer
from tile.tracebacks import trim

NO_PLAN: Any = object()  # unlike None, which stands for calls that cannot have one
# Exceptions of reading arguments; the op itself says what is wrong with them.
UNREADABLE = (AttributeError, RuntimeError, TypeError, ValueError)
ALIGNMENT = 16  # bytes, of arrays that descriptors describe
MOST_PLANS = 1024  # of an op; more signatures, as of sequences of many lengths, start anew

P = ParamSpec("P")
R = TypeVar("R")
Key = tuple[Any, ...]
Accept = Callable[[Any], bool]


class _UnplannedError(ValueError):
    """An argument that has no key, or is not one that a plan may take."""


@dataclass(frozen=True)
class Varying:
    """A kernel argument that follows from an argument of the op that is not part of the key.

    name: of that argument. function: returns the kernel argument for it.
    """

    name: str
    value: Any
    function: Callable[[Any], Any]

    @property
    def number(self) -> Any:
        """The kernel argument in this call."""
        return self.function(self.value)


class Apart(NamedTuple):
    """An array to write and another one, by position, and the bytes that each spans.

    same: they may be one array.
    """

    output: int
    other: int
    same: bool
    output_bytes: int
    other_bytes: int


class NewArray(NamedTuple):
    """An array to allocate, of the library and on the device of the array at `like`."""

    like: int
    make: Maker
    shape: Shape
    dtype: DType


class Launch(NamedTuple):
    """A kernel, its grid, and its arguments, of which `arrays` replaces those at some positions."""

    kernel: Any
    grid: Any
    arguments: tuple[Any, ...]
    arrays: tuple[tuple[int, int], ...]
    varying: tuple[tuple[int, int, Callable[[Any], Any]], ...]
    options: dict[str, Any]


class CallPlan(NamedTuple):
    """A call of an op on other arrays. Positions are those of arguments, then of new arrays.

    result: a position, or a tuple of positions. aligned: of arrays whose addresses are multiples of
    `ALIGNMENT`, which launches rely on.
    """

    new: tuple[NewArray, ...]
    launches: tuple[Launch, ...]
    apart: tuple[Apart, ...]
    aligned: tuple[int, ...]
    result: Any

    def run(self, arguments: Sequence[Any]) -> Any:
        """Return the result for these arguments."""
        values = [*arguments]
        for like, make, shape, dtype in self.new:
            values.append(make(values[like], shape, dtype))
        for kernel, grid, template, arrays, varying, options in self.launches:
            filled = [*template]
            for at, position in arrays:
                filled[at] = values[position]
            for at, position, function in varying:
                filled[at] = function(values[position])
            kernel[grid](*filled, **options)
        result = self.result
        return values[result] if type(result) is int else tuple([values[at] for at in result])

    def allows(self, values: Sequence[Any]) -> bool:
        """Return True if the addresses are as the launches need them.

        An array to write must not overlap another one.
        """
        if any(_address(values[position]) % ALIGNMENT for position in self.aligned):
            return False
        for output, other, same, output_bytes, other_bytes in self.apart:
            distance = _address(values[other]) - _address(values[output])
            if -other_bytes < distance < output_bytes and not (same and distance == 0):
                return False
        return True


@dataclass
class Recorder:
    """The arrays and launches of a first call; `values` are its arguments, then its new arrays."""

    names: list[str]  # of arguments
    values: list[Any]
    new: list[NewArray] = field(default_factory=list)
    launches: list[Launch] = field(default_factory=list)
    apart: list[Apart] = field(default_factory=list)
    aligned: list[int] = field(default_factory=list)
    complete: bool = True

    def refuse(self) -> None:
        """Make no plan: the call depends on more than its key."""
        self.complete = False

    def add_new(self, like: Any, value: Any, shape: Shape, dtype: DType) -> None:
        kind: type = type(like)
        self.new.append(NewArray(self.position(like), maker_of(kind), shape, dtype))
        self.values.append(value)

    def add_apart(self, output: Any, other: Any, *, same: bool, spans: tuple[int, int]) -> None:
        if min(spans) < 0:
            self.refuse()
        self.apart.append(Apart(self.position(output), self.position(other), same, *spans))

    def add_aligned(self, value: Any) -> None:
        self.aligned.append(self.position(value))

    def add_launch(
        self, kernel: Any, grid: Any, arguments: tuple[Any, ...], options: dict[str, Any]
    ) -> None:
        arrays, varying = [], []
        for at, value in enumerate(arguments):
            if type(value) is Varying:
                varying.append((at, self.names.index(value.name), value.function))
            elif is_array(value):
                arrays.append((at, self.position(value)))
            elif not _is_constant(value):
                self.refuse()
        if not all(map(_is_constant, options.values())):
            self.refuse()
        constants = tuple(None if is_array(a) or type(a) is Varying else a for a in arguments)
        self.launches.append(
            Launch(kernel, grid, constants, tuple(arrays), tuple(varying), options)
        )

    def position(self, value: Any) -> int:
        """Return the position of an array; there is no plan for one that was made elsewhere."""
        positions = [at for at, other in enumerate(self.values) if other is value]
        if len(positions) != 1:
            self.refuse()
        return positions[0] if positions else -1

    def plan(self, result: Any) -> CallPlan | None:
        """Return the plan of a call with this result, or None."""
        if type(result) is tuple and all(map(is_array, result)):
            positions: Any = tuple(map(self.position, result))
        elif is_array(result):
            positions = self.position(result)
        else:
            return None
        if not self.complete:
            return None
        apart, aligned = tuple(self.apart), tuple(self.aligned)
        return CallPlan(tuple(self.new), tuple(self.launches), apart, aligned, positions)


_RECORDER: Scoped[Recorder | None] = Scoped("tile_ops_recorder", None)


def recorder() -> Recorder | None:
    """Return the recorder of the call that is running, or None."""
    return _RECORDER()


def launch(kernel: Any, grid: Any) -> Callable[..., Any]:
    """Return the launch function of a kernel on a grid, `kernel[grid]`, for planned ops."""
    recording = _RECORDER()

    def launched(*arguments: Any, **options: Any) -> Any:
        if recording is not None:
            recording.add_launch(kernel, grid, arguments, options)
        return kernel[grid](*(a.number if type(a) is Varying else a for a in arguments), **options)

    return launched


def planned(**varying: Accept) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Decorate an op whose calls have plans.

    varying: for each argument that is not part of the key, a function that returns True for values
        that a plan may take; the op itself handles others.
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        parameters = tuple(inspect.signature(function).parameters)
        plans: dict[Key, CallPlan | None] = {}
        backend, own = Config.variables()["backend"].text_reader(), config.own.get

        @functools.wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            try:
                values: tuple[Any, ...] = (*args, *kwargs.values()) if kwargs else args
                try:
                    parts = [_part(value) for value in values]
                    if varying:
                        _leave_out(
                            parts, [*parameters[: len(args)], *kwargs.keys()], values, varying
                        )
                    key = (backend() if own(None) is None else config.backend, *kwargs, *parts)
                    plan = plans.get(key, NO_PLAN)
                except UNREADABLE:
                    return function(*args, **kwargs)
                if _RECORDER() is not None or active_observer() is not None:
                    return function(*args, **kwargs)
                if plan is not NO_PLAN:
                    checked = plan is not None and (plan.apart or plan.aligned)
                    if plan is None or (checked and not plan.allows(values)):
                        return function(*args, **kwargs)
                    return plan.run(values)  # type: ignore[no-any-return]
                arrays = [id(value) for value in values if is_array(value)]
                if len({*arrays}) < len(arrays):  # positions would be ambiguous
                    return function(*args, **kwargs)
                recording = Recorder([*parameters[: len(args)], *kwargs.keys()], [*values])
                with _RECORDER.scope(recording):
                    result = function(*args, **kwargs)
                if len(plans) >= MOST_PLANS:
                    plans.clear()
                plans[key] = recording.plan(result)
                return result
            except Exception as error:
                trim(error)
                raise

        call.plans = plans  # type: ignore[attr-defined]
        return call

    return decorate


def _leave_out(
    parts: list[Any], names: Sequence[str], values: Sequence[Any], varying: dict[str, Accept]
) -> None:
    """Leave arguments that vary out of the parts of a key."""
    for name, accept in varying.items():
        at = names.index(name)
        if not accept(values[at]):
            raise _UnplannedError
        parts[at] = None


def _part(value: Any) -> Any:
    """Return the part of a key for an argument; raise `_UnplannedError` if it has none."""
    kind: type = type(value)
    return _reader(kind)(value)


@functools.cache
def _reader(kind: type) -> Callable[[Any], Any]:
    """Return the function that returns the part of a key for an argument of a type."""
    if kind in (int, bool, str, type(None)):
        return lambda value: (kind, value)  # 1, 1.0 and True are equal
    if kind is float:
        return float.hex  # unlike floats, differs for -0.0
    if kind is tuple:
        return lambda values: tuple(map(_part, values))
    if kind is np.ndarray:
        return lambda x: (x.dtype, x.shape, x.strides, x.flags.writeable)
    if is_plain_tensor(kind):
        return lambda x: (x.dtype, x.device, x.shape, x.stride())
    return _refuse


def _refuse(value: Any) -> Any:
    raise _UnplannedError


def is_array(value: Any) -> bool:
    """Return True for arrays of the kinds that plans support."""
    return type(value) is np.ndarray or is_plain_tensor(type(value))


def _is_constant(value: Any) -> bool:
    """Return True for kernel arguments that a plan may keep: numbers, dtypes, functions, tuples."""
    if type(value) is tuple:
        return all(map(_is_constant, value))
    return value is None or isinstance(value, int | float | str | Scalar | DeviceFunction)


def _address(array: Any) -> int:
    address: int = array.ctypes.data if type(array) is np.ndarray else array.data_ptr()
    return address
