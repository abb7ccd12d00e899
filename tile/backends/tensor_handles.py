"""Handles of PyTorch's tensors, by which machine code reads them without PyTorch's Python objects.

A handle is the address of a C++ `at::Tensor`, as PyTorch's stable C interface takes it
(`torch/csrc/inductor/aoti_torch/c/shim.h`). A tensor of Python has one inside: a word that is the
address of its implementation, which `tensor._cdata` tells. So its offset is found by looking.

A property of a tensor takes 2 to 5 ns by a handle, and 40 to 110 as an attribute. Nothing here
imports torch: a caller with tensors has imported it.
"""

from __future__ import annotations

import ctypes
import functools
import sys
from typing import Any, NamedTuple

_PREFIX = "aoti_torch_get_"
_NUMBERS = ("dtype", "device_type", "device_index", "layout")  # integers of 32 bits
_READERS = (*_NUMBERS, "dim", "sizes", "strides", "data_ptr")
_WORD = 8
_READER = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p)


class TensorHandles(NamedTuple):
    """The offset of the handle in a tensor of Python, and the functions that take one.

    readers: the addresses of the functions for `dtype`, `device_type`, `device_index`, `layout`,
    `dim`, `sizes`, `strides` and `data_ptr`. Each takes a handle and the address of its result, and
    returns 0, or another number for an error.
    """

    offset: int
    readers: tuple[int, ...]


class TensorKind(NamedTuple):
    """The kind of a tensor: equal ones are of one C++ class, dtype, device and layout.

    implementation: the address of the virtual methods of its implementation, which differs for
    tensors without memory, such as those inside of `torch.vmap`. The others are PyTorch's numbers.
    """

    handles: TensorHandles
    implementation: int
    dtype: int
    device_type: int
    device_index: int
    layout: int


def tensor_kind(tensor: Any) -> TensorKind | None:
    """Return the kind of a plain tensor; None if it cannot be read by its handle."""
    readers = _readers(sys.modules.get("torch"))
    offset = None if readers is None else _offset(tensor)
    if readers is None or offset is None:
        return None
    numbers = []
    for address in readers[: len(_NUMBERS)]:
        result = ctypes.c_int32()
        if _READER(address)(id(tensor) + offset, ctypes.addressof(result)):
            return None
        numbers.append(result.value)
    return TensorKind(TensorHandles(offset, readers), _word(tensor._cdata), *numbers)


@functools.lru_cache(maxsize=4)
def _readers(torch: Any) -> tuple[int, ...] | None:
    file = getattr(getattr(torch, "_C", None), "__file__", None)
    if file is None or sys.implementation.name != "cpython":
        return None
    try:
        library = ctypes.CDLL(file)  # finds symbols of its dependencies, too
        functions = [getattr(library, _PREFIX + name) for name in _READERS]
    except (AttributeError, OSError):
        return None
    return tuple(ctypes.cast(one, ctypes.c_void_p).value or 0 for one in functions)


def _offset(tensor: Any) -> int | None:
    """Return the offset of the only word of a tensor that is the address of its implementation."""
    implementation = getattr(tensor, "_cdata", None)
    offsets = range(object.__basicsize__, type(tensor).__basicsize__, _WORD)
    equal = [at for at in offsets if _word(id(tensor) + at) == implementation]
    return equal[0] if len(equal) == 1 else None


def _word(address: int) -> int:
    return ctypes.c_uint64.from_address(address).value
