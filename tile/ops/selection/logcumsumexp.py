"""Logarithms of the running sums of the exponentials of rows, and their gradient.

    y[i] = log(exp(x[0]) + ... + exp(x[i]))
    dx[j] = exp(x[j] - y[j]) * t[j]        t[j] = dy[j] + exp(y[j] - y[j + 1]) * t[j + 1]

A program goes over its row in blocks and scans pairs (m, s) that stand for s * exp(m), where m is a
maximum, so that nothing overflows. In the gradient, a recurrence from the end (recurrence.py), no
exponential is above 1, since y does not decrease and is not less than x.
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
from tile.ops.selection.recurrence import BLOCK, recurrence


@tile.jit
def power(x, most):
    """Return exp(x - most); 1 where both are equal, also if they are infinite."""
    return tl.where(x == most, 1.0, tl.exp(x - most))


@tile.jit
def added(m, s, other_m, other_s):
    """Return the sum of s * exp(m) and the other one as such a pair."""
    most = tl.maximum(m, other_m)
    return most, s * power(m, most) + other_s * power(other_m, most)


@tile.jit
def logcumsumexp_kernel(
    x_ptr, y_ptr, x_stride, y_stride, rows, length, ROWS: tl.constexpr, BLOCK: tl.constexpr
):
    row, exists = rows_of(rows, ROWS)
    x_ptr += row * x_stride
    kind: tl.constexpr = widen(tl.zeros((1,), x_ptr.dtype.element_ty)).dtype
    most, total = tl.full((ROWS, 1), -float("inf"), kind), tl.zeros((ROWS, 1), kind)
    for start in range(0, length, BLOCK):
        column = start + tl.arange(0, BLOCK)[None, :]
        inside = exists & (column < length)
        x = widen(tl.load(x_ptr + column, mask=inside, other=-float("inf")))
        ones = tl.full((ROWS, BLOCK), 1.0, kind)
        m, s = tl.associative_scan((x, ones), 1, added)
        m, s = added(most, total, m, s)
        y = (m + tl.log(s)).to(y_ptr.dtype.element_ty)
        tl.store(y_ptr + row * y_stride + column, y, mask=inside)
        block_m, block_s = tl.reduce((x, ones), 1, added, keep_dims=True)
        most, total = added(most, total, block_m, block_s)


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


@differentiable_by("x", results="y")
@planned()
def logcumsumexp(x: Any, *, out: Any = None) -> Any:
    """Return the logarithms of the running sums of exp(x) along the last axis, in the type of `x`.

    x: a float type. `out` may be `x` itself.
    """
    return launch_rows("logcumsumexp", logcumsumexp_kernel, {"x": x}, BLOCK, out)


@planned()
def logcumsumexp_backward(dy: Any, x: Any, y: Any) -> Any:
    """Return the gradient of x from `dy`, that of the result, and `y`, the result."""
    arrays = {"dy": dy, "x": x, "y": y}
    return launch_rows("logcumsumexp_backward", logcumsumexp_backward_kernel, arrays, BLOCK)


def logcumsumexp_reference(x: Array) -> Array:
    """Return the result in float64."""
    return np.logaddexp.accumulate(x, axis=-1)


def logcumsumexp_backward_reference(dy: Array, x: Array, y: Array) -> Array:
    """Return the gradient in float64, by the recurrence."""
    dx, t = np.zeros(x.shape), np.zeros(x.shape[:-1])
    for j in reversed(range(x.shape[-1])):
        later = np.exp(y[..., j] - y[..., j + 1]) * t if j + 1 < x.shape[-1] else 0
        t = dy[..., j] + later
        dx[..., j] = t * np.exp(x[..., j] - y[..., j])
    return dx
