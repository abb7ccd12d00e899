"""Inline caches: built-in functions in front of a launch function, each for one of its entries.

Machine code (`inline_cache.ll`) tests the guards of an entry, notes its writes and repeats its
launch, and leaves all other calls to the launch function, or to the cache of another entry.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from types import FunctionType
from typing import Any

from tile.backends.capabilities import ArgumentGuard, CallGuards, FastLaunch
from tile.backends.nvptx.host_code import host_code

_API = (
    "PyObject_IsTrue",
    "PyObject_CallNoArgs",
    "PyObject_GetAttr",
    "PyObject_Vectorcall",
    "PyLong_AsLong",
    "PyObject_RichCompareBool",
    "PyErr_Clear",
    "Py_IncRef",
    "Py_DecRef",
    "PyDict_Copy",
    "PyDict_SetItem",
)
_KINDS = (
    "constant",
    "tensor",
    "number",
    "passed",
    "descriptor",
)  # by their numbers in `inline_cache.ll`
_ARGUMENT = struct.Struct("=QQQQQqqqQ")


def inline_cache(
    guards: CallGuards,
    note: Callable[..., Any],
    repeat: FastLaunch,
    kernel: Any,
    otherwise: Callable[..., Any],
) -> Callable[..., Any]:
    """Return a function of a grid and arguments; see `BoundLaunch.inline_cache`."""
    code = host_code("inline_cache", *_API, named=True)
    if code is None:
        return otherwise
    tensors = [one.base or one.type for one in guards.arguments if _is_array(one)]
    tensor = tensors[0] if tensors else None
    template = _template(guards)
    objects = [otherwise, note, repeat, kernel, True, tuple, int, 1, "dtype"]
    objects += [getattr(tensor, "get_device", None), getattr(tensor, "data_ptr", None)]
    objects += [FunctionType, template, "nbytes", getattr(tensor, "is_contiguous", None)]
    objects.append(guards.length)
    words = [id(one) for one in objects]
    words += [len(guards.states), len(guards.readings)]
    words += [len(guards.arguments) - len(guards.names), len(guards.names)]
    passed = [at for at, one in enumerate(guards.arguments) if one.kind != "constant"]
    words += [len(guards.limits) + len(passed), *guards.limits, id(_BASE), len(guards.fields)]
    words.append(len(guards.pairs))
    data = [struct.pack("=QQ", id(state), truth) for state, truth in guards.states]
    data += [struct.pack("=QQ", id(read), id(result)) for read, result in guards.readings]
    data += [struct.pack("=Q", id(name)) for name in guards.names]
    data += [struct.pack("=Q", _varying(one)) for one in guards.arguments]
    arrays_last = sorted(enumerate(guards.arguments), key=lambda numbered: _is_array(numbered[1]))
    for at, one in arrays_last:
        position = len(guards.limits) + passed.index(at) if at in passed else 0
        where = _KINDS.index(one.kind), at + 1, position
        numbers = one.least, one.most, one.excluded, id(one.base) if one.base else one.residues
        data.append(_ARGUMENT.pack(*where, id(one.type), id(one.object), *numbers))
    for field in guards.fields:
        method = getattr(tensor, field.name) if field.is_method else None
        objects.append(method)
        ids = id(field.name), 0 if method is None else id(method), id(field.value)
        data.append(struct.pack("=5Q", field.argument + 1, field.of_base, *ids))
    data += [struct.pack("=QQ", *pair) for pair in guards.pairs]
    launch: Callable[..., Any] = code.function(words, b"".join(data), (guards, objects))
    return launch


_BASE = "base"


def _template(guards: CallGuards) -> dict[str, Any]:
    """Return what a grid function gets; items that vary, which each call sets, are None."""
    passed = {one.name: one.object for one in guards.arguments if one.name}
    return {**guards.constants, **passed}


def _varying(guard: ArgumentGuard) -> int:
    """Return the address of an argument's name if a grid function gets each call's value; or 0."""
    return id(guard.name) if guard.name and guard.kind != "constant" else 0


def _is_array(guard: ArgumentGuard) -> bool:
    """Return True for a tensor or a descriptor, which are tested after all other arguments."""
    return guard.kind in ("tensor", "descriptor")
