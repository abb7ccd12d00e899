"""Pass host arrays to a device: by address, or copied to the device and back.

Views of one array keep sharing memory: arrays whose bytes overlap are copied as one range, from the
first byte to the last.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyopencl as cl

from tile.backends.host_memory import Array, Piece, piece_at, pieces
from tile.backends.opencl.devices import Device
from tile.errors import ArgumentValueError


def in_place(array: Array) -> Any:
    """Return an array's address as an argument, for devices that access the host's memory."""
    return None if array.size == 0 else at_address(array.ctypes.data)


def at_address(address: int) -> Any:
    """Return a host address as an argument."""
    return cl.SVM((ctypes.c_char * 1).from_address(address))


def _bytes_at(low: int, high: int) -> Array:
    """Return host memory as an array of bytes."""
    return np.ctypeslib.as_array((ctypes.c_uint8 * (high - low)).from_address(low))


def sub_buffer(buffer: Any, offset: int, device: Device, name: str) -> Any:
    """Return the sub-buffer from an offset in bytes to the end.

    Raises `ArgumentValueError` if the device does not allow a sub-buffer at that offset.
    """
    if offset == 0:
        return buffer
    alignment = device.raw.mem_base_addr_align // 8
    if offset % alignment:
        raise ArgumentValueError(
            f"argument {name!r} is a view that begins {offset} bytes into memory which another "
            f"argument shares or which lies before it; on this device it can begin at "
            f"multiples of {alignment} bytes"
        )
    return buffer.get_sub_region(offset, buffer.size - offset)


@dataclass
class StagedRange(Piece):
    """A range of host memory and its copy on the device."""

    buffer: Any = None


@dataclass
class Staging:
    """The device copies of the host arrays of one launch."""

    device: Device
    ranges: list[StagedRange] = field(default_factory=list)

    def stage(self, arrays: Sequence[Array], written: Sequence[bool]) -> None:
        """Copy arrays to the device; those that are `written` are copied back by `fetch`."""
        self.ranges = pieces(StagedRange, zip(arrays, written, strict=True))
        flags = cl.mem_flags.READ_WRITE | (
            cl.mem_flags.USE_HOST_PTR if self.device.shares_memory else cl.mem_flags.COPY_HOST_PTR
        )
        for staged in self.ranges:
            host = _bytes_at(staged.low, staged.high)
            staged.buffer = cl.Buffer(self.device.context, flags, hostbuf=host)

    def argument(self, array: Array, name: str) -> Any:
        """Return the buffer or sub-buffer that holds an array; None for an empty array.

        Raises `ArgumentValueError` for a view at whose offset the device allows no sub-buffer.
        """
        if array.size == 0:
            return None
        address = array.ctypes.data
        staged = piece_at(self.ranges, address)
        assert staged is not None, "an array that was not staged"
        return sub_buffer(staged.buffer, address - staged.low, self.device, name)

    def fetch(self) -> None:
        """Copy written arrays back; if the device shares memory, only map them for the host."""
        queue = self.device.queue
        for staged in self.ranges:
            if not staged.written:
                continue
            if self.device.shares_memory:
                reading = cl.map_flags.READ
                mapped, _ = cl.enqueue_map_buffer(
                    queue, staged.buffer, reading, 0, (staged.size,), np.dtype(np.uint8)
                )
                mapped.base.release(queue)
            else:
                cl.enqueue_copy(queue, _bytes_at(staged.low, staged.high), staged.buffer)
