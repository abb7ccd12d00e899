"""Huber's loss of differences, averaged over all elements, forward and backward.

    d = x - t        huber_loss: d^2 / 2 where |d| < delta, else delta (|d| - delta / 2)

smooth_l1_loss has delta = 1. mean_loss.py has the kernels.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import tile
import tile.language as tl
from tile.ops.core.autograd import differentiable
from tile.ops.core.call import Call
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
def huber(x, t, DELTA: tl.constexpr):
    d = tl.abs(x - t)
    return tl.where(d < DELTA, 0.5 * d * d, DELTA * (d - 0.5 * DELTA))


@tile.jit
def huber_slope(x, t, DELTA: tl.constexpr):
    d = x - t
    return tl.where(tl.abs(d) < DELTA, d, tl.where(d < 0, -DELTA, DELTA))


@planned()
def smooth_l1_loss_backward(dloss: Any, x: Any, target: Any, *, out: Any = None) -> Any:
    """Return the gradient of x from `dloss`, that of the loss."""
    op = "smooth_l1_loss_backward"
    return mean_loss_gradient(op, huber_slope, dloss, x, target, out, (1.0,))


@differentiable(gradient_by(smooth_l1_loss_backward))
@planned()
def smooth_l1_loss(x: Any, target: Any, *, out: Any = None) -> Any:
    """Return the mean of the smooth absolute differences; see `mse_loss`."""
    return mean_loss("smooth_l1_loss", huber, x, target, out, (1.0,))


@planned()
def huber_loss_backward(
    dloss: Any, x: Any, target: Any, delta: float = 1.0, *, out: Any = None
) -> Any:
    """Return the gradient of x from `dloss`, that of the loss."""
    op = "huber_loss_backward"
    parameters = (Call(op).number("delta", delta, low=0),)
    return mean_loss_gradient(op, huber_slope, dloss, x, target, out, parameters)


@differentiable(gradient_by(huber_loss_backward))
@planned()
def huber_loss(x: Any, target: Any, delta: float = 1.0, *, out: Any = None) -> Any:
    """Return the mean of Huber's loss, linear from the difference `delta` on; see `mse_loss`."""
    parameters = (Call("huber_loss").number("delta", delta, low=0),)
    return mean_loss("huber_loss", huber, x, target, out, parameters)


def smooth_l1_loss_reference(x: Array, target: Array) -> Array:
    """Return the loss in float64."""
    return huber_loss_reference(x, target, 1.0)


def smooth_l1_loss_backward_reference(dloss: Array, x: Array, target: Array) -> Array:
    """Return the gradient in float64."""
    return huber_loss_backward_reference(dloss, x, target, 1.0)


def huber_loss_reference(x: Array, target: Array, delta: float) -> Array:
    """Return the loss in float64."""

    def loss(x: Array, t: Array) -> Array:
        d = np.abs(x - t)
        result: Array = np.where(d < delta, d * d / 2, delta * (d - delta / 2))
        return result

    return mean_of(loss, x, target)


def huber_loss_backward_reference(dloss: Array, x: Array, target: Array, delta: float) -> Array:
    """Return the gradient in float64."""
    return gradient_of(lambda x, t: np.clip(x - t, -delta, delta), dloss, x, target)
