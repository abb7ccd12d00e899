"""The elements of rows in order, with their indices.

A program sorts a row by a network, as integers that contain the elements and their indices
(order_keys.py), or by its digits (radix_rows.py). Long rows are sorted by digits in several passes
(radix_sort.py).
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
from tile.ops.selection.order_keys import WARPS, index_of, order_of, sort_keys
from tile.ops.selection.radix_rows import LONGEST, launch_row_sort
from tile.ops.selection.radix_sort import launch_radix_sort

ELEMENTS = 1024  # of a tile of short rows
# Elements of rows that a network sorts, by the bytes of an element: its keys are integers of 32
# bits, or of 64. H200, 2026-11-29 (docs/notes/ops.md).
MOST = {2: 2048, 4: 256}


@tile.jit
def sort_kernel(
    x_ptr,
    values_ptr,
    indices_ptr,
    stride,
    rows,
    length,
    DESCENDING: tl.constexpr,
    NARROW: tl.constexpr,
    ROWS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    row, exists = rows_of(rows, ROWS)
    column = tl.arange(0, BLOCK)[None, :]
    inside = exists & (column < length)
    x = tl.load(x_ptr + row * stride + column, mask=inside, other=0)
    index = index_of(tl.sort(sort_keys(x, column, inside, DESCENDING, NARROW)), NARROW)
    value = tl.load(x_ptr + row * stride + index, mask=inside)
    tl.store(values_ptr + row * length + column, value, mask=inside)
    tl.store(indices_ptr + row * length + column, index, mask=inside)


@planned()
def sort(x: Any, descending: bool = False) -> tuple[Any, Any]:
    """Return the elements of each row of `x` in order, and their indices; the sort is stable.

    x: a float type, int32 or int64, any number of axes. The int64 indices are along the last axis.
    NaN is the greatest element, and zeros are equal.
    """
    call = Call("sort")
    source = call.array("x", x, dtypes=NUMBERS)
    rows = source.rows()
    values, indices = call.new(source.shape, source.dtype), call.new(source.shape, I64)
    if values.size and rows.length > MOST.get(source.dtype.itemsize, 0):
        launch_digit_sort(call, x, values.value, indices.value, rows, rows.length, bool(descending))
    elif values.size:
        shape = row_tile(call.backend, rows, MOST[2], ELEMENTS, WARPS)
        launch(sort_kernel, (tile.cdiv(rows.count, shape["ROWS"]),))(
            *(x, values.value, indices.value, rows.stride, rows.count, rows.length),
            DESCENDING=bool(descending),
            NARROW=source.dtype.itemsize == 2,
            **shape,
        )
    return values.value, indices.value


def launch_digit_sort(
    call: Call, x: Any, values: Any, indices: Any, rows: Rows, k: int, descending: bool
) -> None:
    """Write the first `k` elements of each row in order, and their indices."""
    launch_sort = launch_row_sort if rows.length <= LONGEST else launch_radix_sort
    launch_sort(call, x, values, indices, rows, k, descending)


def sort_reference(x: Array, descending: bool) -> tuple[Array, Array]:
    """Return the values and the indices."""
    indices = order_of(x, descending)
    return np.take_along_axis(x, indices, axis=-1), indices
