"""The gradient of the logarithms of running sums of exponentials.

    dx[j] = exp(x[j] - y[j]) * t[j]        t[j] = dy[j] + exp(y[j] - y[j + 1]) * t[j + 1]

A recurrence from the end (recurrence.py). No exponential is above 1, since y does not decrease and
is not less than x.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import tile
import tile.language as tl
from tile.ops.core.call_plans import planned
from tile.ops.core.device_functions import widen
from tile.ops.core.reference import Array
from tile.ops.core.row_launch import launch_rows
from tile.ops.core.row_tiles import rows_of
from tile.ops.selection.recurrence import BLOCK, recurrence


@tile.jit
def power(x, most):
    """Return exp(x - most); 1 where both are equal, also if they are infinite."""
    return tl.where(x == most, 1.0, tl.exp(x - most))


@tile.jit
def logcumsumexp_backward_kernel(
    dy_ptr,
    x_ptr,
    y_ptr,
    dx_ptr,
    dy_stride,
    x_stride,
    y_stride,
    dx_stride,
    rows,
    length,
    ROWS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    row, exists = rows_of(rows, ROWS)
    dy_ptr += row * dy_stride
    x_ptr += row * x_stride
    y_ptr += row * y_stride
    behind = tl.zeros((ROWS, 1), widen(tl.zeros((1,), x_ptr.dtype.element_ty)).dtype)
    for start in range(0, length, BLOCK):
        column = length - 1 - start - tl.arange(0, BLOCK)[None, :]
        inside = exists & (column >= 0)
        dy = widen(tl.load(dy_ptr + column, mask=inside, other=0.0))
        x = widen(tl.load(x_ptr + column, mask=inside, other=0.0))
        y = widen(tl.load(y_ptr + column, mask=inside, other=0.0))
        more = inside & (column + 1 < length)
        following = widen(tl.load(y_ptr + column + 1, mask=more, other=0.0))
        t, behind = recurrence(dy, tl.where(more, power(y, following), 0.0), behind)
        # exp(-inf) has no part in any sum.
        dx = tl.where(x == -float("inf"), 0.0, power(x, y) * t).to(dx_ptr.dtype.element_ty)
        tl.store(dx_ptr + row * dx_stride + column, dx, mask=inside)


@planned()
def logcumsumexp_backward(dy: Any, x: Any, y: Any) -> Any:
    """Return the gradient of x from `dy`, that of the result, and `y`, the result."""
    arrays = {"dy": dy, "x": x, "y": y}
    return launch_rows("logcumsumexp_backward", logcumsumexp_backward_kernel, arrays, BLOCK)


def logcumsumexp_backward_reference(dy: Array, x: Array, y: Array) -> Array:
    """Return the gradient in float64, by the recurrence."""
    dx, t = np.zeros(x.shape), np.zeros(x.shape[:-1])
    for j in reversed(range(x.shape[-1])):
        later = np.exp(y[..., j] - y[..., j + 1]) * t if j + 1 < x.shape[-1] else 0
        t = dy[..., j] + later
        dx[..., j] = t * np.exp(x[..., j] - y[..., j])
    return dx
