"""The logarithm of the softmax of the rows of an array, forward and backward.

    y[i] = x[i] - m - log(sum_j exp(x[j] - m))          m = max_j x[j], so that exp cannot overflow
    dx[i] = dy[i] - exp(y[i]) * sum_j dy[j]

The limit is memory. A row of one block stays in registers; a program goes over a longer one for the
maximum, for the sum and for the results, the latter two times in the cache.
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
from tile.ops.rowwise.rows_backward import rows_backward_kernel

LONGEST = 8192  # elements of a block


@tile.jit
def log_softmax_kernel(
    x_ptr, y_ptr, x_stride, y_stride, length, LONG: tl.constexpr, BLOCK: tl.constexpr
):
    row = tl.program_id(0).to(tl.int64)
    column = tl.arange(0, BLOCK)
    x_ptr += row * x_stride
    y_ptr += row * y_stride
    x = widen(tl.load(x_ptr + column, mask=column < length, other=-float("inf")))
    most = tl.max(x, axis=0)
    if LONG:
        highest = x
        for start in range(BLOCK, length, BLOCK):
            inside = start + column < length
            other = widen(tl.load(x_ptr + start + column, mask=inside, other=-float("inf")))
            highest = tl.maximum(highest, other)
        most = tl.max(highest, axis=0)
    total = tl.exp(x - most)
    if LONG:
        for start in range(BLOCK, length, BLOCK):
            inside = start + column < length
            other = widen(tl.load(x_ptr + start + column, mask=inside, other=-float("inf")))
            total += tl.exp(other - most)
    # A row of -inf alone has no softmax: -inf - -inf is NaN, as in NumPy and torch.
    log_sum = tl.log(tl.sum(total, axis=0))
    tl.store(y_ptr + column, x - most - log_sum, mask=column < length)
    if LONG:
        for start in range(BLOCK, length, BLOCK):
            inside = start + column < length
            other = widen(tl.load(x_ptr + start + column, mask=inside, other=0.0))
            tl.store(y_ptr + start + column, other - most - log_sum, mask=inside)


@tile.jit
def summed(dy, y):
    return dy


@tile.jit
def log_softmax_gradient(dy, y, total):
    return dy - tl.exp(y) * total


@differentiable_by("x", results="y")
@planned()
def log_softmax(x: Any, *, out: Any = None) -> Any:
    """Return the log of the softmax along the last axis of `x`, of any float type, in its type.

    out: an array for the result, of the shape and dtype of `x`; it may be `x` itself.
    """
    return launch_rows("log_softmax", log_softmax_kernel, {"x": x}, LONGEST, out, LONG=True)


@planned()
def log_softmax_backward(dy: Any, y: Any, *, out: Any = None) -> Any:
    """Return the gradient of x from `dy`, that of the result, and `y`, the result."""
    return launch_rows(
        *("log_softmax_backward", rows_backward_kernel, {"dy": dy, "y": y}, LONGEST, out),
        TERM=summed,
        GRADIENT=log_softmax_gradient,
        LONG=True,
    )


def log_softmax_reference(x: Array) -> Array:
    """Return the result in float64."""
    moved = x - x.max(axis=-1, keepdims=True, initial=-np.inf)
    with np.errstate(divide="ignore"):  # of rows of no elements
        result: Array = moved - np.log(np.exp(moved).sum(axis=-1, keepdims=True))
    return result


def log_softmax_backward_reference(dy: Array, y: Array) -> Array:
    """Return the gradient in float64."""
    result: Array = dy - np.exp(y) * dy.sum(axis=-1, keepdims=True)
    return result
