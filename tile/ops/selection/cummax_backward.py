"""The gradient of running maxima and minima.

    dx[j] = sum over i with index[i] = j of dy[i]

An element is the maximum of a range of positions, which starts at its own. So the gradient is a
recurrence from the end of the row that starts anew at each range (recurrence.py).
"""

from __future__ import annotations

from typing import Any

import numpy as np

import tile
import tile.language as tl
from tile.ops.core.call import I64, Call
from tile.ops.core.call_plans import launch, planned
from tile.ops.core.device_functions import widen
from tile.ops.core.reference import Array
from tile.ops.core.row_tiles import row_tile, rows_of
from tile.ops.selection.recurrence import BLOCK, recurrence


@tile.jit
def cummax_backward_kernel(
    dy_ptr,
    index_ptr,
    dx_ptr,
    dy_stride,
    index_stride,
    rows,
    length,
    ROWS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    row, exists = rows_of(rows, ROWS)
    dy_ptr += row * dy_stride
    index_ptr += row * index_stride
    behind = tl.zeros((ROWS, 1), widen(tl.zeros((1,), dy_ptr.dtype.element_ty)).dtype)
    for start in range(0, length, BLOCK):
        column = length - 1 - start - tl.arange(0, BLOCK)[None, :]
        inside = exists & (column >= 0)
        dy = widen(tl.load(dy_ptr + column, mask=inside, other=0.0))
        index = tl.load(index_ptr + column, mask=inside, other=-1)
        tl.device_assert((index >= 0) & (index < length), "indices are positions", mask=inside)
        following = tl.load(index_ptr + column + 1, mask=inside & (column + 1 < length), other=-2)
        t, behind = recurrence(dy, tl.where(following == index, 1.0, 0.0).to(dy.dtype), behind)
        dx = tl.where(index == column, t, 0.0).to(dx_ptr.dtype.element_ty)
        tl.store(dx_ptr + row * length + column, dx, mask=inside)


@planned()
def cummax_backward(dy: Any, index: Any) -> Any:
    """Return the gradient of x of `cummax` or `cummin` from `dy`, that of the first result.

    index: the positions, the second result.
    """
    call = Call("cummax_backward")
    gradient = call.array("dy", dy)
    positions = call.array("index", index, dtypes=(I64,), shape=gradient.shape)
    positions.within(0, gradient.shape[-1])
    rows, index_rows = gradient.rows(), positions.rows()
    result = call.new(gradient.shape, gradient.dtype)
    if result.size:
        shape = row_tile(call.backend, rows, BLOCK)
        launch(cummax_backward_kernel, (tile.cdiv(rows.count, shape["ROWS"]),))(
            *(dy, index, result.value, rows.stride, index_rows.stride, rows.count, rows.length),
            **shape,
        )
    return result.value


def cummax_backward_reference(dy: Array, index: Array) -> Array:
    """Return the gradient in float64."""
    dx = np.zeros(dy.shape)
    for row in np.ndindex(dy.shape[:-1]):
        np.add.at(dx[row], index[row], dy[row])
    return dx
