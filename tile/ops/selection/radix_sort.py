"""Long rows in order: a stable sort by each digit of 8 bits, from the lowest to the highest.

    place[i] = how many digits are less than digit[i], or equal to it and before i

A pass has three launches: programs count the digits of their tiles, the counts of each digit are
summed along the tiles, and programs move their elements. Each orders its tile by the digit first,
in shared memory, so that what it writes are runs of contiguous elements.
"""

from __future__ import annotations

from typing import Any

import tile
import tile.language as tl
from tile.ops.core.call import I32, Call
from tile.ops.core.call_plans import launch
from tile.ops.core.new_arrays import DType
from tile.ops.core.operand import Rows
from tile.ops.core.row_tiles import WARPS
from tile.ops.core.tables import Table
from tile.ops.selection.radix_rows import BINS, BITS, digits_of

SUMMED, COLUMNS = 4096, 2  # tiles, and digits, whose counts a program sums at a time
TILES = Table(
    {(): {"BLOCK": 2048}},
    {"nvptx": {(): {"BLOCK": 4096, "num_warps": 8}}},
)


@tile.jit
def count_kernel(
    x_ptr,
    counts_ptr,
    stride,
    length,
    parts,
    SHIFT: tl.constexpr,
    DESCENDING: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Store how often each digit occurs in a tile of a row."""
    part, row = tl.program_id(0) % parts, (tl.program_id(0) // parts).to(tl.int64)
    column = part * BLOCK + tl.arange(0, BLOCK)
    inside = column < length
    x = tl.load(x_ptr + row * stride + column, mask=inside, other=0)
    counts = tl.histogram(digits_of(x, inside, SHIFT, DESCENDING), BINS)
    tl.store(counts_ptr + (row * parts + part) * BINS + tl.arange(0, BINS), counts)


@tile.jit
def sum_kernel(counts_ptr, parts, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """Replace the counts of each tile by those of the tiles up to it, for some of the digits."""
    PROGRAMS: tl.constexpr = BINS // COLUMNS
    program = tl.program_id(0)
    counts_ptr += (program // PROGRAMS).to(tl.int64) * parts * BINS
    digit = program % PROGRAMS * COLUMNS + tl.arange(0, COLUMNS)[None, :]
    before = tl.zeros((1, COLUMNS), tl.int32)
    for start in range(0, parts, ROWS):
        part = start + tl.arange(0, ROWS)[:, None]
        counts = tl.load(counts_ptr + part * BINS + digit, mask=part < parts, other=0)
        ends = before + tl.cumsum(counts, axis=0)
        tl.store(counts_ptr + part * BINS + digit, ends, mask=part < parts)
        before += tl.sum(counts, axis=0, keep_dims=True)


@tile.jit
def move_kernel(
    x_ptr,
    index_ptr,
    ends_ptr,
    moved_ptr,
    moved_index_ptr,
    stride,
    length,
    k,
    parts,
    SHIFT: tl.constexpr,
    DESCENDING: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Move the elements of a tile to where their digits begin; the first pass makes the indices.

    ends: the counts of each digit in this tile and those before it.
    k: how many of the first elements of a row the last pass stores; all for other passes.
    """
    part, row = tl.program_id(0) % parts, (tl.program_id(0) // parts).to(tl.int64)
    lane = tl.arange(0, BLOCK)
    column = part * BLOCK + lane
    inside = column < length
    x = tl.load(x_ptr + row * stride + column, mask=inside, other=0)
    index = column
    # With elements of 64 bits, indices would take the registers of a second program.
    EARLY: tl.constexpr = x.dtype.primitive_bitwidth <= 32
    if EARLY and SHIFT > 0:
        index = tl.load(index_ptr + row * length + column, mask=inside, other=0)
    place = tl.rank(digits_of(x, inside, SHIFT, DESCENDING), BINS)
    if SHIFT > 0 and not EARLY:
        index = tl.load(index_ptr + row * length + column, mask=inside, other=0)
    x, index = tl.scatter(x, place), tl.scatter(index, place)

    ends_ptr += row * parts * BINS + tl.arange(0, BINS)
    totals = tl.load(ends_ptr + (parts - 1) * BINS)
    before = tl.load(ends_ptr + (part - 1) * BINS, mask=part > 0, other=0)
    counts = tl.load(ends_ptr + part * BINS) - before
    # Where a digit begins in the row, less where it begins in the tile.
    others = totals - counts
    start = tl.cumsum(others) - others + before
    target = tl.gather(start, digits_of(x, inside, SHIFT, DESCENDING), axis=0) + lane
    inside &= target < k
    tl.store(moved_ptr + row * k + target, x, mask=inside)
    tl.store(moved_index_ptr + row * k + target, index, mask=inside)


def launch_radix_sort(
    call: Call,
    x: Any,
    values: Any,
    indices: Any,
    rows: Rows,
    k: int,
    descending: bool,
    dtype: DType | None = None,
    most: int | None = None,
) -> None:
    """Write the first `k` elements of each row in order, and their indices.

    dtype: of x; by default that of the first operand. most: the greatest element of integers that
    are 0 or more, whose higher bits are no digits.
    """
    dtype, tiles = dtype or call.operands[0].dtype, TILES.select(call.backend)
    parts = tile.cdiv(rows.length, tiles["BLOCK"])
    counts = call.new((rows.count, parts, BINS.value), I32).value
    block = min(SUMMED, tile.next_power_of_2(parts))
    sums = {"ROWS": block, "COLUMNS": COLUMNS, **WARPS.select(call.backend, block * COLUMNS)}
    kinds = dtype, I32
    moved = [[call.new((rows.count, rows.length), kind).value for kind in kinds] for _ in range(2)]
    source, index, stride, bits = x, indices, rows.stride, dtype.itemsize * 8
    if most is not None:
        bits = tile.cdiv(max(1, most.bit_length()), BITS.value) * BITS.value
    for shift in range(0, bits, BITS.value):
        options = {"SHIFT": shift, "DESCENDING": descending, **tiles}
        launch(count_kernel, (rows.count * parts,), dependent=True)(
            source, counts, stride, rows.length, parts, **options
        )
        launch(sum_kernel, (rows.count * (BINS.value // COLUMNS),), dependent=True)(
            counts, parts, **sums
        )
        is_last = shift + BITS.value == bits
        target = [values, indices] if is_last else moved[0]
        launch(move_kernel, (rows.count * parts,), dependent=True)(
            *(source, index, counts, *target, stride, rows.length),
            *(k if is_last else rows.length, parts),
            **options,
        )
        (source, index), stride = target, rows.length
        moved.reverse()
