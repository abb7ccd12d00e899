"""The logarithm of the softmax of the rows of an array, forward and backward.

    y[i] = x[i] - m - log(sum_j exp(x[j] - m))          m = max_j x[j], so that exp cannot overflow
    dx[i] = dy[i] - exp(y[i]) * sum_j dy[j]

The kernels are those of softmax (softmax_kernels.py).
"""

from __future__ import annotations

from typing import Any

import numpy as np

import tile
import tile.language as tl
from tile.ops.core.autograd import differentiable_by
from tile.ops.core.call_plans import planned
from tile.ops.core.reference import Array
from tile.ops.rowwise.rows_backward import rows_backward
from tile.ops.rowwise.softmax_kernels import softmax_rows


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
    return softmax_rows("log_softmax", x, out, log=True)


@planned()
def log_softmax_backward(dy: Any, y: Any, *, out: Any = None) -> Any:
    """Return the gradient of x from `dy`, that of the result, and `y`, the result."""
    return rows_backward("log_softmax_backward", dy, y, out, summed, log_softmax_gradient)


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
