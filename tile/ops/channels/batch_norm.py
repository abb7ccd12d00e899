"""Batch normalization of channels, forward and backward (Ioffe and Szegedy, arXiv:1502.03167).

    y = n * weight + bias        n = (x - mean) * rstd        rstd = 1 / sqrt(variance + eps)
    dx = (g - mean(g) - n * mean(g * n)) * rstd        g = dy * weight; means are over the batch
    dweight = sum of dy * n        dbias = sum of dy        over all but the channels

Both passes read x twice: for the sums of each channel, which many programs share, and for the
results (normalization.py). The backward pass needs the mean and the variance of the forward pass.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tile.errors import ArgumentValueError
from tile.ops.channels.moments import moments
from tile.ops.channels.norm_gradients import normalization_gradients
from tile.ops.channels.normalization import normalize
from tile.ops.channels.views import axis_of, channels_of
from tile.ops.core.autograd import differentiable_by
from tile.ops.core.call import Call, accumulator
from tile.ops.core.call_plans import planned
from tile.ops.core.reference import Array, wide


@differentiable_by(
    "x weight bias",
    results="y mean variance",
    constant=lambda step: step.arguments.get("mean") is not None,
)
@planned()
def batch_norm(
    x: Any,
    weight: Any,
    bias: Any,
    mean: Any = None,
    variance: Any = None,
    eps: float = 1e-5,
    axis: int = 1,
    *,
    out: Any = None,
) -> tuple[Any, Any, Any]:
    """Return the batch normalization of `x`, in its type, and the mean and variance of channels.

    x: batch x channels x any axes; with axis = -1, channels are the last. weight, bias: one element
    for each channel, of any float type. mean, variance: float32, or float64 for float64; by default
    those of the batch, where the variance is the mean of squared distances. eps: added to it.
    """
    call = Call("batch_norm")
    source = call.array("x", x)
    view = channels_of(source, axis_of(call, axis))
    channels, kind = view.shape[1], accumulator(source.dtype)
    call.vectors(channels, weight=weight, bias=bias)
    eps = call.number("eps", eps, low=0)
    if (mean is None) != (variance is None):
        raise ArgumentValueError("batch_norm: `mean` and `variance` are given together")
    if mean is not None:
        middle, spread = call.vectors(channels, (kind,), mean=mean, variance=variance)
    elif not view.shape[0] * view.shape[2]:
        raise ArgumentValueError(f"batch_norm: `x` has shape {source.shape}; it has no mean")
    result = call.output("out", out, source.shape, source.dtype, in_place=("x",))
    if mean is None:
        middle, spread = moments(call, view.over_batch(), source.dtype, None)
    if result.size:
        target = channels_of(result, axis).over_batch()
        normalize(
            *(view.over_batch(), middle, spread, (weight, bias), target, eps),
            source.dtype.itemsize,
        )
    return result.value, middle.value, spread.value


@planned()
def batch_norm_backward(
    dy: Any,
    x: Any,
    weight: Any,
    mean: Any,
    variance: Any,
    eps: float = 1e-5,
    axis: int = 1,
    constant: bool = False,
) -> tuple[Any, Any, Any]:
    """Return the gradients of x, weight and bias from `dy`, that of the result.

    mean, variance: results of `batch_norm`. constant: these were arguments of it, so that they do
    not depend on x.
    """
    call, statistics = Call("batch_norm_backward"), {"mean": mean, "variance": variance}
    return normalization_gradients(call, dy, x, weight, statistics, eps, axis, constant=constant)


def _along(x: Array, axis: int, *vectors: Array) -> tuple[tuple[int, ...], list[Array]]:
    """Return the axes that are not channels, and vectors of channels to combine with `x`."""
    channels = axis % x.ndim
    shape = [-1 if i == channels else 1 for i in range(x.ndim)]
    others = tuple(i for i in range(x.ndim) if i != channels)
    return others, [vector.reshape(shape) for vector in wide(*vectors)]


def batch_norm_reference(
    x: Array,
    weight: Array,
    bias: Array,
    mean: Array | None,
    variance: Array | None,
    eps: float,
    axis: int,
) -> tuple[Array, Array, Array]:
    """Return the results in float64."""
    others, (scale, shift) = _along(x, axis, weight, bias)
    if mean is None or variance is None:
        mean, variance = x.mean(axis=others), x.var(axis=others)
    _, (middle, spread) = _along(x, axis, mean, variance)
    return (x - middle) / np.sqrt(spread + eps) * scale + shift, mean, variance


def batch_norm_backward_reference(
    dy: Array,
    x: Array,
    weight: Array,
    mean: Array,
    variance: Array,
    eps: float,
    axis: int,
    constant: bool,
) -> tuple[Array, Array, Array]:
    """Return the gradients in float64."""
    others, (scale, middle, spread) = _along(x, axis, weight, mean, variance)
    normal = (x - middle) / np.sqrt(spread + eps)
    direct = dy * scale
    through = direct.mean(axis=others, keepdims=True)
    through = through + normal * (direct * normal).mean(axis=others, keepdims=True)
    dx = (direct - (0 if constant else through)) / np.sqrt(spread + eps)
    return dx, (dy * normal).sum(axis=others), dy.sum(axis=others)
