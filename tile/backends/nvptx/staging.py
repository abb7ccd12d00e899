"""Arrays in the host's memory, copied to the device for a launch and back after it.

Views of one array keep sharing memory: those whose bytes overlap are copied as one piece, from the
first byte to the last. An array of pointers is copied with the addresses that its targets have on
the device.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from tile.backends.host_memory import Array, Piece, piece_at, pieces
from tile.backends.nvptx import driver
from tile.errors import ArgumentValueError

# Copies lie at addresses that agree with the host's modulo this, so that what is known of an
# array's alignment stays true of its copy.
ALIGNMENT = 256


@dataclass
class Copied(Piece):
    """A piece, and where its copy is."""

    base: int = 0  # what was allocated
    shift: int = 0  # from the host's addresses to the device's


@dataclass
class Staging:
    """The copies of one launch. `close` frees them."""

    stream: int
    pieces: list[Copied] = field(default_factory=list)
    tables: list[int] = field(default_factory=list)  # copies of arrays of pointers

    def stage(self, arrays: Sequence[Array], written: Sequence[bool]) -> None:
        """Copy arrays, and all that they point to; `written` says which come back."""
        self.pieces = pieces(
            Copied,
            (
                (target, changes)
                for array, changes in zip(arrays, written, strict=True)
                for target in _leaves(array)
            ),
        )
        for piece in self.pieces:
            piece.base = driver.allocate(piece.size + ALIGNMENT)
            address = piece.base + (piece.low - piece.base) % ALIGNMENT
            piece.shift = address - piece.low
            driver.to_device(address, piece.low, piece.size, self.stream)

    def address(self, array: Array) -> int:
        """Where an array's first element is on the device; 0 for an empty one."""
        if array.size == 0:
            return 0
        if getattr(array, "targets", None) is None:
            return self._moved(array.ctypes.data)
        if not array.flags.c_contiguous:
            raise ArgumentValueError(
                "an array of pointers that is copied to a device is contiguous; "
                f"this one has strides {array.strides}"
            )
        flat = np.array([self._moved(int(x)) for x in array.view(np.int64).ravel()], np.int64)
        table = driver.allocate(flat.nbytes)
        self.tables.append(table)
        driver.to_device(table, flat.ctypes.data, flat.nbytes, self.stream)
        driver.wait(self.stream, "copying an array of pointers")  # `flat` goes away
        return table

    def _moved(self, address: int) -> int:
        """The device's address for one of the host's; that itself where it is in no piece."""
        piece = piece_at(self.pieces, address)
        return address if piece is None else address + piece.shift

    def fetch(self) -> None:
        """Copy back what is written."""
        for piece in self.pieces:
            if piece.written:
                driver.to_host(piece.low, piece.low + piece.shift, piece.size, self.stream)

    def close(self) -> None:
        """Free the copies."""
        for address in [*(piece.base for piece in self.pieces if piece.base), *self.tables]:
            driver.free(address)


def _leaves(array: Array) -> Iterator[Array]:
    """The arrays that hold numbers: the array itself, or those that it points to."""
    targets = getattr(array, "targets", None)
    if targets is None:
        yield array
        return
    for target in targets:
        yield from _leaves(target)
