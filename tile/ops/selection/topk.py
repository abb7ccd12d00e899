"""The greatest elements of rows, in descending order, with their indices.

A program goes over its row in blocks, and keeps the k greatest elements of those so far and the
next. It sorts integers that contain the elements and their indices (order_keys.py).
"""

from __future__ import annotations

from typing import Any

import numpy as np

import tile
import tile.language as tl
from tile.ops.core.call import I64, Call
from tile.ops.core.call_plans import launch, planned
from tile.ops.core.reference import Array
from tile.ops.selection.order_keys import KEYS, LONGEST, index_of, order_of, sort_keys

MOST_NARROW = 2**16  # elements of a row whose indices have 16 bits
BLOCK = 1024  # elements of an iteration, or as many as k


@tile.jit
def topk_kernel(
    x_ptr,
    values_ptr,
    indices_ptr,
    stride,
    length,
    k,
    NARROW: tl.constexpr,
    K: tl.constexpr,
    BLOCK: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64)
    column = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * stride + column, mask=column < length, other=0)
    best = tl.topk(sort_keys(x, column, column < length, True, NARROW), K, descending=False)
    for start in range(BLOCK, length, BLOCK):
        at = start + column
        x = tl.load(x_ptr + row * stride + at, mask=at < length, other=0)
        new = tl.topk(sort_keys(x, at, at < length, True, NARROW), K, descending=False)
        best = tl.topk(tl.join(best, new).reshape(2 * K), K, descending=False)
    rank = tl.arange(0, K)
    index = index_of(best, NARROW)
    value = tl.load(x_ptr + row * stride + index, mask=rank < k)
    tl.store(values_ptr + row * k + rank, value, mask=rank < k)
    tl.store(indices_ptr + row * k + rank, index, mask=rank < k)


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
    if values.size:
        block = tile.next_power_of_2(k)
        launch(topk_kernel, (rows.count,))(
            *(x, values.value, indices.value, rows.stride, rows.length, k),
            NARROW=source.dtype.itemsize == 2 and rows.length <= MOST_NARROW,
            K=block,
            BLOCK=max(block, min(BLOCK, tile.next_power_of_2(rows.length))),
        )
    return values.value, indices.value


def topk_reference(x: Array, k: int) -> tuple[Array, Array]:
    """Return the values in float64, and the indices."""
    indices = order_of(x, descending=True)[..., :k]
    return np.take_along_axis(x, indices, axis=-1).astype(np.float64), indices
