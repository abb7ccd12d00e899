"""Running products of the rows of an array, and their gradient.

    y[i] = x[0] * ... * x[i]
    dx[j] = y[j - 1] * t[j]        t[j] = dy[j] + x[j + 1] * t[j + 1]        y[-1] = 1

A program goes over its row in blocks, scans each, and multiplies by the product of the blocks
before. The gradient, a recurrence from the end (recurrence.py), does not divide by x: zeros are as
good as other numbers.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import tile
import tile.language as tl
from tile.ops.core.autograd import differentiable_by
from tile.ops.core.call_plans import planned
from tile.ops.core.device_functions import widen
from tile.ops.core.reference import Array
from tile.ops.core.row_launch import launch_rows
from tile.ops.core.row_tiles import rows_of
from tile.ops.selection.cumsum import NUMBERS, widen_sum
from tile.ops.selection.recurrence import BLOCK, recurrence


@tile.jit
def times(a, b):
    return a * b


@tile.jit
def cumprod_kernel(
    x_ptr, y_ptr, x_stride, y_stride, rows, length, ROWS: tl.constexpr, BLOCK: tl.constexpr
):
    row, exists = rows_of(rows, ROWS)
    before = tl.full((ROWS, 1), 1, widen_sum(tl.zeros((1,), x_ptr.dtype.element_ty)).dtype)
    for start in range(0, length, BLOCK):
        column = start + tl.arange(0, BLOCK)[None, :]
        inside = exists & (column < length)
        x = widen_sum(tl.load(x_ptr + row * x_stride + column, mask=inside, other=1))
        y = before * tl.cumprod(x, axis=1)
        tl.store(y_ptr + row * y_stride + column, y.to(y_ptr.dtype.element_ty), mask=inside)
        before *= tl.reduce(x, 1, times, keep_dims=True)


@tile.jit
def cumprod_backward_kernel(
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
        next_x = tl.load(x_ptr + column + 1, mask=inside & (column + 1 < length), other=0.0)
        before = tl.load(y_ptr + column - 1, mask=inside & (column > 0), other=1.0)
        t, behind = recurrence(dy, widen(next_x), behind)
        dx = (widen(before) * t).to(dx_ptr.dtype.element_ty)
        tl.store(dx_ptr + row * dx_stride + column, dx, mask=inside)


@differentiable_by("x", results="y")
@planned()
def cumprod(x: Any, *, out: Any = None) -> Any:
    """Return the running products along the last axis of `x`, in its type; integers wrap.

    x: a float type, int32 or int64; of floats there is a gradient. `out` may be `x` itself.
    """
    return launch_rows("cumprod", cumprod_kernel, {"x": x}, BLOCK, out, NUMBERS)


@planned()
def cumprod_backward(dy: Any, x: Any, y: Any) -> Any:
    """Return the gradient of x from `dy`, that of the result, and `y`, the result."""
    arrays = {"dy": dy, "x": x, "y": y}
    return launch_rows("cumprod_backward", cumprod_backward_kernel, arrays, BLOCK)


def cumprod_reference(x: Array) -> Array:
    """Return the products in float64; those of integers in their type."""
    return x.cumprod(-1, dtype=x.dtype if x.dtype.kind == "i" else np.float64)


def cumprod_backward_reference(dy: Array, x: Array, y: Array) -> Array:
    """Return the gradient in float64, by the recurrence."""
    dx, t = np.zeros(x.shape), np.zeros(x.shape[:-1])
    for j in reversed(range(x.shape[-1])):
        t = dy[..., j] + (x[..., j + 1] * t if j + 1 < x.shape[-1] else 0)
        dx[..., j] = t * (y[..., j - 1] if j else 1)
    return dx
