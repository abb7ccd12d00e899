"""Rows in order by digits of 8 bits, each row by one program.

A stable sort by each digit, from the lowest to the highest, moves the elements and their indices
through shared memory. Elements keep their bits; digits are those of integers of the same order
(order_keys.py).
"""

from __future__ import annotations

from typing import Any

import tile
import tile.language as tl
from tile.ops.core.call import Call
from tile.ops.core.call_plans import launch
from tile.ops.core.operand import Rows
from tile.ops.core.tables import ANY, Table
from tile.ops.selection.order_keys import order_bits

BITS = tl.constexpr(8)  # of a digit
BINS = tl.constexpr(256)
LONGEST = 16384  # elements of a row
# By the elements of a row. H200, float32, 2026-11-29 (docs/notes/ops.md).
WARPS = Table(
    {(ANY,): {}},
    {
        "nvptx": {
            (512,): {"num_warps": 2},
            (1024,): {"num_warps": 4},
            (4096,): {"num_warps": 8},
            (ANY,): {"num_warps": 16},
        }
    },
)


@tile.jit
def digits_of(x, inside, SHIFT: tl.constexpr, DESCENDING: tl.constexpr):
    """Return the digits of elements at a bit; outside, the greatest, so that it comes last."""
    bits = order_bits(x)
    if DESCENDING:
        bits = ~bits
    digit = ((bits >> SHIFT) & (BINS - 1)).to(tl.int32)
    if x.dtype.primitive_bitwidth == SHIFT + BITS:
        digit ^= BINS // 2  # negative numbers come first
    return tl.where(inside, digit, BINS - 1)


@tile.jit
def sort_row_kernel(
    x_ptr,
    values_ptr,
    indices_ptr,
    stride,
    length,
    k,
    DESCENDING: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Store the first `k` elements of a row in order, and their indices."""
    row = tl.program_id(0).to(tl.int64)
    column = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * stride + column, mask=column < length, other=0)
    index = column
    for shift in tl.static_range(0, x.dtype.primitive_bitwidth, BITS):
        place = tl.rank(digits_of(x, index < length, shift, DESCENDING), BINS)
        x, index = tl.scatter(x, place), tl.scatter(index, place)
    tl.store(values_ptr + row * k + column, x, mask=column < k)
    tl.store(indices_ptr + row * k + column, index, mask=column < k)


def launch_row_sort(
    call: Call, x: Any, values: Any, indices: Any, rows: Rows, k: int, descending: bool
) -> None:
    """Write the first `k` elements of each row in order, and their indices."""
    block = tile.next_power_of_2(rows.length)
    launch(sort_row_kernel, (rows.count,))(
        *(x, values, indices, rows.stride, rows.length, k),
        DESCENDING=descending,
        BLOCK=block,
        **WARPS.select(call.backend, block),
    )
