"""Running maxima and minima of the rows of an array, with their positions.

    y[i] = x[index[i]] = max of x[0], ..., x[i]        cummin: min

Of equal elements the last one counts; NaN is greater, and less, than all numbers. A program goes
over its row in blocks, scans pairs of an element and its position, and compares with the blocks
before.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import tile
import tile.language as tl
from tile.ops.core.autograd import differentiable_by
from tile.ops.core.call import I64, Call
from tile.ops.core.call_plans import launch, planned
from tile.ops.core.reference import Array
from tile.ops.core.row_tiles import row_tile, rows_of
from tile.ops.selection.cummax_backward import cummax_backward
from tile.ops.selection.cumsum import NUMBERS, widen_sum
from tile.ops.selection.recurrence import BLOCK, last_of


@tile.jit
def later_maximum(a, i, b, j):
    """Return the greater of two elements and its position; the second one if they are equal."""
    second = (b != b) | ((a == a) & (b >= a))
    return tl.where(second, b, a), tl.where(second, j, i)


@tile.jit
def later_minimum(a, i, b, j):
    second = (b != b) | ((a == a) & (b <= a))
    return tl.where(second, b, a), tl.where(second, j, i)


@tile.jit
def cummax_kernel(
    x_ptr,
    y_ptr,
    index_ptr,
    x_stride,
    rows,
    length,
    COMBINE: tl.constexpr,
    ROWS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    row, exists = rows_of(rows, ROWS)
    x_ptr += row * x_stride
    before = widen_sum(tl.load(x_ptr, mask=exists, other=0))
    position = tl.zeros((ROWS, 1), tl.int32)
    for start in range(0, length, BLOCK):
        column = start + tl.arange(0, BLOCK)[None, :]
        inside = exists & (column < length)
        # Lanes past the end come last, and change nothing before them.
        x = widen_sum(tl.load(x_ptr + column, mask=inside, other=0))
        own, at = tl.associative_scan((x, tl.broadcast_to(column, (ROWS, BLOCK))), 1, COMBINE)
        y, index = COMBINE(before, position, own, at)
        tl.store(y_ptr + row * length + column, y.to(y_ptr.dtype.element_ty), mask=inside)
        tl.store(index_ptr + row * length + column, index.to(tl.int64), mask=inside)
        position = last_of(index)
        before = widen_sum(tl.load(x_ptr + position, mask=exists & (position < length), other=0))


@differentiable_by("x", results="y index", backward=cummax_backward)
@planned()
def cummax(x: Any) -> tuple[Any, Any]:
    """Return the running maxima along the last axis of `x`, in its type, and their positions.

    x: a float type, int32 or int64; of floats there is a gradient. The positions are int64.
    """
    return _extremes("cummax", x, later_maximum)


@differentiable_by("x", results="y index", backward=cummax_backward)
@planned()
def cummin(x: Any) -> tuple[Any, Any]:
    """Return the running minima along the last axis of `x`, and their positions; see `cummax`."""
    return _extremes("cummin", x, later_minimum)


def _extremes(op: str, x: Any, combine: Any) -> tuple[Any, Any]:
    call = Call(op)
    source = call.array("x", x, dtypes=NUMBERS)
    rows = source.rows()
    result, index = call.new(source.shape, source.dtype), call.new(source.shape, I64)
    if result.size:
        shape = row_tile(call.backend, rows, BLOCK)
        launch(cummax_kernel, (tile.cdiv(rows.count, shape["ROWS"]),))(
            *(x, result.value, index.value, rows.stride, rows.count, rows.length),
            COMBINE=combine,
            **shape,
        )
    return result.value, index.value


def _extremes_reference(x: Array, sign: int) -> tuple[Array, Array]:
    values, index = np.empty_like(x), np.empty(x.shape, np.int64)
    for row in np.ndindex(x.shape[:-1]):
        best = 0
        for i, element in enumerate(x[row]):
            largest = x[row][best]
            if element != element or (largest == largest and sign * element >= sign * largest):
                best = i
            values[(*row, i)], index[(*row, i)] = x[row][best], best
    return values, index


def cummax_reference(x: Array) -> tuple[Array, Array]:
    """Return the maxima and their positions, one by one."""
    return _extremes_reference(x, 1)


def cummin_reference(x: Array) -> tuple[Array, Array]:
    """Return the minima and their positions, one by one."""
    return _extremes_reference(x, -1)
