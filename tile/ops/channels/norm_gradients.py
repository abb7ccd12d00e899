"""The gradients of batch and of group normalization, from the sums of each channel.

    dx = (g - mean(g) - n * mean(g * n)) * rstd        g = dy * weight
    dweight = sum of dy * n        dbias = sum of dy        over all but the channels

Sums of dy and of dy * n are added up for each channel: of the whole batch, or of each of its arrays
for groups. Multiplied by the weights, they add up to the means of groups (normalization.py).
"""

from __future__ import annotations

from typing import Any

import tile
import tile.language as tl
from tile.errors import ArgumentValueError
from tile.ops.channels.channel_sums import channel_sums_kernel
from tile.ops.channels.group_means import group_means
from tile.ops.channels.normalization import Gradient, normalize
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
    per_group, positions = 1, 1
    added, added_grad = view, grad  # the views whose channels are added up
    if groups is None:
        flat = [each.flat(source.dtype.itemsize) for each in (view, grad)]
        if flat[0] is not view and flat[1] is not grad:
            positions = length
            added, added_grad = (each.over_batch() for each in flat)
    (items, block), steps, (span, parts) = added.tile, added.steps, added.parts()
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
    count = added.shape[1]
    sums, by_normal = (call.new((parts, count), kind) for _ in range(2))
    if sums.size:
        launch(channel_sums_kernel, (tile.cdiv(count, block), parts), dependent=True)(
            *(dy, x, mean.value, variance.value, sums.value, by_normal.value),
            *(added_grad.strides, added.strides, count, added.shape[0], added.shape[2]),
            *(steps, span, groups or 0, per_group * positions),
            EPS=eps,
            ACROSS=added.channels_last and groups is None,
            ITEMS=items,
            BLOCK=block,
        )
    same = groups is None and weights.dtype == kind
    if groups is None and channels:
        first, second = (dbias, dweight) if same else (call.new((1, channels), kind) for _ in "12")
        channel_totals(sums, by_normal, first, second)
        sums, by_normal = first, second
    if source.size:
        total = batches * length if groups is None else per_group * length
        means = None if constant else (sums, by_normal)
        if groups is not None:
            means = group_means(call, sums, by_normal, weight, per_group, total)
        target = channels_of(dx, axis)
        target = target.over_batch() if groups is None else target
        change = Gradient(grad, means, total)
        vectors = weight, None
        normalize(view, mean, variance, vectors, target, eps, source.dtype.itemsize, change)
    if channels and not same:
        column_sums(by_normal, dweight, sums, dbias)
    return dx.value, dweight.value, dbias.value


@tile.jit
def position_sums_kernel(
    sums_ptr, normal_sums_ptr, out_ptr, normal_out_ptr, parts, length, BLOCK: tl.constexpr
):
    """Store the sums of all positions of a channel of all parts."""
    channel, lane = tl.program_id(0), tl.arange(0, BLOCK)
    sums = tl.zeros((BLOCK,), out_ptr.dtype.element_ty)
    by_normal = sums
    for part in range(parts):
        at = (tl.cast(part, tl.int64) * tl.num_programs(0) + channel) * length + lane
        sums += tl.load(sums_ptr + at, mask=lane < length, other=0.0)
        by_normal += tl.load(normal_sums_ptr + at, mask=lane < length, other=0.0)
    tl.store(out_ptr + channel, tl.sum(sums, axis=0))
    tl.store(normal_out_ptr + channel, tl.sum(by_normal, axis=0))


def channel_totals(sums: Operand, by_normal: Operand, first: Operand, second: Operand) -> None:
    """Write the sums of each channel from those of parts and positions."""
    (parts, count), channels = sums.shape, first.size
    if count == channels:
        column_sums(sums, first, by_normal, second)
    else:
        launch(position_sums_kernel, (channels,), dependent=True)(
            *(sums.value, by_normal.value, first.value, second.value, parts, count // channels),
            BLOCK=tile.next_power_of_2(count // channels),
            num_warps=1,
        )
