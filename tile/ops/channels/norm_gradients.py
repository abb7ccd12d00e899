"""The gradients of batch and of group normalization, from the sums of each channel.

    dx = (g - mean(g) - n * mean(g * n)) * rstd        g = dy * weight
    dweight = sum of dy * n        dbias = sum of dy        over all but the channels

Sums of dy and of dy * n are added up for each channel: of the whole batch, or of each of its arrays
for groups. Multiplied by the weights, they add up to the means of groups (normalization.py).
"""

from __future__ import annotations

from typing import Any

import tile
from tile.errors import ArgumentValueError
from tile.ops.channels.channel_sums import channel_sums_kernel
from tile.ops.channels.normalization import group_means, normalize
from tile.ops.channels.views import Channels, axis_of, channels_of
from tile.ops.core.call import Call, Operand, accumulator
from tile.ops.core.call_plans import launch
from tile.ops.core.column_sums import column_sums


def group_count(call: Call, groups: Any, view: Channels) -> int:
    """Return the number of groups, or raise `ArgumentValueError`."""
    batches, channels, length = view.shape
    if type(groups) is not int or groups < 1 or channels % groups:
        raise ArgumentValueError(
            f"{call.op}: `groups` is {groups!r}; it is an integer that divides the channels, "
            f"{channels}"
        )
    if batches and not channels * length:
        raise ArgumentValueError(f"{call.op}: `x` has no elements in a group; they have no mean")
    return groups


def normalization_gradients(
    call: Call,
    dy: Any,
    x: Any,
    weight: Any,
    statistics: dict[str, Any],
    eps: float,
    axis: int,
    groups: int | None = None,
    constant: bool = False,
) -> tuple[Any, Any, Any]:
    """Return the gradients of x, weight and bias.

    statistics: mean and variance, of each channel, or batch x groups. groups: None if statistics
    are of the whole batch. constant: the statistics do not depend on x.
    """
    source = call.array("x", x)
    gradient = call.array("dy", dy, dtypes=(source.dtype,), shape=source.shape)
    axis_of(call, axis)
    view, grad = channels_of(source, axis), channels_of(gradient, axis)
    if groups is None:
        view, grad = view.over_batch(), grad.over_batch()
    batches, channels, length = view.shape
    (weights,) = call.vectors(channels, weight=weight)
    shape: tuple[int, ...] = (channels,)
    per_group, span, parts = 1, *view.parts()
    steps, (items, block) = view.steps, view.tile
    if groups is not None:
        groups = group_count(call, groups, view)
        shape, per_group = (batches, groups), channels // groups
        span, parts = tile.cdiv(length, items), batches
        steps = span * parts
    kind = accumulator(source.dtype)
    mean, variance = (
        call.array(name, array, dtypes=(kind,), rank=len(shape), shape=shape).contiguous()
        for name, array in statistics.items()
    )
    eps = call.number("eps", eps, low=0)
    dx = call.new(source.shape, source.dtype)
    dweight, dbias = (call.new((channels,), weights.dtype) for _ in range(2))
    sums, by_normal = (call.new((parts, channels), kind) for _ in range(2))
    if sums.size:
        launch(channel_sums_kernel, (tile.cdiv(channels, block), parts))(
            *(dy, x, mean.value, variance.value, sums.value, by_normal.value),
            *(grad.strides, view.strides, channels, batches, length, steps, span),
            *(groups or 0, per_group),
            EPS=eps,
            ACROSS=view.channels_last and groups is None,
            ITEMS=items,
            BLOCK=block,
        )
    if groups is None and channels:
        sums, by_normal = _totals(call, sums), _totals(call, by_normal)
    if source.size:
        means, total = None, batches * length if groups is None else per_group * length
        if not constant:
            means = group_means(call, sums, by_normal, weight, per_group, total)
        target = channels_of(dx, axis)
        target = target.over_batch() if groups is None else target
        normalize(view, mean, variance, weight, means, target, grad, eps)
    if channels:
        column_sums(by_normal, dweight, sums, dbias)
    return dx.value, dweight.value, dbias.value


def _totals(call: Call, parts: Operand) -> Operand:
    """Return the sums of columns, as a matrix of one row."""
    total = call.new((1, parts.shape[1]), parts.dtype)
    column_sums(parts, total)
    return total
