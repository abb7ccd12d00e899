"""The functions that XLA calls for launches: one for CPUs and one for NVIDIA GPUs.

They are Python functions behind a C signature (ctypes), so no C compiler is needed. A call takes
the GIL, some 20 us in all, and launches the kernel on XLA's own buffers.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NoReturn

import jax
import numpy as np

from tile.errors import BackendError
from tile.jax.call_frame import Buffer, CallFrame, Handler
from tile.jax.launches import LAUNCHES, Operand
from tile.runtime.arguments.device_arrays import Array, DeviceArray, contiguous_strides

TARGET = "tile_launch"
"""The name under which XLA has the handlers."""


@functools.cache
def register() -> None:
    """Register the handlers, once in a process."""
    jax.ffi.register_ffi_target(TARGET, jax.ffi.pycapsule(on_cpu), platform="cpu")
    jax.ffi.register_ffi_target(TARGET, jax.ffi.pycapsule(on_gpu), platform="CUDA")


def _handler(run: Callable[[CallFrame], None]) -> Any:
    """Return a C function that calls `run` with each call frame, and returns errors to XLA."""

    def handle(address: int) -> int | None:
        frame = CallFrame(address)
        if frame.answers():
            return None
        try:
            run(frame)
        except BaseException as error:  # noqa: BLE001 - C has no exceptions
            return frame.error(f"{type(error).__name__}: {error}")
        return None

    return Handler(handle)


@_handler
def on_cpu(frame: CallFrame) -> None:
    """Launch on buffers in host memory."""
    launch = LAUNCHES.find(frame.text)
    inputs, outputs = _dtypes(launch.arguments)
    launch.run(
        [_host_view(b, inputs.get(i), writes=False) for i, b in enumerate(frame.arguments)],
        [_host_view(b, outputs.get(i), writes=True) for i, b in enumerate(frame.results)],
    )


@_handler
def on_gpu(frame: CallFrame) -> None:
    """Launch on buffers in a GPU's memory, on the stream of the call."""
    launch = LAUNCHES.find(frame.text)
    inputs, outputs = _dtypes(launch.arguments)
    view = functools.partial(_device_view, frame.stream)
    launch.run(
        [view(b, inputs.get(i), writes=False) for i, b in enumerate(frame.arguments)],
        [view(b, outputs.get(i), writes=True) for i, b in enumerate(frame.results)],
    )


DType = np.dtype[Any]
BYTES = np.dtype(np.uint8)


def _dtypes(arguments: Any) -> tuple[dict[int, DType], dict[int, DType]]:
    """Return the dtypes of inputs and of outputs by index; arrays that no kernel gets have none."""
    operands = [leaf for leaf in jax.tree.leaves(arguments) if isinstance(leaf, Operand)]
    return (
        {one.index: one.dtype for one in operands if not one.is_output},
        {one.index: one.dtype for one in operands if one.is_output},
    )


class _HostMemory:
    """Memory that NumPy makes an array of."""

    def __init__(self, address: int, size: int, *, writes: bool) -> None:
        self.__array_interface__ = {
            "data": (address, not writes),
            "shape": (size,),
            "typestr": "|u1",
            "version": 3,
        }


def _host_view(buffer: Buffer, dtype: DType | None, *, writes: bool) -> Array | None:
    if dtype is None:
        return None
    size = int(np.prod(buffer.shape, dtype=np.int64)) * dtype.itemsize
    if size == 0:
        return np.empty(buffer.shape, dtype)
    raw = np.asarray(_HostMemory(buffer.address, size, writes=writes))
    return raw.view(dtype).reshape(buffer.shape)


def _device_view(
    stream: int, buffer: Buffer, dtype: DType | None, *, writes: bool
) -> DeviceArray | None:
    if dtype is None:
        return None
    return DeviceArray(
        source=None,
        device="cuda",
        dtype=dtype,
        shape=buffer.shape,
        strides=contiguous_strides(buffer.shape, dtype.itemsize),
        address=buffer.address,
        fetch=_no_copies,
        put=_no_copies,
        writeable=writes,
        stream=stream,
    )


def _no_copies(*values: Any) -> NoReturn:
    raise BackendError(
        "JAX runs this program on a GPU, and the kernel was to run elsewhere, which the memory of "
        "a compiled program cannot be copied to: let it run there, or run JAX on the CPU "
        "(JAX_PLATFORMS=cpu)"
    )
