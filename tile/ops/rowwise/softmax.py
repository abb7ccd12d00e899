"""Softmax of the rows of an array, forward and backward.

    y[i] = exp(x[i] - m) / sum_j exp(x[j] - m)          m = max_j x[j], so that exp cannot overflow
    dx[i] = y[i] * (dy[i] - sum_j dy[j] * y[j])

The limit is memory: a row is read once, or twice if it is longer than registers hold; the kernels
are in softmax_kernels.py.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import tile
from tile.ops.core.autograd import differentiable_by
from tile.ops.core.call_plans import planned
from tile.ops.core.reference import Array
from tile.ops.rowwise.rows_backward import rows_backward
from tile.ops.rowwise.softmax_kernels import softmax_rows


@tile.jit
def weighted(dy, y):
    return dy * y


@tile.jit
def softmax_gradient(dy, y, total):
    return y * (dy - total)


@differentiable_by("x", results="y")
@planned()
def softmax(x: Any, *, out: Any = None) -> Any:
    """Return the softmax along the last axis of `x`, of any float type, in its type.

    out: an array for the result, of the shape and dtype of `x`; it may be `x` itself.
    """
    return softmax_rows("softmax", x, out, log=False)


@planned()
def softmax_backward(dy: Any, y: Any, *, out: Any = None) -> Any:
    """Return the gradient of x from `dy`, that of the result, and `y`, the result."""
    return rows_backward("softmax_backward", dy, y, out, weighted, softmax_gradient)


def softmax_reference(x: Array) -> Array:
    """Return the softmax in float64."""
    powers = np.exp(x - x.max(axis=-1, keepdims=True, initial=-np.inf))
    result: Array = powers / powers.sum(axis=-1, keepdims=True)
    return result


def softmax_backward_reference(dy: Array, y: Array) -> Array:
    """Return the gradient in float64."""
    result: Array = y * (dy - (dy * y).sum(axis=-1, keepdims=True))
    return result
