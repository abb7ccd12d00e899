"""The mean and variance of channels of a batch, or of groups of channels.

The elements of a statistic are those of an outer and an inner axis. Programs add up distances to
the mean of a sample of them, and their squares, so that large means lose no digits. The variance
has an error of at most elements / sample roundings: a sample that is far from the mean of all has
elements whose distances make up as much of the variance. Sums have a fixed order.

Planes whose elements are no whole vectors are one axis with the channels, of which each position
has a mean and a variance over the batch. Those of a channel are merged (Chan et al., 1983), and so
are those of the channels of a group that are adjacent in memory.
"""

from __future__ import annotations

from dataclasses import dataclass

import tile
import tile.language as tl
from tile.ops.channels.views import MOST_CHANNELS, Channels
from tile.ops.core.call import Call, Operand, accumulator
from tile.ops.core.call_plans import launch
from tile.ops.core.device_functions import widen
from tile.ops.core.new_arrays import DType

ELEMENTS = 4096  # of a program's tile
THREAD = 16  # elements of a thread
PROGRAMS = 528  # that share all elements: four for each multiprocessor of an H200
PROGRAMS_LAST = 264  # where channels are contiguous, so that a program has parts of several
SAMPLES = 32  # elements of a statistic, one for each thread of a warp
SAMPLES_OF_MANY = 8  # where a program has several statistics
MERGED = 128  # parts of a program's tile
STATISTICS = 32


@tile.jit
def sample_mean(x_ptr, exists, outer, inner, strides, SAMPLE: tl.constexpr):
    """Return the mean of SAMPLE elements of each statistic, evenly spaced."""
    number = tl.arange(0, SAMPLE)[:, None]
    if outer > 1:
        o = (number.to(tl.int64) * outer // SAMPLE).to(tl.int32)
        i = number % inner
    else:
        o = number * 0
        i = (number.to(tl.int64) * inner // SAMPLE).to(tl.int32)
    at = o.to(tl.int64) * strides[2] + i.to(tl.int64) * strides[3]
    x = widen(tl.load(x_ptr + at, mask=exists, other=0.0))
    return tl.sum(x, axis=0, keep_dims=True) / SAMPLE


@tile.jit
def store_moments(mean_ptr, variance_ptr, at, exists, origin, sums, squares, total):
    mean = sums / total
    variance = squares / total - mean * mean
    tl.store(mean_ptr + at, origin + mean, mask=exists)
    tl.store(variance_ptr + at, tl.where(variance < 0, 0.0, variance), mask=exists)


@tile.jit
def moments_kernel(
    x_ptr,
    mean_ptr,
    variance_ptr,
    origin_ptr,
    statistics,
    groups,
    strides,
    outer,
    inner,
    steps,
    span,
    total,
    WHOLE: tl.constexpr,
    EVEN: tl.constexpr,
    SAMPLE: tl.constexpr,
    OUTER: tl.constexpr,
    INNER: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Store means and variances, or unless it is the WHOLE, the sums of a part and their origins.

    strides: of batches, groups, outer and inner axis. EVEN: steps have no lanes without elements.
    """
    across = tl.cdiv(groups, BLOCK)
    n, part = tl.program_id(0) // across, tl.program_id(1)
    group = (tl.program_id(0) - n * across) * BLOCK + tl.arange(0, BLOCK)[None, :]
    lane = tl.arange(0, OUTER * INNER)[:, None]
    blocks = tl.cdiv(inner, INNER)
    exists = True if BLOCK == 1 else group < groups
    base = n.to(tl.int64) * strides[0] + group.to(tl.int64) * strides[1]
    origin = sample_mean(x_ptr + base, exists, outer, inner, strides, SAMPLE)
    base += (lane // INNER).to(tl.int64) * strides[2] + (lane % INNER).to(tl.int64) * strides[3]
    sums = tl.zeros((OUTER * INNER, BLOCK), origin.dtype)
    squares = sums
    for step in range(part * span, min(steps, (part + 1) * span)):
        o, i = step // blocks * OUTER, step % blocks * INNER
        x_at = x_ptr + (base + (o.to(tl.int64) * strides[2] + i.to(tl.int64) * strides[3]))
        if EVEN:
            distance = widen(tl.load(x_at)) - origin
        else:
            inside = exists & (i + lane % INNER < inner) & (o + lane // INNER < outer)
            distance = tl.where(inside, widen(tl.load(x_at, mask=inside, other=0.0)) - origin, 0.0)
        sums += distance
        squares += distance * distance
    sums = tl.sum(sums, axis=0, keep_dims=True)
    squares = tl.sum(squares, axis=0, keep_dims=True)
    column = n * groups + group
    if WHOLE:
        store_moments(mean_ptr, variance_ptr, column, exists, origin, sums, squares, total)
    else:
        at = part.to(tl.int64) * statistics + column
        tl.store(mean_ptr + at, sums, mask=exists)
        tl.store(variance_ptr + at, squares, mask=exists)
        tl.store(origin_ptr + column, origin, mask=exists & (part == 0))


@tile.jit
def merge_parts_kernel(
    sums_ptr,
    squares_ptr,
    origin_ptr,
    mean_ptr,
    variance_ptr,
    parts,
    statistics,
    total,
    PARTS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Store means and variances from the sums of parts."""
    column = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)[None, :]
    exists = column < statistics
    origin = tl.load(origin_ptr + column, mask=exists, other=0.0)
    sums = tl.zeros((PARTS, BLOCK), origin.dtype)
    squares = sums
    for start in range(0, parts, PARTS):
        part = start + tl.arange(0, PARTS)[:, None]
        inside = exists & (part < parts)
        at = part.to(tl.int64) * statistics + column
        sums += tl.load(sums_ptr + at, mask=inside, other=0.0)
        squares += tl.load(squares_ptr + at, mask=inside, other=0.0)
    sums = tl.sum(sums, axis=0, keep_dims=True)
    squares = tl.sum(squares, axis=0, keep_dims=True)
    store_moments(mean_ptr, variance_ptr, column, exists, origin, sums, squares, total)


@tile.jit
def merge_positions_kernel(
    means_ptr, variances_ptr, mean_ptr, variance_ptr, length, BLOCK: tl.constexpr
):
    """Store the mean and variance of `length` positions that have as many elements each."""
    channel = tl.program_id(0).to(tl.int64)
    lane = tl.arange(0, BLOCK)
    inside = lane < length
    means = tl.load(means_ptr + channel * length + lane, mask=inside, other=0.0)
    mean = tl.sum(means, axis=0) / length
    distance = tl.where(inside, means - mean, 0.0)
    variances = tl.load(variances_ptr + channel * length + lane, mask=inside, other=0.0)
    tl.store(mean_ptr + channel, mean)
    variance = tl.sum(variances + distance * distance, axis=0) / length
    tl.store(variance_ptr + channel, variance)


@dataclass(frozen=True)
class Statistics:
    """The elements of statistics, by the strides of batches, groups, outer and inner axis.

    There are groups for each element of the batch, each of outer x inner elements.
    """

    batches: int
    groups: int
    strides: tuple[int, int, int, int]
    outer: int
    inner: int

    @classmethod
    def of(cls, x: Channels, groups: int | None) -> Statistics:
        (batches, channels, length), (batch, channel, step) = x.shape, x.strides
        if groups is None:
            axes = (batches, batch), (length, step)
            batches, groups, strides = 1, channels, (0, channel)
        else:
            each = channels // groups
            axes = (each, channel), (length, step)
            strides = batch, each * channel
        (outer, far), (inner, near) = axes
        if inner == 1 or outer == 1 or far == inner * near:
            outer, far, inner, near = 1, 0, outer * inner, far if inner == 1 else near
        return cls(batches, groups, (*strides, far, near), outer, inner)

    @property
    def tile(self) -> tuple[int, int, int]:
        """The outer and inner elements of a program's tile, and its statistics."""
        block = 1
        if self.strides[1] == 1:  # channels are contiguous
            block = min(MOST_CHANNELS, tile.next_power_of_2(self.groups))
        inner = min(ELEMENTS // block, tile.next_power_of_2(self.inner))
        return min(ELEMENTS // (block * inner), tile.next_power_of_2(self.outer)), inner, block


def moments(call: Call, x: Channels, dtype: DType, groups: int | None) -> tuple[Operand, Operand]:
    """Return mean and variance of each channel of the batch, or of each group of one of its arrays.

    groups: None, or their number; then the results are batch x groups.
    """
    kind, (batches, channels, length) = accumulator(dtype), x.shape
    shape = (channels,) if groups is None else (batches, groups)
    if groups is None and (flat := x.flat(dtype.itemsize)) is not x:
        return merge_positions(call, moments(call, flat, dtype, None), shape, length)
    if groups is not None and groups < channels and x.channels_last:
        each = moments(call, x, dtype, channels)
        return merge_positions(call, each, shape, channels // groups)
    what = Statistics.of(x, groups)
    outer, inner, block = what.tile
    steps = tile.cdiv(what.outer, outer) * tile.cdiv(what.inner, inner)
    count, programs = what.batches * what.groups, what.batches * tile.cdiv(what.groups, block)
    wanted = PROGRAMS if block == 1 else PROGRAMS_LAST
    span = tile.cdiv(steps, max(1, wanted // programs))
    parts, total = tile.cdiv(steps, span), what.outer * what.inner
    mean, variance = call.new(shape, kind), call.new(shape, kind)
    sums = [mean, variance]
    if parts > 1:
        sums = [call.new((rows, count), kind) for rows in (parts, parts, 1)]
    launch(moments_kernel, (programs, parts))(
        *(x.value, *([each.value for each in sums] + [None])[:3]),
        *(count, what.groups, what.strides, what.outer, what.inner, steps, span, total),
        WHOLE=parts == 1,
        EVEN=not (what.groups % block or what.outer % outer or what.inner % inner),
        SAMPLE=SAMPLES if block == 1 else SAMPLES_OF_MANY,
        OUTER=outer,
        INNER=inner,
        BLOCK=block,
        num_warps=max(1, outer * inner * block // (32 * THREAD)),
        launch_pdl=True,
    )
    if parts > 1:
        launch(merge_parts_kernel, (tile.cdiv(count, STATISTICS),))(
            *(*[each.value for each in sums], mean.value, variance.value),
            *(parts, count, total),
            PARTS=min(MERGED, tile.next_power_of_2(parts)),
            BLOCK=STATISTICS,
            launch_pdl=True,
        )
    return mean, variance


def merge_positions(
    call: Call, positions: tuple[Operand, Operand], shape: tuple[int, ...], length: int
) -> tuple[Operand, Operand]:
    """Return means and variances, each from those of `length` adjacent positions."""
    means, variances = positions
    mean, variance = (call.new(shape, means.dtype) for _ in range(2))
    launch(merge_positions_kernel, (mean.size,))(
        *(means.value, variances.value, mean.value, variance.value, length),
        BLOCK=tile.next_power_of_2(length),
        num_warps=1,
        launch_pdl=True,
    )
    return mean, variance
