"""The Kullback-Leibler divergence, averaged over all elements, forward and backward.

    kl_div: t (log t - x), of log probabilities x and probabilities t; 0 where t is 0

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


@tile.jit
def divergence(x, t, FAST: tl.constexpr = False):
    return tl.where(t == 0, 0.0, t * (logarithm(t, FAST) - x))


@tile.jit
def fast_divergence(x, t):
    return divergence(x, t, FAST=True)


@tile.jit
def divergence_slope(x, t):
    return -t


@planned()
def kl_div_backward(dloss: Any, x: Any, target: Any, *, out: Any = None) -> Any:
    """Return the gradient of x from `dloss`, that of the loss."""
    op = "kl_div_backward"
    return mean_loss_gradient(
        op, divergence_slope, dloss, x, target, out, probabilities=("target",)
    )


@differentiable(gradient_by(kl_div_backward))
@planned()
def kl_div(x: Any, target: Any, *, out: Any = None) -> Any:
    """Return the mean of the terms of the Kullback-Leibler divergence of `target` from exp(x).

    x: log probabilities. target: probabilities, which are checked to be 0 to 1 in host memory. See
    `mse_loss`.
    """
    return mean_loss(
        *("kl_div", divergence, x, target, out), probabilities=("target",), narrow=fast_divergence
    )


def kl_div_reference(x: Array, target: Array) -> Array:
    """Return the loss in float64."""
    return mean_of(lambda x, t: t * (np.log(np.where(t == 0, 1, t)) - x), x, target)


def kl_div_backward_reference(dloss: Array, x: Array, target: Array) -> Array:
    """Return the gradient in float64."""
    return gradient_of(lambda x, t: -t, dloss, x, target)
