"""How factors of products lie in shared memory, for groups of warps that read them from there.

A group's instruction takes a piece of a factor: of the rows m or columns n, and of k. Elements
that are neighbours along one of the axes are in one piece there, 32, 64 or 128 bytes of them; such
a *row* is followed by the next along the other axis, with its vectors of 16 bytes reordered by
XOR (`byte_swizzled`). Where the tile is wider than a row, the rest of it follows as a whole, so
that there are *strips*, each as wide as a row.

    >>> layout = factor_layout((64, 64), 16, along=1, piece=64)
    >>> strips_of(layout, 16)
    Strips(along=1, row_bytes=128, bytes=8192, itemsize=2)
    >>> strips_of(layout, 16).place(row=3, column=16)
    416
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from tile.simt.layouts.layout import LinearLayout
from tile.simt.layouts.swizzle import byte_swizzled

ROW_BYTES = (128, 64, 32)
# The bits of elements of which an instruction takes rows along m or n too, and not along k alone.
EITHER_WAY = frozenset({16})
ROWS = 8  # after which the order of the vectors in a row is the first one again


@dataclass(frozen=True)
class Strips:
    """A factor with rows of `row_bytes` along the axis `along`, in strips of so many bytes.

    `itemsize` is that of an element, in bytes.
    """

    along: int
    row_bytes: int
    bytes: int
    itemsize: int

    def place(self, row: int, column: int) -> int:
        """The byte where the element (row, column) would be if no vectors were reordered.

        From places at multiples of a vector of 16 bytes and of 8 rows that is where an instruction
        is told to begin: it reorders by the bits of the addresses itself.
        """
        across, inside = (row, column) if self.along == 1 else (column, row)
        strip, byte = divmod(inside * self.itemsize, self.row_bytes)
        return strip * self.bytes + across * self.row_bytes + byte


def row_bytes(piece: int, element_bits: int) -> int | None:
    """The widest row for pieces of so many elements; None if they are too narrow for any."""
    return next((width for width in ROW_BYTES if width * 8 <= piece * element_bits), None)


@lru_cache(maxsize=1024)
def factor_layout(
    shape: Sequence[int], element_bits: int, along: int, piece: int
) -> LinearLayout | None:
    """The layout of a factor whose neighbours along an axis are neighbours in memory.

    An instruction takes `piece` elements along it, or more. None if that is no whole row.
    """
    width = row_bytes(piece, element_bits)
    if width is None or shape[1 - along] < ROWS:
        return None
    return byte_swizzled(shape, element_bits, width, (along, 1 - along))


@lru_cache(maxsize=1024)
def strips_of(layout: LinearLayout, element_bits: int) -> Strips | None:
    """What a layout of rank 2 is as strips; None if it is none that `factor_layout` gives."""
    for along in (0, 1):
        for width in ROW_BYTES:
            piece = width * 8 // element_bits
            if layout.shape[along] < piece:
                continue
            if factor_layout(tuple(layout.shape), element_bits, along, piece) == layout:
                return Strips(along, width, layout.shape[1 - along] * width, element_bits // 8)
    return None
