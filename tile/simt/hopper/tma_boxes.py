"""Layouts of descriptor blocks in shared memory that TMA copies, and the TMA boxes of a block.

TMA copies a *box*: up to 256 elements along each of up to 5 axes, stored row after row. A *row* is
the box's extent along the last axis, of 32, 64 or 128 bytes if TMA swizzles them (`byte_swizzled`).
A block that is wider than a row is divided into *strips*, which follow each other; in a strip, the
rows of all outer axes follow each other in row-major order.

    >>> layout = block_layout((2, 64, 128), 16)
    >>> block_strips(layout, 16)
    BlockStrips(shape=(2, 64, 128), element_bits=16, row_bytes=128, swizzle=128, extents=())
    >>> block_strips(layout, 16).box_dim
    (2, 64, 64)
    >>> [(box.byte, box.start) for box in block_strips(layout, 16).boxes()]
    [(0, (0, 0, 0)), (16384, (0, 0, 64))]

The hardware swizzles by address bits, with a period of 8 rows. So fewer rows are not swizzled if
there are several strips, since a strip would not start with a period.

In im2col mode, pixels and channels have limits of their own (`reason_against`).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from tile.analysis.uniformity import launch_value
from tile.ir.core import Operation
from tile.ir.ops.descriptor import OFFSET_BITS
from tile.simt.hopper.wgmma_layouts import ROW_BYTES, ROWS, row_bytes
from tile.simt.layouts.blocked import grid_of, row_major
from tile.simt.layouts.dims import OFFSET
from tile.simt.layouts.linear_layout import LinearLayout
from tile.simt.layouts.swizzle import byte_swizzled
from tile.simt.ops.tma import MAX_RANK

MAX_BOX = 256  # elements of a box along an axis
TMA_ALIGNMENT = 128  # of a box in shared memory, in bytes (PTX ISA, "cp.async.bulk.tensor")
VECTOR_BYTES = 16  # of which the last extent of a box, in bytes, is a multiple


class Box(NamedTuple):
    """A TMA box: its first byte in the buffer, and the index of its first element in the block."""

    byte: int
    start: tuple[int, ...]


class SplitBlock(NamedTuple):
    """The TMA boxes of a block that two programs load, half each.

    pairs: a box of the first half of the buffer's bytes, and one of the second, which begins at the
        byte `middle`. The boxes have the extents `box_dim`.
    """

    box_dim: tuple[int, ...]
    middle: int
    pairs: tuple[tuple[Box, Box], ...]


@dataclass(frozen=True)
class BlockStrips:
    """A block in strips with rows of `row_bytes`; `swizzle` is the width of the swizzle, or 0.

    extents: those of the part of a block that is copied, in whole strips; empty for all.
    """

    shape: tuple[int, ...]
    element_bits: int
    row_bytes: int
    swizzle: int
    extents: tuple[int, ...] = ()

    @property
    def width(self) -> int:
        """The elements of a row."""
        return self.row_bytes * 8 // self.element_bits

    @property
    def copied(self) -> tuple[int, ...]:
        """The extents of what is copied."""
        *outer, columns = self.extents or self.shape
        return *outer, -(-columns // self.width) * self.width

    @property
    def bytes(self) -> int:
        """The bytes that are copied."""
        return math.prod(self.copied) * self.element_bits // 8

    @property
    def end(self) -> int:
        """The byte after the last one that is copied."""
        rows = math.prod(self.box_dim[:-1]) * self.row_bytes
        return max(box.byte for box in self.boxes()) + rows

    @property
    def count(self) -> int:
        """The number of strips."""
        return self.copied[-1] // self.width

    @property
    def box_dim(self) -> tuple[int, ...]:
        """The extents of a box: the largest one whose rows follow each other in a strip."""
        extents = [self.width]
        whole = True  # the box has all elements of the axes so far
        for extent in reversed(self.copied[:-1]):
            extents.append(min(extent, MAX_BOX) if whole else 1)
            whole = whole and extent <= MAX_BOX
        return tuple(reversed(extents))

    @property
    def whole_box_dim(self) -> tuple[int, ...] | None:
        """The extents of a box with all strips, along an axis in front; None if there is none.

        Such a box is of the array as one of strips x outer axes x elements of a row. So the array's
        last extent and the index of the block along it are multiples of a row.
        """
        fits = 1 < self.count <= MAX_BOX and len(self.shape) < MAX_RANK
        rows = self.box_dim[:-1] == self.copied[:-1]
        return (self.count, *self.box_dim) if fits and rows else None

    @property
    def split(self) -> SplitBlock | None:
        """The block in two parts of half of its bytes; None if TMA does not copy these."""
        dims = self.box_dim
        boxes = list(self.boxes(dims))
        if len(boxes) % 2:
            rows = [axis for axis, extent in enumerate(dims[:-1]) if extent > 1]
            if not rows or dims[rows[0]] % 2:
                return None
            dims = tuple([n // 2 if axis == rows[0] else n for axis, n in enumerate(dims)])
            boxes = list(self.boxes(dims))
        middle = len(boxes) // 2
        pairs = tuple(zip(boxes[:middle], boxes[middle:], strict=True))
        apart = boxes[middle].byte
        alignment = ROWS * self.row_bytes if self.swizzle else TMA_ALIGNMENT
        if any(low.byte % alignment or high.byte - low.byte != apart for low, high in pairs):
            return None
        return None if apart % alignment else SplitBlock(dims, apart, pairs)

    def boxes(self, box_dim: tuple[int, ...] | None = None) -> Iterator[Box]:
        """Yield the boxes of the block, strip by strip; of other extents, if some are passed."""
        outer, (*rows, columns) = self.shape[:-1], self.copied
        *steps, width = box_dim or self.box_dim
        starts = [range(0, extent, step) for extent, step in zip(rows, steps, strict=True)]
        strip_bytes = math.prod(outer) * self.row_bytes
        for strip, column in enumerate(range(0, columns, width)):
            for start in itertools.product(*starts):
                row = 0
                for index, extent in zip(start, outer, strict=True):
                    row = row * extent + index
                yield Box(strip * strip_bytes + row * self.row_bytes, (*start, column))


@lru_cache(maxsize=1024)
def block_layout(shape: Sequence[int], element_bits: int) -> LinearLayout:
    """Return the layout in which a block is copied with the widest swizzle that it can have."""
    rows, columns = math.prod(shape[:-1]), shape[-1]
    swizzle = row_bytes(columns, element_bits)
    if swizzle is None or not _is_swizzled(rows, columns * element_bits // 8, swizzle):
        return _plain(tuple(shape))
    return byte_swizzled((rows, columns), element_bits, swizzle).reshape_outs(shape)


@lru_cache(maxsize=1024)
def block_strips(layout: LinearLayout, element_bits: int) -> BlockStrips | None:
    """Return a layout as strips of a block; None if TMA does not write it."""
    shape = tuple(layout.shape)
    if len(shape) > MAX_RANK or element_bits < 8 or shape[-1] * element_bits < VECTOR_BYTES * 8:
        return None
    rows, columns = math.prod(shape[:-1]), shape[-1]
    for width in ROW_BYTES:
        if _is_swizzled(rows, columns * element_bits // 8, width):
            swizzled = byte_swizzled((rows, columns), element_bits, width)
            if swizzled.reshape_outs(shape) == layout:
                return BlockStrips(shape, element_bits, width, width)
    if _plain(shape) == layout:
        return BlockStrips(shape, element_bits, min(columns, MAX_BOX) * element_bits // 8, 0)
    return None


def _is_swizzled(rows: int, bytes_of_row: int, swizzle: int) -> bool:
    """Return True if rows of a block can have a swizzle of so many bytes."""
    return rows > 1 and bytes_of_row >= swizzle and (rows >= ROWS or bytes_of_row == swizzle)


def _plain(shape: tuple[int, ...]) -> LinearLayout:
    """Return strips of rows that are not swizzled."""
    rows, columns = math.prod(shape[:-1]), shape[-1]
    width = min(columns, MAX_BOX)
    strip = grid_of(OFFSET, (rows, width), row_major(2))
    strips = grid_of(OFFSET, (1, columns // width), row_major(2))
    return (strip * strips).reshape_outs(shape)


MAX_PIXELS = 1024
MAX_STEP = 8


def reason_against(pointers: Operation) -> str | None:
    """Return why a load through `im2col_pointers` is no TMA load; None if it can be one."""
    lower, upper, steps = pointers["lower"], pointers["upper"], pointers["steps"]
    bits = OFFSET_BITS[len(lower)]
    least, most = -(1 << bits - 1), (1 << bits - 1) - 1
    for name, corner in (("lower", lower), ("upper", upper)):
        if not all(least <= number <= most for number in corner):
            return f"its {name} corner is {_list(corner)}, and TMA takes {least} to {most}"
    if max(steps) > MAX_STEP:
        return f"its element strides are {_list(steps)}, and TMA takes 1 to {MAX_STEP}"
    pixels = pointers.result.type.shape[0]
    if pixels > MAX_PIXELS:
        return f"its block has {pixels} pixels, and TMA copies up to {MAX_PIXELS}"
    array = pointers.inputs[1 : 2 + 2 * len(lower) + 3]  # the base, extents and strides
    if None in map(launch_value, array):
        return "its address, an extent or a stride is not known at launch"
    return None


def _list(numbers: Sequence[int]) -> str:
    return "(" + ", ".join(map(str, numbers)) + ")"
