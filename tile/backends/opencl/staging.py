"""Arrays of the host as a device has them: in place, or copied there and back.

Views of one array keep sharing memory: those whose bytes overlap are copied as one piece, from the
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
    """The address of an array as an argument, for devices that access the host's memory."""
    return None if array.size == 0 else at_address(array.ctypes.data)


def at_address(address: int) -> Any:
    """An address as an argument."""
    return cl.SVM((ctypes.c_char * 1).from_address(address))


def _bytes_at(low: int, high: int) -> Array:
    """Memory of the host as an array of bytes."""
    return np.ctypeslib.as_array((ctypes.c_uint8 * (high - low)).from_address(low))


def part_of(buffer: Any, offset: int, device: Device, name: str) -> Any:
    """A buffer from an offset in bytes on.

    Raises `ArgumentValueError` for an offset at which the device lets no part begin.
    """
    if offset == 0:
        return buffer
    step = device.raw.mem_base_addr_align // 8
    if offset % step:
        raise ArgumentValueError(
            f"argument {name!r} is a view that begins {offset} bytes into memory which another "
            f"argument shares or which lies before it; on this device it can begin at "
            f"multiples of {step} bytes"
        )
    return buffer.get_sub_region(offset, buffer.size - offset)


@dataclass
class Copied(Piece):
    """A piece, and its copy."""

    buffer: Any = None


@dataclass
class Staging:
    """The copies of one launch."""

    device: Device
    pieces: list[Copied] = field(default_factory=list)

    def stage(self, arrays: Sequence[Array], written: Sequence[bool]) -> None:
        """Copy arrays; `written` says which come back."""
        self.pieces = pieces(Copied, zip(arrays, written, strict=True))
        flags = cl.mem_flags.READ_WRITE | (
            cl.mem_flags.USE_HOST_PTR if self.device.shares_memory else cl.mem_flags.COPY_HOST_PTR
        )
        for piece in self.pieces:
            host = _bytes_at(piece.low, piece.high)
            piece.buffer = cl.Buffer(self.device.context, flags, hostbuf=host)

    def argument(self, array: Array, name: str) -> Any:
        """The buffer for an array, or the part of one; None for an empty array.

        Raises `ArgumentValueError` for a view that begins where the device lets no part begin.
        """
        if array.size == 0:
            return None
        address = array.ctypes.data
        piece = piece_at(self.pieces, address)
        assert piece is not None, "an array that was not staged"
        return part_of(piece.buffer, address - piece.low, self.device, name)

    def fetch(self) -> None:
        """Copy back what is written; where memory is shared, only see to it that it is there."""
        queue = self.device.queue
        for piece in self.pieces:
            if not piece.written:
                continue
            if self.device.shares_memory:
                reading = cl.map_flags.READ
                mapped, _ = cl.enqueue_map_buffer(
                    queue, piece.buffer, reading, 0, (piece.size,), np.dtype(np.uint8)
                )
                mapped.base.release(queue)
            else:
                cl.enqueue_copy(queue, _bytes_at(piece.low, piece.high), piece.buffer)
