"""The order of the blocks of a sparse matrix by row or by column, for matmuls with its transpose.

    order: the blocks in ascending order of row (or column), and of position in the same row
    starts[r]: how many blocks are in rows before r        rows[i]: how many rows end before block i

Each is a count of elements that are less than another, by programs that each compare a block of
elements with all. These arrays are short: their elements are blocks of a matrix.
"""

from __future__ import annotations

from typing import Any

import tile
import tile.language as tl
from tile.ops.core.call import I32, Call
from tile.ops.core.call_plans import launch

BLOCK = 64


@tile.jit
def ranks_kernel(values_ptr, order_ptr, count, BLOCK: tl.constexpr):
    """Store the positions of the values in their order, which is stable."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    own = tl.load(values_ptr + i, mask=i < count, other=0)[:, None]
    rank = tl.zeros((BLOCK,), tl.int32)
    for start in range(0, count, BLOCK):
        at = (start + tl.arange(0, BLOCK))[None, :]
        other = tl.load(values_ptr + at, mask=at < count, other=0)
        before = (other < own) | ((other == own) & (at < i[:, None]))
        rank += tl.sum((before & (at < count)).to(tl.int32), axis=1)
    tl.store(order_ptr + rank, i, mask=i < count)


@tile.jit
def counts_kernel(values_ptr, counts_ptr, values, counts, first, less, most, BLOCK: tl.constexpr):
    """Store for each i how many values, of 0 to `most`, are less than first + i, less `less`."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.int32)
    for start in range(0, values, BLOCK):
        at = (start + tl.arange(0, BLOCK))[None, :]
        value = tl.load(values_ptr + at, mask=at < values, other=0)
        tl.device_assert((value >= 0) & (value <= most), "rows, columns or starts are blocks")
        below = (value < (first + i)[:, None]) & (at < values)
        total += tl.sum(below.to(tl.int32), axis=1)
    tl.store(counts_ptr + i, total - less, mask=i < counts)


def order_of(call: Call, rows: Any, blocks: int, count: int) -> tuple[Any, Any]:
    """Return where the blocks of each of `count` rows start in their order, and that order."""
    order, starts = call.new((blocks,), I32), call.new((count + 1,), I32)
    if blocks:
        launch(ranks_kernel, (tile.cdiv(blocks, BLOCK),), dependent=True)(
            rows, order.value, blocks, BLOCK=BLOCK
        )
    launch(counts_kernel, (tile.cdiv(count + 1, BLOCK),), dependent=True)(
        rows, starts.value, blocks, count + 1, 0, 0, count - 1, BLOCK=BLOCK
    )
    return starts.value, order.value


def rows_of(call: Call, starts: Any, rows: int, blocks: int) -> Any:
    """Return the row of each block, from where the blocks of each row start."""
    result = call.new((blocks,), I32)
    if blocks:
        launch(counts_kernel, (tile.cdiv(blocks, BLOCK),), dependent=True)(
            starts, result.value, rows + 1, blocks, 1, 1, blocks, BLOCK=BLOCK
        )
    return result.value
