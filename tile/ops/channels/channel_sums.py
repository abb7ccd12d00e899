"""Arrays as batch x channels x elements, and sums of each channel.

    sums[c] = sum over n, i of x[n, c, i]        and of x[n, c, i] * normal[n, c, i]

A program has a block of channels and a part of their elements, over which it iterates. Lanes lie
along the axis that is contiguous: channels, or elements where the channels are planes. Sums of
parts are rows of a matrix, whose columns `column_sums` adds up in a fixed order.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import tile
import tile.language as tl
from tile.errors import ArgumentValueError
from tile.ops.core.call import Call, Operand, accumulator
from tile.ops.core.column_sums import column_sums
from tile.ops.core.device_functions import widen

ELEMENTS = 1024  # of a program's tile
MOST_CHANNELS = 64
PROGRAMS = 1056  # of a sum: eight for each multiprocessor of an H200


@dataclass(frozen=True)
class Channels:
    """An array as batch x channels x elements; strides are in elements."""

    value: Any
    shape: tuple[int, int, int]
    strides: tuple[int, int, int]

    @property
    def tile(self) -> tuple[int, int]:
        """The elements and the channels of a program's tile."""
        _, channels, length = self.shape
        if self.strides[1] != 1 and length > 1:
            return ELEMENTS, 1
        block = min(MOST_CHANNELS, tile.next_power_of_2(channels))
        return ELEMENTS // block, block


def channels_of(operand: Operand, axis: int) -> Channels:
    """Return an operand of two axes or more by its channels, the axis 1 or -1.

    Raises `ArgumentValueError` if one stride does not lead through the axes that are combined.
    """
    shape, strides = operand.shape, operand.strides
    if axis == 1:
        length, step = _combined(operand, shape[2:], strides[2:])
        return Channels(operand.value, (shape[0], shape[1], length), (strides[0], strides[1], step))
    length, step = _combined(operand, shape[:-1], strides[:-1])
    return Channels(operand.value, (1, shape[-1], length), (0, strides[-1], step))


def _combined(operand: Operand, shape: Sequence[int], strides: Sequence[int]) -> tuple[int, int]:
    """Return the extent and the stride of several axes as one."""
    axes = [(n, s) for n, s in zip(shape, strides, strict=True) if n != 1]
    if operand.size and not all(o[1] == i[0] * i[1] for o, i in itertools.pairwise(axes)):
        raise ArgumentValueError(
            f"{operand.op}: `{operand.name}` has shape {operand.shape} and strides "
            f"{operand.strides} in elements; one stride must lead through all elements of a "
            "channel: pass a contiguous copy"
        )
    count = 1
    for n, _ in axes:
        count *= n
    return count, axes[-1][1] if axes else 1


@tile.jit
def channel_sums_kernel(
    dy_ptr,
    x_ptr,
    mean_ptr,
    rstd_ptr,
    sums_ptr,
    normal_sums_ptr,
    dy_strides,
    x_strides,
    channels,
    length,
    total,
    span,
    groups,
    per_group,
    ITEMS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    part = tl.program_id(1)
    column = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)[None, :]
    end = min(total, (part + 1) * span)
    sums = widen(tl.zeros((ITEMS, BLOCK), dy_ptr.dtype.element_ty))
    by_normal = sums
    if x_ptr is not None:
        # With groups, a part is one image of the batch.
        at = part * groups + column // per_group
        mean = tl.load(mean_ptr + at, mask=column < channels, other=0.0)
        rstd = tl.load(rstd_ptr + at, mask=column < channels, other=0.0)
    for start in range(part * span, end, ITEMS):
        item = start + tl.arange(0, ITEMS)[:, None]
        n, i = (item // length).to(tl.int64), (item % length).to(tl.int64)
        inside = (item < end) & (column < channels)
        at = n * dy_strides[0] + column * dy_strides[1] + i * dy_strides[2]
        dy = widen(tl.load(dy_ptr + at, mask=inside, other=0.0))
        sums += dy
        if x_ptr is not None:
            at = n * x_strides[0] + column * x_strides[1] + i * x_strides[2]
            x = widen(tl.load(x_ptr + at, mask=inside, other=0.0))
            by_normal += dy * ((x - mean) * rstd)
    at = part.to(tl.int64) * channels + column
    tl.store(sums_ptr + at, tl.sum(sums, axis=0, keep_dims=True), mask=column < channels)
    if x_ptr is not None:
        by_normal = tl.sum(by_normal, axis=0, keep_dims=True)
        tl.store(normal_sums_ptr + at, by_normal, mask=column < channels)


def span_of(view: Channels, programs: int = PROGRAMS) -> int:
    """Return how many elements of a channel a program adds up, for so many programs in all."""
    items, block = view.tile
    batches, channels, length = view.shape
    parts = max(1, programs // tile.cdiv(channels, block))
    return tile.cdiv(tile.cdiv(batches * length, items), parts) * items


def channel_sums(x: Any, axis: int = 1) -> Any:
    """Return the sums of all elements of each channel of `x`, in float32 or float64.

    axis: that of channels, 1 or -1.
    """
    call = Call("channel_sums")
    source = call.array("x", x)
    view = channels_of(source, axis)
    batches, channels, length = view.shape
    result = call.new((channels,), accumulator(source.dtype))
    if not channels:
        return result.value
    span = max(1, span_of(view))
    items, block = view.tile
    parts = call.new((tile.cdiv(batches * length, span), channels), result.dtype)
    if parts.size:
        channel_sums_kernel[(tile.cdiv(channels, block), parts.shape[0])](
            *(x, None, None, None, parts.value, None, view.strides, view.strides),
            *(channels, length, batches * length, span, 0, 1),
            ITEMS=items,
            BLOCK=block,
        )
    column_sums(parts, result)
    return result.value
