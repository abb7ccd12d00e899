"""The kernels of batch and group normalization, which differ in the elements of a mean only.

    y = normal * weight + bias        normal = (x - mean) / sqrt(variance + eps)
    dx = (g - mean(g) - normal * mean(g * normal)) / sqrt(variance + eps)        g = dy * weight

Means are over a group of channels of one element of the batch, or over a channel of the whole
batch (moments.py).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import tile
import tile.language as tl
from tile.ops.channels.views import ELEMENTS, Channels
from tile.ops.core.call import Operand
from tile.ops.core.call_plans import launch
from tile.ops.core.device_functions import widen

PROGRAMS = 2112  # that elements are shared by: 16 for each multiprocessor of an H200
FLAT_PROGRAMS = 528  # where each position of a plane has statistics to load


@tile.jit
def normalize_kernel(
    dy_ptr,
    x_ptr,
    mean_ptr,
    variance_ptr,
    weight_ptr,
    bias_ptr,
    by_mean_ptr,
    by_variance_ptr,
    y_ptr,
    dy_strides,
    x_strides,
    y_strides,
    batches,
    channels,
    length,
    positions,
    groups,
    per_group,
    span,
    total,
    GRADIENT: tl.constexpr,
    GROUPED: tl.constexpr,
    EPS: tl.constexpr,
    ITEMS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Store y; with GRADIENT dx, from the means of g and of g * normal, if these depend on x.

    by_mean, by_variance: the means, if GROUPED, or the sums of dy and of dy * normal. A program has
    the same elements of `span` arrays of the batch, so that it loads what belongs to channels once:
    weights and biases, and all else unless GROUPED. `positions` of them are of one channel
    (`Channels.flat`).
    """
    blocks = tl.cdiv(length, ITEMS)
    column = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)[None, :]
    item = (tl.program_id(0) % blocks) * ITEMS + tl.arange(0, ITEMS)[:, None]
    exists = column < channels
    inside = exists & (item < length)
    i, place = item.to(tl.int64), column.to(tl.int64)
    x_at = place * x_strides[1] + i * x_strides[2]
    y_at = place * y_strides[1] + i * y_strides[2]
    dy_at = place * dy_strides[1] + i * dy_strides[2] if GRADIENT else None
    channel = (column // positions).to(tl.int64)
    weight = tl.load(weight_ptr + channel, mask=exists, other=0.0)
    if not GRADIENT:
        bias = tl.load(bias_ptr + channel, mask=exists, other=0.0)
    if not GROUPED:
        mean, rstd, by_mean, by_variance = statistics_of(
            mean_ptr, variance_ptr, by_mean_ptr, by_variance_ptr, channel, exists, EPS
        )
        by_mean, by_variance = by_mean * weight / total, by_variance * weight / total
    first = tl.program_id(0) // blocks * span
    for number in range(first, min(batches, first + span)):
        n = tl.cast(number, tl.int64)
        if GROUPED:
            statistic = n * groups + channel // per_group
            mean, rstd, by_mean, by_variance = statistics_of(
                mean_ptr, variance_ptr, by_mean_ptr, by_variance_ptr, statistic, exists, EPS
            )
        x = widen(tl.load(x_ptr + (n * x_strides[0] + x_at), mask=inside, other=0.0))
        normal = (x - mean) * rstd
        if GRADIENT:
            dy = widen(tl.load(dy_ptr + (n * dy_strides[0] + dy_at), mask=inside, other=0.0))
            result = dy * weight
            if by_mean_ptr is not None:
                result = result - by_mean - normal * by_variance
            result = result * rstd
        else:
            result = normal * weight + bias
        tl.store(y_ptr + (n * y_strides[0] + y_at), result, mask=inside)


@tile.jit
def statistics_of(
    mean_ptr, variance_ptr, by_mean_ptr, by_variance_ptr, statistic, exists, EPS: tl.constexpr
):
    """Return means, 1 / standard deviations, and what `by_mean` and `by_variance` have, or 0."""
    mean = tl.load(mean_ptr + statistic, mask=exists, other=0.0)
    rstd = 1.0 / tl.sqrt(tl.load(variance_ptr + statistic, mask=exists, other=0.0) + EPS)
    by_mean, by_variance = tl.zeros((1, 1), mean.dtype), tl.zeros((1, 1), mean.dtype)
    if by_mean_ptr is not None:
        by_mean = tl.load(by_mean_ptr + statistic, mask=exists, other=0.0)
        by_variance = tl.load(by_variance_ptr + statistic, mask=exists, other=0.0)
    return mean, rstd, by_mean, by_variance


@dataclass(frozen=True)
class Gradient:
    """A gradient of results, and what the gradient of x has by the mean and by the variance.

    sums: None if statistics do not depend on x; the means of groups of g and of g * normal, or the
    sums of channels of dy and of dy * normal. total: the elements of a mean.
    """

    dy: Channels
    sums: tuple[Operand, Operand] | None
    total: int


def normalize(
    x: Channels,
    mean: Operand,
    variance: Operand,
    vectors: tuple[Any, Any],
    y: Channels,
    eps: float,
    itemsize: int,
    gradient: Gradient | None = None,
) -> None:
    """Write y; or if `gradient` is given, that of x.

    mean, variance: of channels, or batch x groups. vectors: weight and bias.
    """
    grouped, positions, width = len(mean.shape) == 2, 1, x.shape[1]
    views = [x, y, x if gradient is None else gradient.dy]
    flat = [view.flat(itemsize) for view in views]
    if not grouped and all(one is not view for one, view in zip(flat, views, strict=True)):
        views, positions = flat, x.shape[2]
    x, y, dy = views
    batches, channels, length = x.shape
    items, block = x.tile if positions == 1 else (1, ELEMENTS)
    groups = mean.shape[1] if grouped else 1
    blocks, columns = tile.cdiv(length, items), tile.cdiv(channels, block)
    span = max(1, batches * blocks * columns // (PROGRAMS if positions == 1 else FLAT_PROGRAMS))
    sums = (None, None)
    if gradient is not None and gradient.sums is not None:
        sums = tuple(each.value for each in gradient.sums)
    launch(normalize_kernel, (tile.cdiv(batches, span) * blocks, columns), dependent=True)(
        *(None if gradient is None else dy.value, x.value, mean.value, variance.value),
        *(*vectors, *sums, y.value),
        *(dy.strides, x.strides, y.strides, batches, channels, length, positions),
        *(groups, width // groups, span, 1 if gradient is None else gradient.total),
        GRADIENT=gradient is not None,
        GROUPED=grouped,
        EPS=eps,
        ITEMS=items,
        BLOCK=block,
    )
