"""Group normalization, forward and backward (Wu and He, arXiv:1803.08494).

    y = n * weight + bias        n = (x - mean) * rstd        rstd = 1 / sqrt(variance + eps)
    dx = (g - mean(g) - n * mean(g * n)) * rstd        g = dy * weight
    dweight = sum of dy * n        dbias = sum of dy        over all but the channels

Means are over the elements of a group of channels, for each element of the batch; weight and bias
are those of channels. With as many groups as channels it is instance normalization. A program holds
a group that fits it (group_tiles.py); for others, the kernels are those of batch normalization
(normalization.py). Sums of each channel, multiplied by its weight, add up to the means of groups.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tile.ops.channels.group_tiles import group_tile, launch_group_norm
from tile.ops.channels.moments import moments
from tile.ops.channels.norm_gradients import group_count, normalization_gradients
from tile.ops.channels.normalization import normalize
from tile.ops.channels.views import axis_of, channels_of
from tile.ops.core.autograd import differentiable_by
from tile.ops.core.call import Call, accumulator
from tile.ops.core.call_plans import planned
from tile.ops.core.reference import Array


@differentiable_by("x weight bias", results="y mean variance")
@planned()
def group_norm(
    x: Any,
    groups: int,
    weight: Any,
    bias: Any,
    eps: float = 1e-5,
    axis: int = 1,
    *,
    out: Any = None,
) -> tuple[Any, Any, Any]:
    """Return the group normalization of `x`, in its type, and mean and variance, batch x groups.

    x: batch x channels x any axes; with axis = -1, channels are the last. groups: a divisor of the
    number of channels. weight, bias: one element for each channel, of any float type. eps: added to
    the variance, which is the mean of squared distances.
    """
    call = Call("group_norm")
    source = call.array("x", x)
    view = channels_of(source, axis_of(call, axis))
    call.vectors(view.shape[1], weight=weight, bias=bias)
    eps = call.number("eps", eps, low=0)
    groups = group_count(call, groups, view)
    result = call.output("out", out, source.shape, source.dtype, in_place=("x",))
    if not result.size:
        empty = [call.new((view.shape[0], groups), accumulator(source.dtype)) for _ in range(2)]
        return result.value, empty[0].value, empty[1].value
    target, vectors = channels_of(result, axis), (weight, bias)
    shape = group_tile(view, groups, source.dtype)
    if shape is not None:
        mean, variance = launch_group_norm(
            call, view, target, vectors, groups, eps, shape, source.dtype
        )
        return result.value, mean.value, variance.value
    mean, variance = moments(call, view, source.dtype, groups)
    normalize(view, mean, variance, vectors, target, eps, source.dtype.itemsize)
    return result.value, mean.value, variance.value


@planned()
def group_norm_backward(
    dy: Any,
    x: Any,
    groups: int,
    weight: Any,
    mean: Any,
    variance: Any,
    eps: float = 1e-5,
    axis: int = 1,
) -> tuple[Any, Any, Any]:
    """Return the gradients of x, weight and bias from `dy`, that of the result.

    mean, variance: results of `group_norm`.
    """
    call, statistics = Call("group_norm_backward"), {"mean": mean, "variance": variance}
    return normalization_gradients(call, dy, x, weight, statistics, eps, axis, groups)


def _grouped(x: Array, groups: int, axis: int) -> Array:
    """Return `x` as batch x groups x elements of a group; channels are the slowest of these."""
    first = np.moveaxis(x, axis, 1)
    return first.reshape(len(x), groups, -1)


def _ungrouped(x: Array, like: Array, axis: int) -> Array:
    shape = np.moveaxis(like, axis, 1).shape
    return np.moveaxis(x.reshape(shape), 1, axis)


def _along(x: Array, vector: Array, axis: int) -> Array:
    shape = [1] * x.ndim
    shape[axis] = -1
    return vector.reshape(shape)


def group_norm_reference(
    x: Array, groups: int, weight: Array, bias: Array, eps: float, axis: int
) -> tuple[Array, Array, Array]:
    """Return the results in float64."""
    if not len(x):
        return x, np.zeros((0, groups)), np.zeros((0, groups))
    grouped = _grouped(x, groups, axis)
    mean, variance = grouped.mean(axis=2), grouped.var(axis=2)
    normal = (grouped - mean[..., None]) / np.sqrt(variance + eps)[..., None]
    result = _ungrouped(normal, x, axis) * _along(x, weight, axis) + _along(x, bias, axis)
    return result, mean, variance


def group_norm_backward_reference(
    dy: Array,
    x: Array,
    groups: int,
    weight: Array,
    mean: Array,
    variance: Array,
    eps: float,
    axis: int,
) -> tuple[Array, Array, Array]:
    """Return the gradients in float64."""
    others = tuple(i for i in range(x.ndim) if i != axis % x.ndim)
    if not len(x):
        return x, np.zeros(len(weight)), np.zeros(len(weight))
    rstd = (1 / np.sqrt(variance + eps))[..., None]
    normal = (_grouped(x, groups, axis) - mean[..., None]) * rstd
    direct = _grouped(dy * _along(x, weight, axis), groups, axis)
    through = direct.mean(axis=2, keepdims=True)
    through = through + normal * (direct * normal).mean(axis=2, keepdims=True)
    dx = _ungrouped((direct - through) * rstd, x, axis)
    return dx, (dy * _ungrouped(normal, x, axis)).sum(axis=others), dy.sum(axis=others)
