"""Indices in order, and their positions.

Few of them are ranked by counting the lesser ones of each, more are sorted by digits
(radix_sort.py).
"""

from __future__ import annotations

from typing import Any

import tile
import tile.language as tl
from tile.ops.core.call import I32, Call, Operand
from tile.ops.core.call_plans import launch
from tile.ops.core.operand import Rows
from tile.ops.selection.radix_sort import launch_radix_sort

RANKED = 8192  # numbers of rows that are sorted by counting the lesser ones of each


RANKS, COMPARED = 16, 256  # of a program, and of an iteration


NARROWED = 1024  # of a program


@tile.jit
def key_of(indices_ptr, place, count):
    """Return an index and its place as one integer, the greatest one behind all."""
    index = tl.load(indices_ptr + place, mask=place < count, other=0).to(tl.int64)
    return tl.where(place < count, (index << 32) | place.to(tl.int64), 0x7FFFFFFFFFFFFFFF)


@tile.jit
def rank_kernel(
    indices_ptr, sorted_ptr, positions_ptr, count, rows, ROWS: tl.constexpr, BLOCK: tl.constexpr
):
    """Store each index and its place at its rank, which is the number of lesser ones."""
    place = tl.program_id(0) * ROWS + tl.arange(0, ROWS)[:, None]
    key = key_of(indices_ptr, place, count)
    inside = place < count
    index = (key >> 32).to(tl.int32)
    tl.device_assert((key >= 0) & (key >> 32 < rows), "indices are rows of the gradient", inside)
    lesser = tl.zeros((ROWS, BLOCK), tl.int32)
    for start in range(0, count, BLOCK):
        other = key_of(indices_ptr, start + tl.arange(0, BLOCK)[None, :], count)
        lesser += (other < key).to(tl.int32)
    rank = tl.sum(lesser, axis=1, keep_dims=True)
    tl.store(sorted_ptr + rank, index, mask=inside)
    tl.store(positions_ptr + rank, place, mask=inside)


@tile.jit
def narrow_kernel(indices_ptr, narrow_ptr, count, rows, BLOCK: tl.constexpr):
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = place < count
    index = tl.load(indices_ptr + place, mask=inside, other=0)
    tl.device_assert((index >= 0) & (index < rows), "indices are rows of the gradient", inside)
    tl.store(narrow_ptr + place, index.to(tl.int32), mask=inside)


def sorted_indices(call: Call, indices: Operand, rows: int) -> tuple[Any, Any]:
    """Return the indices in order, and their positions."""
    count = indices.size
    ordered, positions = (call.new((count,), I32).value for _ in range(2))
    if count <= RANKED:
        launch(rank_kernel, (tile.cdiv(count, RANKS),), dependent=True)(
            indices.value, ordered, positions, count, rows, ROWS=RANKS, BLOCK=COMPARED
        )
    else:
        narrow = call.new((count,), I32).value
        launch(narrow_kernel, (tile.cdiv(count, NARROWED),), dependent=True)(
            indices.value, narrow, count, rows, BLOCK=NARROWED
        )
        row = Rows(1, count, count)
        launch_radix_sort(call, narrow, ordered, positions, row, row.length, False, I32, rows - 1)
    return ordered, positions
