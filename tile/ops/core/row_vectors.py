"""Whole vectors of rows that do not begin with one, as those of an odd number of elements.

A load that begins in the middle of a vector is one of single elements. So programs go over the
whole vectors of a row in blocks, and have its other elements, at both ends, as one small tile.
"""

from __future__ import annotations

import tile
import tile.language as tl
from tile.ops.core.new_arrays import DType

BYTES = 16  # of a vector that a thread loads at once
LINE = 128  # bytes of memory that a warp accesses at once


@tile.jit
def vectors_of(row, stride, length, VECTOR: tl.constexpr):
    """Return the first element of a row's whole vectors, how many elements they have, and the rest.

    The first is a number from the start of the array. The rest are the elements before and behind
    the vectors, as numbers from the first one, and which of them exist.
    """
    begin = row * stride
    first = tl.cdiv(begin, VECTOR) * VECTOR
    count = ((begin + length) // VECTOR * VECTOR - first).to(tl.int32)
    lane = tl.arange(0, 2 * VECTOR)
    place = tl.where(lane < VECTOR, lane - VECTOR, count + lane - VECTOR)
    before = (first - begin).to(tl.int32)
    return first, count, place, (place >= -before) & (place < length - before)


def vector_of(dtype: DType, *strides: int, size: int = BYTES) -> int:
    """Return the elements of a vector of `size` bytes, or 1.

    1 if all rows begin with one, or not all rows alike.
    """
    elements = size // dtype.itemsize
    return elements if len(set(strides)) == 1 and strides[0] % elements else 1
