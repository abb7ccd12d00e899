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
from tile.ops.channels.moments_kernels import (
    merge_parts_kernel,
    merge_positions_kernel,
    moments_kernel,
)
from tile.ops.channels.views import MOST_CHANNELS, Channels
from tile.ops.core.call import Call, Operand, accumulator
from tile.ops.core.call_plans import launch
from tile.ops.core.new_arrays import DType

ELEMENTS = 4096  # of a program's tile
THREAD = 16  # elements of a thread
PROGRAMS = 528  # that share all elements: four for each multiprocessor of an H200
PROGRAMS_LAST = 264  # where channels are contiguous, so that a program has parts of several
SAMPLES = 32  # elements of a statistic, one for each thread of a warp
SAMPLES_OF_MANY = 8  # where a program has several statistics
MERGED = 128  # parts of a program's tile
STATISTICS = 32


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
    launch(moments_kernel, (programs, parts), dependent=True)(
        *(x.value, *([each.value for each in sums] + [None])[:3]),
        *(count, what.groups, what.strides, what.outer, what.inner, steps, span, total),
        WHOLE=parts == 1,
        EVEN=not (what.groups % block or what.outer % outer or what.inner % inner),
        SAMPLE=SAMPLES if block == 1 else SAMPLES_OF_MANY,
        OUTER=outer,
        INNER=inner,
        BLOCK=block,
        num_warps=max(1, outer * inner * block // (32 * THREAD)),
    )
    if parts > 1:
        launch(merge_parts_kernel, (tile.cdiv(count, STATISTICS),), dependent=True)(
            *(*[each.value for each in sums], mean.value, variance.value),
            *(parts, count, total),
            PARTS=min(MERGED, tile.next_power_of_2(parts)),
            BLOCK=STATISTICS,
        )
    return mean, variance


def merge_positions(
    call: Call, positions: tuple[Operand, Operand], shape: tuple[int, ...], length: int
) -> tuple[Operand, Operand]:
    """Return means and variances, each from those of `length` adjacent positions."""
    means, variances = positions
    mean, variance = (call.new(shape, means.dtype) for _ in range(2))
    launch(merge_positions_kernel, (mean.size,), dependent=True)(
        *(means.value, variances.value, mean.value, variance.value, length),
        BLOCK=tile.next_power_of_2(length),
        num_warps=1,
    )
    return mean, variance
