"""Inline caches: built-in functions in front of a launch function, each for one of its entries.

Machine code (`inline_cache.ll`) tests the guards of an entry, notes its writes and repeats its
launch, and leaves all other calls to the launch function, or to the cache of another entry.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable, Sequence
from types import FunctionType
from typing import Any

import numpy as np

from tile.backends.capabilities import ArgumentGuard, CallGuards, FastLaunch
from tile.backends.nvptx.host_code import address_of, host_code, member_offset
from tile.backends.tensor_handles import TensorHandles

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
_ARGUMENT = struct.Struct("=QQQQQqqqQQQ4i")


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
    words += [len(guards.limits) + len(passed), *guards.limits, id(_BASE)]
    direct = (one.tensor_kind for one in guards.arguments if one.tensor_kind is not None)
    handles = next((kind.handles for kind in direct), None)
    kinds = [_kind(one, handles) for one in guards.arguments]
    bounds = _bounds(guards, kinds)
    fields = [one for one in guards.fields if not one.of_base or not any(kinds[one.argument])]
    words += [len(fields), len(guards.pairs), len(bounds)]
    words.append(address_of(ctypes.pythonapi.PyLong_FromVoidPtr))
    words += [0] * 9 if handles is None else [handles.offset, *handles.readers]
    data = [struct.pack("=QQ", id(state), truth) for state, truth in guards.states]
    data += [struct.pack("=QQ", id(read), id(result)) for read, result in guards.readings]
    data += [struct.pack("=Q", id(name)) for name in guards.names]
    data += [struct.pack("=Q", _varying(one)) for one in guards.arguments]
    arrays_last = sorted(enumerate(guards.arguments), key=lambda numbered: _is_array(numbered[1]))
    for at, one in arrays_last:
        position = len(guards.limits) + passed.index(at) if at in passed else 0
        where = _KINDS.index(one.kind), at + 1, position
        numbers = one.least, one.most, one.excluded, id(one.base) if one.base else one.residues
        member = member_offset(one.type, _BASE) if one.base else 0
        objects_of = id(one.type), id(one.object)
        data.append(_ARGUMENT.pack(*where, *objects_of, *numbers, member, *kinds[at]))
    for field in fields:
        method = getattr(tensor, field.name) if field.is_method else None
        objects.append(method)
        ids = id(field.name), 0 if method is None else id(method), id(field.value)
        owner = guards.arguments[field.argument].type
        member = 0 if field.of_base or method else member_offset(owner, field.name)
        data.append(struct.pack("=6Q", field.argument + 1, field.of_base, *ids, member))
    for at, numbers in bounds:
        objects.append(numbers)
        data.append(struct.pack("=3Q", at, len(numbers) // 2, numbers.ctypes.data))
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


def _kind(guard: ArgumentGuard, handles: TensorHandles | None) -> tuple[int, ...]:
    """Return the numbers of a tensor's kind; zeros if it is not read by such a handle."""
    kind = guard.tensor_kind
    return (0,) * 5 if kind is None or kind.handles != handles else kind[1:]


def _bounds(guards: CallGuards, kinds: Sequence[tuple[int, ...]]) -> list[tuple[int, Any]]:
    """Return the sizes and strides of bases that are read by handles, each with its tensor.

    Tensors are numbered in the order of arguments.
    """
    arrays = [at for at, one in enumerate(guards.arguments) if _is_array(one)]
    bounds: dict[int, list[int]] = {}
    for field in guards.fields:
        if field.of_base and any(kinds[field.argument]):
            bounds.setdefault(arrays.index(field.argument), []).extend(field.value)
    return [(at, np.array(numbers, np.int64)) for at, numbers in bounds.items()]


def _is_array(guard: ArgumentGuard) -> bool:
    """Return True for a tensor or a descriptor, which are tested after all other arguments."""
    return guard.kind in ("tensor", "descriptor")
