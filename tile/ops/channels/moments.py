"""The mean and variance of channels of a batch, or of groups of channels.

A program keeps a mean and a sum of squared distances for each lane (Welford, 1962), so that large
means lose no digits; lanes, then parts, are merged by their counts (Chan et al., 1983), in a fixed
order.
"""

from __future__ import annotations

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
