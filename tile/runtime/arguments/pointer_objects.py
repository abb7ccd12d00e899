"""Objects with only an address and a dtype, as some libraries pass in place of tensors.

They have `data_ptr()`, `dtype` and `shape`, and may have `stride()` (in elements) and `device`. The
memory belongs to the object, which the launch keeps alive.
"""

from __future__ import annotations

import ctypes
from typing import Any, NoReturn

import numpy as np

from tile.backends.base import footprint
from tile.errors import ArgumentTypeError
from tile.runtime.arguments.device_arrays import Array, DeviceArray, DType, contiguous_strides

CPU = "cpu"


def is_pointer_object(value: object) -> bool:
    """Return True for objects with an address and a dtype."""
    return hasattr(value, "data_ptr") and hasattr(value, "dtype")


def pointer_object_array(value: Any, dtype: DType, label: str) -> Array | DeviceArray:
    """Return the memory of such an object. Raises `ArgumentTypeError` if it has no shape."""
    shape = getattr(value, "shape", None)
    if shape is None:
        raise ArgumentTypeError(
            f"{label} is a {type(value).__name__} with an address and no `shape`, so that the end "
            "of its memory is unknown; give it a `shape`, or pass the tensor"
        )
    extents = tuple(map(int, shape))
    strides = tuple(step * dtype.itemsize for step in _strides(value, extents))
    address = int(value.data_ptr())
    device = str(getattr(value, "device", CPU))
    if device.partition(":")[0] != CPU:
        return DeviceArray(
            source=value,
            device=device,
            dtype=dtype,
            shape=extents,
            strides=strides,
            address=address,
            fetch=lambda: _refuse_copy(value, label),
            put=lambda host: _refuse_copy(value, label),
        )
    low, high = footprint(extents, strides, dtype.itemsize)
    if low == high:
        return np.empty(extents, dtype)
    memory = (ctypes.c_char * (high - low)).from_address(address + low)
    memory.owner = value  # type: ignore[attr-defined] # keeps the object alive with the array
    return np.ndarray(extents, dtype, memoryview(memory), -low, strides)


def _strides(value: Any, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the strides in elements; those of a contiguous array if the object has none."""
    if callable(getattr(value, "stride", None)):
        return tuple(map(int, value.stride()))
    return contiguous_strides(shape)


def _refuse_copy(value: object, label: str) -> NoReturn:
    raise ArgumentTypeError(
        f"{label} is a {type(value).__name__} in a device's memory, which cannot be copied to the "
        "host; run the kernel on that device, or pass the tensor"
    )
