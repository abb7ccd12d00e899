"""Losses of differences, averaged over all elements, forward and backward.

    d = x - t        mse_loss: d^2        l1_loss: |d|

The slope of |d| at 0 is 0. mean_loss.py has the kernels.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import tile
import tile.language as tl
from tile.ops.core.autograd import differentiable
from tile.ops.core.call_plans import planned
from tile.ops.core.reference import Array
from tile.ops.pointwise.mean_loss import (
    gradient_by,
    gradient_of,
    mean_loss,
    mean_loss_gradient,
    mean_of,
)


@tile.jit
def squared(x, t):
    return (x - t) * (x - t)


@tile.jit
def squared_slope(x, t):
    return 2.0 * (x - t)


@tile.jit
def absolute(x, t):
    return tl.abs(x - t)


@tile.jit
def absolute_slope(x, t):
    # NaN is neither above nor below 0, and stays.
    d = x - t
    return tl.where(d > 0, 1.0, tl.where(d < 0, -1.0, d))


@planned()
def mse_loss_backward(dloss: Any, x: Any, target: Any, *, out: Any = None) -> Any:
    """Return the gradient of x from `dloss`, that of the loss."""
    return mean_loss_gradient("mse_loss_backward", squared_slope, dloss, x, target, out)


@differentiable(gradient_by(mse_loss_backward))
@planned()
def mse_loss(x: Any, target: Any, *, out: Any = None) -> Any:
    """Return the mean of the squared differences, an array without axes of float32 or float64.

    x, target: contiguous, of one shape and float type, with one element or more.
    """
    return mean_loss("mse_loss", squared, x, target, out)


@planned()
def l1_loss_backward(dloss: Any, x: Any, target: Any, *, out: Any = None) -> Any:
    """Return the gradient of x from `dloss`, that of the loss."""
    return mean_loss_gradient("l1_loss_backward", absolute_slope, dloss, x, target, out)


@differentiable(gradient_by(l1_loss_backward))
@planned()
def l1_loss(x: Any, target: Any, *, out: Any = None) -> Any:
    """Return the mean of the absolute differences; see `mse_loss`."""
    return mean_loss("l1_loss", absolute, x, target, out)


def mse_loss_reference(x: Array, target: Array) -> Array:
    """Return the loss in float64."""
    return mean_of(lambda x, t: (x - t) ** 2, x, target)


def mse_loss_backward_reference(dloss: Array, x: Array, target: Array) -> Array:
    """Return the gradient in float64."""
    return gradient_of(lambda x, t: 2 * (x - t), dloss, x, target)


def l1_loss_reference(x: Array, target: Array) -> Array:
    """Return the loss in float64."""
    return mean_of(lambda x, t: np.abs(x - t), x, target)


def l1_loss_backward_reference(dloss: Array, x: Array, target: Array) -> Array:
    """Return the gradient in float64."""
    return gradient_of(lambda x, t: np.sign(x - t), dloss, x, target)
