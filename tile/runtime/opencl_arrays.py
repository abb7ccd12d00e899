"""Memory of OpenCL as a kernel argument: pyopencl's arrays, buffers and shared virtual memory.

Known by the module of its class, so that nothing is imported for those who have none. A buffer and
an allocation without a dtype are bytes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tile.errors import ArgumentTypeError
from tile.runtime.device_arrays import DeviceArray
from tile.runtime.elements import Array, element_type

DEVICE = "opencl"
# Memory objects begin at multiples of this in bytes; a handle, so moved up, stands for an address.
_BASE_BITS = 12


def is_opencl(kind: type) -> bool:
    """Whether a class is one of pyopencl's."""
    return str(kind.__module__).partition(".")[0] == "pyopencl"


def opencl_array(value: Any, label: str) -> DeviceArray:
    """Memory of OpenCL as a `DeviceArray`; its device is named by its handle, where it is known.

    Raises `ArgumentTypeError` for what is no memory, or has elements that kernels cannot work on.
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
    known = queue is not None
    return DeviceArray(
        source=value,
        device=f"{DEVICE}:{queue.device.int_ptr}" if known else DEVICE,
        dtype=dtype,
        shape=shape,
        strides=tuple(value.strides),
        address=0 if base is None else _address(base) + value.offset,
        writeable=True,
        fetch=value.get,
        put=lambda host: value.set(np.ascontiguousarray(host).reshape(shape)),
    )


def _shared(value: Any, label: str) -> DeviceArray:
    """Shared virtual memory, with the dtype of what it was made of."""
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
        writeable=True,
        fetch=refuse,
        put=refuse,
    )


def _refusal(kind: str) -> Callable[..., Array]:
    def refuse(*_: object) -> Array:
        raise ArgumentTypeError(
            f"a {kind} of pyopencl has no queue by which it could be copied to the host, as other "
            "backends need it; give a pyopencl.array.Array of it"
        )

    return refuse
