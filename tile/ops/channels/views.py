"""Arrays as batch x channels x elements, and how programs divide them.

Lanes lie along the axis that is contiguous: channels, or elements where the channels are planes.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import tile
import tile.language as tl
from tile.errors import ArgumentValueError
from tile.ops.core.call import Call, Operand

ELEMENTS = 1024  # of a program's tile
MOST_CHANNELS = 64
SHORT = 128  # elements of a short plane at most
VECTOR = 16  # bytes that a thread loads at once
PROGRAMS = 1056  # of a sum: eight for each multiprocessor of an H200


@dataclass(frozen=True)
class Channels:
    """An array as batch x channels x elements; strides are in elements."""

    value: Any
    shape: tuple[int, int, int]
    strides: tuple[int, int, int]

    @property
    def channels_last(self) -> bool:
        """True if adjacent channels are adjacent in memory."""
        return self.strides[1] == 1 or self.shape[2] == 1

    @property
    def tile(self) -> tuple[int, int]:
        """The elements and the channels of a program's tile."""
        _, channels, length = self.shape
        if self.channels_last:
            block = min(MOST_CHANNELS, tile.next_power_of_2(channels))
            return ELEMENTS // block, block
        items = min(ELEMENTS, tile.next_power_of_2(length))
        return items, min(ELEMENTS // items, tile.next_power_of_2(channels))

    def flat(self, itemsize: int) -> Channels:
        """Return the view with each position of the planes as a channel, or itself.

        That is for short planes that do not begin at multiples of a vector, in an array in which
        all elements of the batch are contiguous.
        """
        batches, channels, length = self.shape
        contiguous = self.strides[1:] == (length, 1)
        if not contiguous or length > SHORT or not length * itemsize % VECTOR or self.channels_last:
            return self
        shape, strides = (batches, channels * length, 1), (self.strides[0], 1, 1)
        return replace(self, shape=shape, strides=strides)

    def over_batch(self) -> Channels:
        """Return the view for sums over the batch: one element a channel becomes all of them."""
        (batches, channels, length), (batch, channel, _) = self.shape, self.strides
        if length != 1:
            return self
        return replace(self, shape=(1, channels, batches), strides=(0, channel, batch))

    @property
    def steps(self) -> int:
        """The tiles of the elements of a channel in the whole batch (`items_of`)."""
        batches, _, length = self.shape
        items, _ = self.tile
        if self.channels_last:
            return tile.cdiv(batches * length, items)
        return batches * tile.cdiv(length, items)

    def parts(self) -> tuple[int, int]:
        """Return how many steps of a channel a program adds up, and how many programs do."""
        _, block = self.tile
        wanted = max(1, PROGRAMS // tile.cdiv(self.shape[1], block))
        span = max(1, tile.cdiv(self.steps, wanted))
        return span, tile.cdiv(self.steps, span)


@tile.jit
def items_of(step, batches, length, ACROSS: tl.constexpr, ITEMS: tl.constexpr):
    """Return the elements of a step: number in the batch, number in the channel, if they exist.

    ACROSS: tiles cross from one element of the batch to the next. Otherwise the number in the batch
    is a scalar, and the numbers in the channel are contiguous.
    """
    lane = tl.arange(0, ITEMS)[:, None]
    if ACROSS:
        item = step * ITEMS + lane
        n, i, exists = item // length, item % length, item < batches * length
    else:
        blocks = tl.cdiv(length, ITEMS)
        n, i = step // blocks, step % blocks * ITEMS + lane
        exists = i < length
    return n, i, exists


def axis_of(call: Call, axis: Any) -> int:
    """Return the axis of channels; raise `ArgumentValueError` unless it is 1 or -1."""
    number: int = call.choice("axis", axis, (1, -1))
    return number


def channels_of(operand: Operand, axis: int) -> Channels:
    """Return an operand by its channels, the axis 1 or -1.

    Raises `ArgumentValueError` if it has one axis, or if one stride does not lead through the axes
    that are combined.
    """
    shape, strides = operand.shape, operand.strides
    if len(shape) < 2:
        raise ArgumentValueError(
            f"{operand.op}: `{operand.name}` has shape {shape}; it must have 2 axes or more"
        )
    others = slice(2, None) if axis == 1 else slice(1, -1)
    length, step = _combined(operand, shape[others], strides[others])
    return Channels(
        operand.value, (shape[0], shape[axis], length), (strides[0], strides[axis], step)
    )


def _combined(operand: Operand, shape: Sequence[int], strides: Sequence[int]) -> tuple[int, int]:
    """Return the extent and the stride of several axes as one."""
    axes = [(n, s) for n, s in zip(shape, strides, strict=True) if n != 1]
    if operand.size and not all(o[1] == i[0] * i[1] for o, i in itertools.pairwise(axes)):
        raise ArgumentValueError(
            f"{operand.op}: `{operand.name}` has shape {operand.shape} and strides "
            f"{operand.strides} in elements; one stride must lead through all elements of a "
            "channel: pass a contiguous copy"
        )
    return math.prod(n for n, _ in axes), axes[-1][1] if axes else 1
