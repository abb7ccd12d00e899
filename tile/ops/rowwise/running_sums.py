"""The maximum of a row and the sum of exp(x - maximum), in one pass over its blocks.

The running sum shrinks by exp(old maximum - new maximum) whenever the running maximum grows
(Milakov and Gimelshein, arXiv:1805.02867). Parts of few long rows have such pairs of their own,
which are merged.
"""

from __future__ import annotations

from typing import Any

import tile
import tile.language as tl
from tile.ops.core.call import Call, accumulator
from tile.ops.core.call_plans import launch
from tile.ops.core.device_functions import widen
from tile.ops.core.operand import Operand, Rows
from tile.ops.core.row_tiles import PART

PART_WARPS = 8


@tile.jit
def running_sum(x_ptr, start, end, BLOCK: tl.constexpr):
    """Return the maximum of the elements from `start` to `end`, and the sum of exp(x - maximum)."""
    column = start + tl.arange(0, BLOCK)
    # A maximum and a sum for each lane.
    highest = widen(tl.load(x_ptr + column, mask=column < end, other=-float("inf")))
    total = tl.full((BLOCK,), 1.0, highest.dtype)
    for at in range(start + BLOCK, end, BLOCK):
        column = at + tl.arange(0, BLOCK)
        x = widen(tl.load(x_ptr + column, mask=column < end, other=-float("inf")))
        # Equal infinities have no difference.
        power = tl.exp(tl.where(x == highest, 0.0, -tl.abs(x - highest)))
        total = tl.where(x > highest, total * power + 1.0, total + power)
        highest = tl.maximum(highest, x)
    return merged_sum(highest, total)


@tile.jit
def sum_of_blocks(x_ptr, end, BLOCK: tl.constexpr):
    """Return what `running_sum` does, by a maximum of each block in place of each lane.

    That takes less instructions, and barriers, which cost less than these if a row is read once.
    """
    kind: tl.constexpr = widen(tl.zeros((1,), x_ptr.dtype.element_ty)).dtype
    most, total = tl.full((), -float("inf"), kind), tl.zeros((), kind)
    for at in range(0, end, BLOCK):
        column = at + tl.arange(0, BLOCK)
        x = widen(tl.load(x_ptr + column, mask=column < end, other=-float("inf")))
        most, total = with_block(most, total, x)
    return most, total


@tile.jit
def with_block(most, total, x):
    """Return a maximum and a sum of exp(x - maximum) with those of more elements."""
    higher = tl.maximum(most, tl.max(x, axis=0))
    origin = tl.where(higher == -float("inf"), 0.0, higher)  # -inf - -inf would be NaN
    return higher, total * tl.exp(most - origin) + tl.sum(tl.exp(x - origin), axis=0)


@tile.jit
def merged_sum(highest, total):
    """Return the maximum of several, and the sum of total * exp(highest - maximum)."""
    most = tl.max(highest, axis=0)
    origin = tl.where(most == -float("inf"), 0.0, most)  # -inf - -inf would be NaN
    return most, tl.sum(total * tl.exp(highest - origin), axis=0)


@tile.jit
def part_sums_kernel(x_ptr, most_ptr, total_ptr, stride, length, span, BLOCK: tl.constexpr):
    part, row = tl.program_id(0), tl.program_id(1).to(tl.int64)
    end = min(length, (part + 1) * span)
    most, total = running_sum(x_ptr + row * stride, part * span, end, BLOCK)
    at = row * tl.num_programs(0) + part
    tl.store(most_ptr + at, most)
    tl.store(total_ptr + at, total)


@tile.jit
def sum_of_parts(most_ptr, total_ptr, row, parts, PARTS: tl.constexpr):
    """Return the maximum of a row and its sum from those of its parts."""
    lane = tl.arange(0, PARTS)
    most = tl.load(most_ptr + row * parts + lane, mask=lane < parts, other=-float("inf"))
    return merged_sum(most, tl.load(total_ptr + row * parts + lane, mask=lane < parts, other=0.0))


def part_sums(call: Call, x: Any, rows: Rows, parts: int, span: int) -> tuple[Operand, Operand]:
    """Return the maxima of parts of rows, and the sums of exp(x - maximum), rows x parts."""
    kind = accumulator(call.operands[0].dtype)
    most, total = (call.new((rows.count, parts), kind) for _ in range(2))
    launch(part_sums_kernel, (parts, rows.count), dependent=True)(
        *(x, most.value, total.value, rows.stride, rows.length, span),
        BLOCK=PART,
        num_warps=PART_WARPS,
    )
    return most, total
