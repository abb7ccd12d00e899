"""Generated functions that compute the key of a call, and find its plan.

A function is for some types of the arguments, and has a number, the first part of its keys. For
softmax(x) it is

    def read(x, axis, out):
        try:
            key = (7, <backend and checks>, x.dtype, x.get_device(), x.shape, x.stride(), axis)
            plan = plans.get(key)
        except unreadable:
            return ordinary(x, axis, out)
        if recorder() is not None or observer() is not None:
            return ordinary(x, axis, out)
        if plan is None:
            return record(key, (x, axis, out))
        return plan(x, axis, out)
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from tile.config import Config, config
from tile.frontend.python.source import DeviceFunction
from tile.ops.core.array_arguments import is_array
from tile.ops.core.list_keys import LISTS, ListKeys, UnplannedError, same_items
from tile.ops.core.recorder import RECORDER
from tile.runtime.arguments.torch_tensors import is_plain_tensor, only_cuda_numbered
from tile.runtime.key_parts import UNREADABLE, scoped_settings
from tile.runtime.launch_hooks import active_observer

Accept = Callable[[Any], bool]

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


def reader_text(
    number: int, arguments: Mapping[str, Any], varying: Mapping[str, Accept]
) -> str | None:
    """Return the text of the function for arguments of such types; None for types without keys.

    varying: for each argument that is not part of the key, a function that returns True for values
        that a plan may take.
    """
    read = {name: value for name, value in arguments.items() if name not in varying}
    parts = [f"{number}", "~backend() if ~own(None) is None else ~scoped()", "~checking()"]
    for name, value in read.items():
        own = _parts(name, value)
        if own is None:
            return None
        parts += own
    arrays = [name for name, value in read.items() if is_array(value)]
    parts += [f"{one} is {other}" for one, other in itertools.combinations(arrays, 2)]
    lists = [name for name, value in read.items() if type(value) in LISTS]
    parts += [_list_part(lists[:at], name) for at, name in enumerate(lists)]
    checks = [f"if not ~accept_{name}({name}): raise ~unplanned" for name in varying]
    return _READER.format(
        parameters=", ".join(arguments),
        checks="\n        ".join(checks) or "pass",
        key=f"({', '.join(parts)})",
    )


def reader_names(varying: Mapping[str, Accept], lists: ListKeys) -> dict[str, Any]:
    """Return what names in the text stand for, but for the op's own functions."""
    variables = Config.variables()
    return {
        "unreadable": UNREADABLE,
        "recorder": RECORDER.get,
        "observer": active_observer.get,
        "own": config.own.get,
        "scoped": scoped_settings,
        "backend": variables["backend"].text_reader(),
        "checking": variables["sanitize"].text_reader(),
        "list_number": lists.number,
        "same": same_items,
        "unplanned": UnplannedError,
        **{f"accept_{name}": accept for name, accept in varying.items()},
    }


def _parts(word: str, value: Any) -> list[str] | None:
    """Return the source of an argument's parts of the key; None if its type is not supported.

    Keys have no types of arguments, as each function has keys of its own.
    """
    kind: type = type(value)
    if value is None or kind in LISTS:  # see `_list_part`
        return []
    if kind in (int, bool, str) or isinstance(value, DeviceFunction):
        return [word]
    if kind is float:
        return [f"{word}.hex()"]  # unlike floats, differs for -0.0
    if kind is np.ndarray:
        return [f"{word}.dtype", f"{word}.shape", f"{word}.strides", f"{word}.flags.writeable"]
    if is_plain_tensor(kind):
        return [f"{word}.dtype", _device(word), f"{word}.shape", f"{word}.stride()"]
    return None


def _list_part(earlier: Sequence[str], word: str) -> str:
    """Return the source of a list's part of the key: which of some lists it is, or its number."""
    tests = [f"{-1 - at} if {_same(one, word)} else " for at, one in enumerate(earlier)]
    return f"{''.join(tests)}~list_number({word})"


def _same(one: str, other: str) -> str:
    """Return the source of a test that two lists have the same items; most differ in the first."""
    first = f"{one} and {other} and {one}[0] is {other}[0]"
    return f"{one} is {other} or {first} and ~same({one}, {other})"


def _device(word: str) -> str:
    """Return the source of a tensor's device: its number, which is faster to read, if it has one.

    Without memory, or in that of the host, it is negative.
    """
    if not only_cuda_numbered():
        return f"{word}.device"
    return f"(~at if (~at := {word}.get_device()) >= 0 else {word}.device)"
