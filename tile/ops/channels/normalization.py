"""The kernels of batch and group normalization, which differ in the elements of a mean only.

    y = normal * weight + bias        normal = (x - mean) / sqrt(variance + eps)
    dx = (g - mean(g) - normal * mean(g * normal)) / sqrt(variance + eps)        g = dy * weight

Means are over a group of channels of one element of the batch, or over a channel of the whole
batch. A program of the moments keeps a mean and a sum of squared distances for each lane (Welford,
1962), so that large means lose no digits; lanes, then parts, are merged by their counts (Chan et
al., 1983), in a fixed order.
"""

from __future__ import annotations

from typing import Any

import tile
import tile.language as tl
from tile.ops.channels.views import ELEMENTS, Channels
from tile.ops.core.call import Call, Operand, accumulator
from tile.ops.core.call_plans import launch
from tile.ops.core.device_functions import widen
from tile.ops.core.new_arrays import DType

MERGED = 128  # parts of a program's tile
STATISTICS = 32


@tile.jit
def moments_kernel(
    x_ptr,
    mean_ptr,
    squares_ptr,
    strides,
    statistics,
    length,
    total,
    span,
    groups,
    per_group,
    OVER_BATCH: tl.constexpr,
    CHANNELS_LAST: tl.constexpr,
    ITEMS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    column = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)[None, :]
    part = tl.program_id(1)
    lane = tl.arange(0, ITEMS)[:, None]
    start, end = part * span, min(total, (part + 1) * span)
    mean = widen(tl.zeros((ITEMS, BLOCK), x_ptr.dtype.element_ty))
    squares = mean
    for step in range(tl.cdiv(end - start, ITEMS)):
        item = start + step * ITEMS + lane
        if OVER_BATCH:
            n, channel, i = item // length, column, item % length
        elif CHANNELS_LAST:
            n, i = column // groups, item // per_group
            channel = column % groups * per_group + item % per_group
        else:
            n, i = column // groups, item % length
            channel = column % groups * per_group + item // length
        at = n.to(tl.int64) * strides[0] + channel.to(tl.int64) * strides[1] + i * strides[2]
        inside = (item < end) & (column < statistics)
        x = widen(tl.load(x_ptr + at, mask=inside, other=0.0))
        distance = tl.where(inside, x - mean, 0.0)
        mean += distance / (step + 1)
        squares += distance * tl.where(inside, x - mean, 0.0)
    count = tl.cdiv(tl.maximum(end - start - lane, 0), ITEMS).to(mean.dtype)
    average = tl.sum(mean * count, axis=0, keep_dims=True) / (end - start)
    distance = mean - average
    squares = tl.sum(squares + distance * distance * count, axis=0, keep_dims=True)
    at = part.to(tl.int64) * statistics + column
    tl.store(mean_ptr + at, average, mask=column < statistics)
    tl.store(squares_ptr + at, squares, mask=column < statistics)


@tile.jit
def merge_kernel(
    means_ptr,
    squares_ptr,
    mean_ptr,
    variance_ptr,
    parts,
    statistics,
    total,
    span,
    PARTS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    column = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)[None, :]
    exists = column < statistics
    lane = tl.arange(0, PARTS)[:, None]
    mean = tl.zeros((1, BLOCK), means_ptr.dtype.element_ty)
    for start in range(0, parts, PARTS):
        part = start + lane
        count = tl.minimum(span, total - part * span)
        at = part.to(tl.int64) * statistics + column
        means = tl.load(means_ptr + at, mask=exists & (part < parts), other=0.0)
        mean += tl.sum(means * count, axis=0, keep_dims=True)
    mean = mean / total
    squares = tl.zeros((1, BLOCK), means_ptr.dtype.element_ty)
    for start in range(0, parts, PARTS):
        part = start + lane
        inside = exists & (part < parts)
        count = tl.minimum(span, total - part * span)
        at = part.to(tl.int64) * statistics + column
        distance = tl.where(inside, tl.load(means_ptr + at, mask=inside, other=0.0) - mean, 0.0)
        more = tl.load(squares_ptr + at, mask=inside, other=0.0)
        squares += tl.sum(more + distance * distance * count, axis=0, keep_dims=True)
    tl.store(mean_ptr + column, mean, mask=exists)
    tl.store(variance_ptr + column, squares / total, mask=exists)


@tile.jit
def normalize_kernel(
    dy_ptr,
    x_ptr,
    mean_ptr,
    variance_ptr,
    weight_ptr,
    bias_ptr,
    y_ptr,
    dy_strides,
    x_strides,
    y_strides,
    channels,
    length,
    groups,
    per_group,
    GRADIENT: tl.constexpr,
    EPS: tl.constexpr,
    ITEMS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Store y; with GRADIENT dx, where `bias` has the means of g, then of g * normal, or None."""
    blocks = tl.cdiv(length, ITEMS)
    n = tl.program_id(0).to(tl.int64) // blocks
    column = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)[None, :]
    item = (tl.program_id(0) % blocks) * ITEMS + tl.arange(0, ITEMS)[:, None]
    exists = column < channels
    inside = exists & (item < length)
    statistic = n * groups + column // per_group
    mean = tl.load(mean_ptr + statistic, mask=exists, other=0.0)
    rstd = 1.0 / tl.sqrt(tl.load(variance_ptr + statistic, mask=exists, other=0.0) + EPS)
    weight = tl.load(weight_ptr + column, mask=exists, other=0.0)
    i, channel = item.to(tl.int64), column.to(tl.int64)
    at = n * x_strides[0] + channel * x_strides[1] + i * x_strides[2]
    normal = (widen(tl.load(x_ptr + at, mask=inside, other=0.0)) - mean) * rstd
    if GRADIENT:
        at = n * dy_strides[0] + channel * dy_strides[1] + i * dy_strides[2]
        result = widen(tl.load(dy_ptr + at, mask=inside, other=0.0)) * weight
        if bias_ptr is not None:
            by_mean = tl.load(bias_ptr + 2 * statistic, mask=exists, other=0.0)
            by_variance = tl.load(bias_ptr + 2 * statistic + 1, mask=exists, other=0.0)
            result = result - by_mean - normal * by_variance
        result = result * rstd
    else:
        result = normal * weight + tl.load(bias_ptr + column, mask=exists, other=0.0)
    at = n * y_strides[0] + channel * y_strides[1] + i * y_strides[2]
    tl.store(y_ptr + at, result, mask=inside)


@tile.jit
def group_means_kernel(
    sums_ptr, by_normal_ptr, weight_ptr, means_ptr, groups, per_group, total, BLOCK: tl.constexpr
):
    """Store the means of g and of g * normal for each group, from the sums of each channel."""
    group = tl.program_id(0).to(tl.int64)
    n, lane = group // groups, tl.arange(0, BLOCK)
    first = group % groups * per_group
    sums = tl.zeros((BLOCK,), sums_ptr.dtype.element_ty)
    by_normal = sums
    for start in range(0, per_group, BLOCK):
        inside = start + lane < per_group
        channel = first + start + lane
        weight = tl.load(weight_ptr + channel, mask=inside, other=0.0)
        at = n * groups * per_group + channel
        sums += weight * tl.load(sums_ptr + at, mask=inside, other=0.0)
        by_normal += weight * tl.load(by_normal_ptr + at, mask=inside, other=0.0)
    tl.store(means_ptr + 2 * group, tl.sum(sums, axis=0) / total)
    tl.store(means_ptr + 2 * group + 1, tl.sum(by_normal, axis=0) / total)


def moments(call: Call, x: Channels, dtype: DType, groups: int | None) -> tuple[Operand, Operand]:
    """Return mean and variance of each channel of the batch, or of each group of one of its arrays.

    groups: None, or their number; then the results are batch x groups.
    """
    batches, channels, length = x.shape
    shape: tuple[int, ...] = (channels,) if groups is None else (batches, groups)
    if groups is None:
        span, parts = x.parts()
        total, (items, block) = batches * length, x.tile
    else:
        total = channels // groups * length
        items, block = min(ELEMENTS, tile.next_power_of_2(total)), 1
        wanted = max(1, 528 // max(1, batches * groups))
        span = tile.cdiv(tile.cdiv(total, items), wanted) * items
        parts = tile.cdiv(total, span)
    kind = accumulator(dtype)
    mean, variance = call.new(shape, kind), call.new(shape, kind)
    count = mean.size
    means, squares = call.new((parts, count), kind), call.new((parts, count), kind)
    launch(moments_kernel, (tile.cdiv(count, block), parts))(
        *(x.value, means.value, squares.value, x.strides, count, length, total, span),
        *(groups or 1, channels // (groups or channels)),
        OVER_BATCH=groups is None,
        CHANNELS_LAST=x.channels_last,
        ITEMS=items,
        BLOCK=block,
    )
    launch(merge_kernel, (tile.cdiv(count, STATISTICS),))(
        *(means.value, squares.value, mean.value, variance.value, parts, count, total, span),
        PARTS=min(MERGED, tile.next_power_of_2(parts)),
        BLOCK=STATISTICS,
    )
    return mean, variance


def group_means(
    call: Call, sums: Operand, by_normal: Operand, weight: Any, per_group: int, total: int
) -> Operand:
    """Return the means of g and of g * normal of each group, from sums of channels.

    sums, by_normal: of dy and dy * normal, batch x channels; total: the elements of a group.
    """
    batches, channels = sums.shape
    groups = channels // per_group
    means = call.new((batches * groups, 2), sums.dtype)
    launch(group_means_kernel, (batches * groups,))(
        *(sums.value, by_normal.value, weight, means.value, groups, per_group, total),
        BLOCK=min(ELEMENTS, tile.next_power_of_2(per_group)),
    )
    return means


def normalize(
    x: Channels,
    mean: Operand,
    variance: Operand,
    weight: Any,
    bias: Any,
    y: Channels,
    dy: Channels | None,
    eps: float,
) -> None:
    """Write y, from `bias`; or if `dy` is given its gradient, where `bias` has means of groups.

    mean, variance: of channels, or batch x groups.
    """
    batches, channels, length = x.shape
    items, block = x.tile
    groups = mean.shape[1] if len(mean.shape) == 2 else 0
    gradient = x if dy is None else dy
    launch(normalize_kernel, (batches * tile.cdiv(length, items), tile.cdiv(channels, block)))(
        *(None if dy is None else dy.value, x.value, mean.value, variance.value, weight),
        *(bias.value if isinstance(bias, Operand) else bias, y.value),
        *(gradient.strides, x.strides, y.strides, channels, length),
        *(groups, channels // groups if groups else 1),
        GRADIENT=dy is not None,
        EPS=eps,
        ITEMS=items,
        BLOCK=block,
    )
