"""The mean and variance of channels of a batch, or of groups of channels.

A program keeps a mean and a sum of squared distances for each lane (Welford, 1962), so that large
means lose no digits; lanes, then parts, are merged by their counts (Chan et al., 1983), in a fixed
order.
"""

from __future__ import annotations

import tile
import tile.language as tl
from tile.ops.channels.views import ELEMENTS, Channels, items_of
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
    counts_ptr,
    strides,
    statistics,
    batches,
    length,
    steps,
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
    mean = widen(tl.zeros((ITEMS, BLOCK), x_ptr.dtype.element_ty))
    squares = mean
    # The last step of each element of a batch has fewer lanes, so lanes count what they have. Else
    # only the last one has, and the lanes of all others have as many elements as there are steps.
    COUNTED: tl.constexpr = OVER_BATCH and not CHANNELS_LAST
    count = tl.zeros((ITEMS, 1), mean.dtype)
    for step in range(part * span, min(steps, (part + 1) * span)):
        if OVER_BATCH:
            n, i, exists = items_of(step, batches, length, CHANNELS_LAST, ITEMS)
            channel = column
        elif CHANNELS_LAST:
            item = step * ITEMS + lane
            n, i, exists = column // groups, item // per_group, item < per_group * length
            channel = column % groups * per_group + item % per_group
        else:
            item = step * ITEMS + lane
            n, i, exists = column // groups, item % length, item < per_group * length
            channel = column % groups * per_group + item // length
        at = n.to(tl.int64) * strides[0] + channel.to(tl.int64) * strides[1] + i * strides[2]
        inside = exists & (column < statistics)
        x = widen(tl.load(x_ptr + at, mask=inside, other=0.0))
        distance = tl.where(inside, x - mean, 0.0)
        if COUNTED:
            count += exists.to(count.dtype)
            mean += distance / tl.maximum(count, 1.0)
        else:
            mean += distance / (step - part * span + 1)
        squares += distance * tl.where(inside, x - mean, 0.0)
    if not COUNTED:
        total = (batches if OVER_BATCH else per_group) * length
        left = min(total - part * span * ITEMS, span * ITEMS)
        count = tl.cdiv(tl.maximum(left - lane, 0), ITEMS).to(mean.dtype)
    elements = tl.sum(count)
    average = tl.sum(mean * count, axis=0, keep_dims=True) / elements
    distance = mean - average
    squares = tl.sum(squares + distance * distance * count, axis=0, keep_dims=True)
    at = part.to(tl.int64) * statistics + column
    tl.store(mean_ptr + at, average, mask=column < statistics)
    tl.store(squares_ptr + at, squares, mask=column < statistics)
    tl.store(counts_ptr + part, elements, mask=tl.program_id(0) == 0)  # of each column


@tile.jit
def merge_kernel(
    means_ptr,
    squares_ptr,
    counts_ptr,
    mean_ptr,
    variance_ptr,
    parts,
    statistics,
    total,
    PARTS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    column = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)[None, :]
    exists = column < statistics
    lane = tl.arange(0, PARTS)[:, None]
    mean = tl.zeros((1, BLOCK), means_ptr.dtype.element_ty)
    for start in range(0, parts, PARTS):
        part = start + lane
        count = tl.load(counts_ptr + part, mask=part < parts, other=0.0)
        at = part.to(tl.int64) * statistics + column
        means = tl.load(means_ptr + at, mask=exists & (part < parts), other=0.0)
        mean += tl.sum(means * count, axis=0, keep_dims=True)
    mean = mean / total
    squares = tl.zeros((1, BLOCK), means_ptr.dtype.element_ty)
    for start in range(0, parts, PARTS):
        part = start + lane
        inside = exists & (part < parts)
        count = tl.load(counts_ptr + part, mask=part < parts, other=0.0)
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
        total, steps, (items, block) = batches * length, x.steps, x.tile
    else:
        total = channels // groups * length
        items, block = min(ELEMENTS, tile.next_power_of_2(total)), 1
        wanted = max(1, 528 // max(1, batches * groups))
        steps = tile.cdiv(total, items)
        span = tile.cdiv(steps, wanted)
        parts = tile.cdiv(steps, span)
    kind = accumulator(dtype)
    mean, variance = call.new(shape, kind), call.new(shape, kind)
    count = mean.size
    means, squares = call.new((parts, count), kind), call.new((parts, count), kind)
    counts = call.new((parts,), kind)
    launch(moments_kernel, (tile.cdiv(count, block), parts))(
        *(x.value, means.value, squares.value, counts.value, x.strides, count, batches, length),
        *(steps, span),
        *(groups or 1, channels // (groups or channels)),
        OVER_BATCH=groups is None,
        CHANNELS_LAST=x.channels_last,
        ITEMS=items,
        BLOCK=block,
    )
    launch(merge_kernel, (tile.cdiv(count, STATISTICS),))(
        *(means.value, squares.value, counts.value, mean.value, variance.value),
        *(parts, count, total),
        PARTS=min(MERGED, tile.next_power_of_2(parts)),
        BLOCK=STATISTICS,
    )
    return mean, variance
