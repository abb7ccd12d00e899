"""Shared-memory layouts of wgmma operands.

A wgmma reads a tile of an operand: of the rows m or columns n, and of k. Along one of the axes, 32,
64 or 128 bytes of elements are contiguous; such a *row* is followed by the next along the other
axis, with its vectors of 16 bytes permuted by XOR (`byte_swizzled`). Where the tile is wider than a
row, it is divided into *strips* of the width of a row, which follow each other.

    >>> layout = factor_layout((64, 64), 16, along=1, extent=64)
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
# The element widths, in bits, that wgmma accepts MN-major as well as K-major.
EITHER_WAY = frozenset({16})
ROWS = 8  # the period of the swizzle


@dataclass(frozen=True)
class Strips:
    """An operand with rows of `row_bytes` along the axis `along`, in strips of `bytes` bytes.

    `itemsize` is that of an element, in bytes.
    """

    along: int
    row_bytes: int
    bytes: int
    itemsize: int

    def place(self, row: int, column: int) -> int:
        """Return the byte offset of the element (row, column) before swizzling.

        At multiples of a 16-byte vector and of 8 rows this is the start address for an
        instruction's matrix descriptor: the hardware swizzles by address bits itself.
        """
        across, inside = (row, column) if self.along == 1 else (column, row)
        strip, byte = divmod(inside * self.itemsize, self.row_bytes)
        return strip * self.bytes + across * self.row_bytes + byte


def row_bytes(extent: int, element_bits: int) -> int | None:
    """Return the widest row for `extent` elements; None if they are too narrow for any."""
    return next((width for width in ROW_BYTES if width * 8 <= extent * element_bits), None)


@lru_cache(maxsize=1024)
def factor_layout(
    shape: Sequence[int], element_bits: int, along: int, extent: int
) -> LinearLayout | None:
    """Return the layout of an operand that is contiguous along an axis in memory.

    An instruction takes at least `extent` elements along it. None if that is less than a row.
    """
    width = row_bytes(extent, element_bits)
    if width is None or shape[1 - along] < ROWS:
        return None
    return byte_swizzled(shape, element_bits, width, (along, 1 - along))


@lru_cache(maxsize=1024)
def strips_of(layout: LinearLayout, element_bits: int) -> Strips | None:
    """Return a layout of rank 2 as strips; None if it is none that `factor_layout` returns."""
    for along in (0, 1):
        for width in ROW_BYTES:
            extent = width * 8 // element_bits
            if layout.shape[along] < extent:
                continue
            if factor_layout(tuple(layout.shape), element_bits, along, extent) == layout:
                return Strips(along, width, layout.shape[1 - along] * width, element_bits // 8)
    return None
