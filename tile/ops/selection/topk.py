"""The greatest elements of rows, in descending order, with their indices.

Short rows are sorted as integers that contain the elements and their indices (order_keys.py),
several by one program. Those of long rows are selected (select.py). If they are many, or integers
of 64 bits, rows are sorted by digits (radix_rows.py, radix_sort.py).
"""

from __future__ import annotations

from typing import Any

import numpy as np

import tile
import tile.language as tl
from tile.ops.core.call import I64, Call
from tile.ops.core.call_plans import launch, planned
from tile.ops.core.operand import Rows
from tile.ops.core.reference import Array
from tile.ops.core.row_tiles import row_tile, rows_of
from tile.ops.selection.cumsum import NUMBERS
from tile.ops.selection.order_keys import KEYS, index_of, order_of, sort_keys
from tile.ops.selection.select import launch_select
from tile.ops.selection.sort import launch_digit_sort

MOST_NARROW = 2**16  # elements of a row whose indices have 16 bits
BLOCK = 1024  # elements of a short row
# Elements that are selected, by bytes of an element: of few elements or a third of a row or more,
# and of others. If more are wanted, all are sorted, by 2 or 4 digits. H200, 2026-11-30, float32:
# 2000 of 8 x 32768 38 us, sorted 33; of 64 x 100,000 102, 272; of 2048 x 4096 163, 139; of 512 x
# 10,000 94, 178. bfloat16: 300 of 1 x 1,048,576 33, 31; of 64 x 100,000 52, 126; 3000 of these
# 145, 128.
SELECTED = {2: (256, 2048), 4: (1024, 4096)}
FEW_ELEMENTS, SHARE = 2**20, 3


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
    rank = tl.arange(0, K)[None, :]
    inside = exists & (rank < k)
    index = index_of(best, NARROW)
    value = tl.load(x_ptr + row * stride + index, mask=inside)
    tl.store(values_ptr + row * k + rank, value, mask=inside)
    tl.store(indices_ptr + row * k + rank, index, mask=inside)


@planned()
def topk(x: Any, k: int) -> tuple[Any, Any]:
    """Return the `k` greatest elements of each row of `x`, in descending order, and their indices.

    x: a float type, int32 or int64, any number of axes. k: up to the length of a row. The indices,
    along the last axis, are int64; of equal elements the first come first.
    """
    call = Call("topk")
    source = call.array("x", x, dtypes=NUMBERS)
    rows = source.rows()
    k = call.integer("k", k, low=0, high=rows.length)
    shape = (*source.shape[:-1], k)
    values, indices = call.new(shape, source.dtype), call.new(shape, I64)
    narrow = source.dtype.itemsize == 2 and rows.length <= MOST_NARROW
    arrays = x, values.value, indices.value
    if values.size and source.dtype in KEYS and rows.length <= BLOCK:
        tiles = row_tile(call.backend, rows, BLOCK, BLOCK)
        launch(topk_kernel, (tile.cdiv(rows.count, tiles["ROWS"]),))(
            *(*arrays, rows.stride, rows.count, rows.length, k),
            NARROW=narrow,
            K=tile.next_power_of_2(k),
            **tiles,
        )
    elif values.size and source.dtype in KEYS and _selects(rows, k, source.dtype.itemsize):
        launch_select(call, *arrays, rows, k, source.dtype.itemsize, narrow)
    elif values.size:
        launch_digit_sort(call, *arrays, rows, k, True)
    return values.value, indices.value


def _selects(rows: Rows, k: int, width: int) -> bool:
    """Return True if selecting so many elements of `width` bytes is faster than sorting all."""
    least, most = SELECTED[width]
    few = rows.count * rows.length <= FEW_ELEMENTS or k * SHARE > rows.length
    return k <= (least if few else most)


def topk_reference(x: Array, k: int) -> tuple[Array, Array]:
    """Return the values and the indices."""
    indices = order_of(x, descending=True)[..., :k]
    return np.take_along_axis(x, indices, axis=-1), indices
