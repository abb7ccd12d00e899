"""The greatest elements of rows, in descending order, with their indices.

Those of long rows are selected (select.py). For many of a row, a program goes over it in blocks,
and keeps the k greatest elements of those so far and the next. It sorts integers that contain the
elements and their indices (order_keys.py). Several short rows are of one program.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import tile
import tile.language as tl
from tile.ops.core.call import I64, Call
from tile.ops.core.call_plans import launch, planned
from tile.ops.core.reference import Array
from tile.ops.core.row_tiles import row_tile, rows_of
from tile.ops.selection.order_keys import KEYS, LONGEST, index_of, order_of, sort_keys
from tile.ops.selection.select import MOST, launch_select

MOST_NARROW = 2**16  # elements of a row whose indices have 16 bits
BLOCK = 1024  # elements of an iteration, or as many as k


@tile.jit
def topk_kernel(
    x_ptr,
    values_ptr,
    indices_ptr,
    stride,
    rows,
    length,
    k,
    NARROW: tl.constexpr,
    K: tl.constexpr,
    ROWS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    row, exists = rows_of(rows, ROWS)
    column = tl.arange(0, BLOCK)[None, :]
    inside = exists & (column < length)
    x = tl.load(x_ptr + row * stride + column, mask=inside, other=0)
    best = tl.topk(sort_keys(x, column, inside, True, NARROW), K, descending=False)
    for start in range(BLOCK, length, BLOCK):
        at = start + column
        inside = exists & (at < length)
        x = tl.load(x_ptr + row * stride + at, mask=inside, other=0)
        new = tl.topk(sort_keys(x, at, inside, True, NARROW), K, descending=False)
        best = tl.topk(tl.join(best, new).reshape(ROWS, 2 * K), K, descending=False)
    rank = tl.arange(0, K)[None, :]
    inside = exists & (rank < k)
    index = index_of(best, NARROW)
    value = tl.load(x_ptr + row * stride + index, mask=inside)
    tl.store(values_ptr + row * k + rank, value, mask=inside)
    tl.store(indices_ptr + row * k + rank, index, mask=inside)


@planned()
def topk(x: Any, k: int) -> tuple[Any, Any]:
    """Return the `k` greatest elements of each row of `x`, in descending order, and their indices.

    x: float16, bfloat16, float32 or int32, any number of axes. k: up to the length of a row, and to
    16384. The indices, along the last axis, are int64; of equal elements the first come first.
    """
    call = Call("topk")
    source = call.array("x", x, dtypes=KEYS)
    rows = source.rows()
    k = call.integer("k", k, low=0, high=min(LONGEST, rows.length))
    shape = (*source.shape[:-1], k)
    values, indices = call.new(shape, source.dtype), call.new(shape, I64)
    narrow = source.dtype.itemsize == 2 and rows.length <= MOST_NARROW
    if values.size and rows.length > BLOCK and k <= MOST:
        launch_select(call, x, values.value, indices.value, rows, k, narrow)
    elif values.size:
        block = tile.next_power_of_2(k)
        tiles = row_tile(call.backend, rows, max(block, BLOCK), BLOCK)
        launch(topk_kernel, (tile.cdiv(rows.count, tiles["ROWS"]),))(
            *(x, values.value, indices.value, rows.stride, rows.count, rows.length, k),
            NARROW=narrow,
            K=block,
            **tiles,
        )
    return values.value, indices.value


def topk_reference(x: Array, k: int) -> tuple[Array, Array]:
    """Return the values in float64, and the indices."""
    indices = order_of(x, descending=True)[..., :k]
    return np.take_along_axis(x, indices, axis=-1).astype(np.float64), indices
