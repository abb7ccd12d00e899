"""OpenCL memory as a kernel argument: pyopencl's arrays, buffers and shared virtual memory.

It is recognized by the module of its class, so that pyopencl is not imported. A buffer or an
allocation without a dtype has elements of type uint8.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tile.errors import ArgumentTypeError
from tile.runtime.arguments.device_arrays import Array, DeviceArray, element_type

DEVICE = "opencl"
# Memory objects are aligned to 2**_BASE_BITS bytes. A handle shifted by it serves as an address.
_BASE_BITS = 12


def is_opencl(kind: type) -> bool:
    """Return True if a class is one of pyopencl's."""
    return str(kind.__module__).partition(".")[0] == "pyopencl"


def opencl_array(value: Any, label: str) -> DeviceArray:
    """Return OpenCL memory as a `DeviceArray`; the device is named by its handle, if known.

    Raises `ArgumentTypeError` for other objects, and for elements that kernels do not support.
    """
    if hasattr(value, "base_data"):
        return _array(value, label)
    if hasattr(value, "svm_ptr"):
        return _shared(value, label)
    if hasattr(value, "int_ptr") and hasattr(value, "size") and hasattr(value, "context"):
        return _bytes(value, f"{DEVICE}:{value.context.devices[0].int_ptr}", _address(value))
    raise ArgumentTypeError(
        f"{label} is a {type(value).__name__} of pyopencl; a kernel takes its arrays, buffers and "
        "shared virtual memory"
    )


def _address(memory: Any) -> int:
    pointer = getattr(memory, "svm_ptr", None)
    return int(memory.int_ptr) << _BASE_BITS if pointer is None else int(pointer)


def _array(value: Any, label: str) -> DeviceArray:
    dtype = np.dtype(value.dtype)
    element_type(dtype, label)
    shape = tuple(value.shape)
    base = value.base_data
    queue = value.queue
    has_queue = queue is not None
    return DeviceArray(
        source=value,
        device=f"{DEVICE}:{queue.device.int_ptr}" if has_queue else DEVICE,
        dtype=dtype,
        shape=shape,
        strides=tuple(value.strides),
        address=0 if base is None else _address(base) + value.offset,
        fetch=value.get,
        put=lambda host: value.set(np.ascontiguousarray(host).reshape(shape)),
    )


def _shared(value: Any, label: str) -> DeviceArray:
    """Return shared virtual memory, with the dtype of the array that it was made from."""
    host = getattr(value, "mem", None)
    if not isinstance(host, np.ndarray):
        return _bytes(value, DEVICE, int(value.svm_ptr))
    element_type(host.dtype, label)
    return DeviceArray(
        source=value,
        device=DEVICE,
        dtype=host.dtype,
        shape=host.shape,
        strides=host.strides,
        address=host.ctypes.data,
        writeable=bool(host.flags.writeable),
        fetch=lambda: host,
        put=lambda array: np.copyto(host, array),
    )


def _bytes(value: Any, device: str, address: int) -> DeviceArray:
    refuse = _refusal(type(value).__name__)
    return DeviceArray(
        source=value,
        device=device,
        dtype=np.dtype(np.uint8),
        shape=(int(value.size),),
        strides=(1,),
        address=address,
        fetch=refuse,
        put=refuse,
    )


def _refusal(kind: str) -> Callable[..., Array]:
    def refuse(*_: object) -> Array:
        raise ArgumentTypeError(
            f"a {kind} of pyopencl has no queue to copy it to the host, as other backends need; "
            "pass a pyopencl.array.Array of it"
        )

    return refuse
