"""Binary cross entropies, averaged over all elements, forward and backward.

    binary_cross_entropy: max(x, 0) - x t + log(1 + exp(-|x|)), of logits x and probabilities t
    bce_loss: -(t log x + (1 - t) log(1 - x)), of probabilities; a logarithm is at least -100

mean_loss.py has the kernels.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import tile
import tile.language as tl
from tile.ops.core.autograd import differentiable
from tile.ops.core.call_plans import planned
from tile.ops.core.device_functions import logarithm
from tile.ops.core.reference import Array
from tile.ops.pointwise.mean_loss import (
    gradient_by,
    gradient_of,
    mean_loss,
    mean_loss_gradient,
    mean_of,
)

LEAST = tl.constexpr(-100.0)  # of a logarithm, as in PyTorch
SMALLEST = tl.constexpr(1e-12)  # of x (1 - x), by which a slope is divided, as in PyTorch


@tile.jit
def logistic(x, t, FAST: tl.constexpr = False):
    # exp of a negative number cannot overflow.
    return tl.where(x > 0, x, 0.0) - x * t + logarithm(1.0 + tl.exp(-tl.abs(x)), FAST)


@tile.jit
def fast_logistic(x, t):
    return logistic(x, t, FAST=True)


@tile.jit
def logistic_slope(x, t):
    return 1.0 / (1.0 + tl.exp(-x)) - t


@tile.jit
def entropy(x, t, FAST: tl.constexpr = False):
    log_x = tl.maximum(logarithm(x, FAST), LEAST, propagate_nan=tl.PropagateNan.ALL)
    log_rest = tl.maximum(logarithm(1.0 - x, FAST), LEAST, propagate_nan=tl.PropagateNan.ALL)
    return -(t * log_x + (1.0 - t) * log_rest)


@tile.jit
def fast_entropy(x, t):
    return entropy(x, t, FAST=True)


@tile.jit
def entropy_slope(x, t):
    return (x - t) / tl.maximum(x * (1.0 - x), SMALLEST, propagate_nan=tl.PropagateNan.ALL)


@planned()
def binary_cross_entropy_backward(dloss: Any, x: Any, target: Any, *, out: Any = None) -> Any:
    """Return the gradient of x from `dloss`, that of the loss."""
    op = "binary_cross_entropy_backward"
    return mean_loss_gradient(op, logistic_slope, dloss, x, target, out, probabilities=("target",))


@differentiable(gradient_by(binary_cross_entropy_backward))
@planned()
def binary_cross_entropy(x: Any, target: Any, *, out: Any = None) -> Any:
    """Return the mean of the cross entropies of logits `x` and probabilities `target`.

    Probabilities in host memory are checked to be 0 to 1. See `mse_loss`.
    """
    return mean_loss(
        *("binary_cross_entropy", logistic, x, target, out),
        probabilities=("target",),
        narrow=fast_logistic,
    )


@planned()
def bce_loss_backward(dloss: Any, x: Any, target: Any, *, out: Any = None) -> Any:
    """Return the gradient of x from `dloss`, that of the loss."""
    both = ("x", "target")
    op = "bce_loss_backward"
    return mean_loss_gradient(op, entropy_slope, dloss, x, target, out, probabilities=both)


@differentiable(gradient_by(bce_loss_backward))
@planned()
def bce_loss(x: Any, target: Any, *, out: Any = None) -> Any:
    """Return the mean of the cross entropies of probabilities `x` and `target`.

    Both are checked to be 0 to 1 in host memory. Logits have the smaller error in
    `binary_cross_entropy`. See `mse_loss`.
    """
    both = ("x", "target")
    return mean_loss("bce_loss", entropy, x, target, out, probabilities=both, narrow=fast_entropy)


def binary_cross_entropy_reference(x: Array, target: Array) -> Array:
    """Return the loss in float64."""
    return mean_of(lambda x, t: np.logaddexp(0, x) - x * t, x, target)


def binary_cross_entropy_backward_reference(dloss: Array, x: Array, target: Array) -> Array:
    """Return the gradient in float64."""
    return gradient_of(lambda x, t: 1 / (1 + np.exp(-x)) - t, dloss, x, target)


def bce_loss_reference(x: Array, target: Array) -> Array:
    """Return the loss in float64."""

    def loss(x: Array, t: Array) -> Array:
        with np.errstate(divide="ignore"):
            log_x, log_rest = np.maximum(np.log(x), -100), np.maximum(np.log(1 - x), -100)
        result: Array = -(t * log_x + (1 - t) * log_rest)
        return result

    return mean_of(loss, x, target)


def bce_loss_backward_reference(dloss: Array, x: Array, target: Array) -> Array:
    """Return the gradient in float64."""
    return gradient_of(lambda x, t: (x - t) / np.maximum(x * (1 - x), 1e-12), dloss, x, target)
