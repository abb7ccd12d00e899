"""The kernels of batch and group normalization, which differ in the elements of a mean only.

    y = normal * weight + bias        normal = (x - mean) / sqrt(variance + eps)
    dx = (g - mean(g) - normal * mean(g * normal)) / sqrt(variance + eps)        g = dy * weight

Means are over a group of channels of one element of the batch, or over a channel of the whole
batch (moments.py).
"""

from __future__ import annotations

from typing import Any

import tile
import tile.language as tl
from tile.ops.channels.views import ELEMENTS, Channels
from tile.ops.core.call import Call, Operand
from tile.ops.core.call_plans import launch
from tile.ops.core.device_functions import widen


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
