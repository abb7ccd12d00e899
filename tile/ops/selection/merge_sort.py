"""Long rows in order: runs are sorted, and merged in pairs until one is left.

Programs of a pass make blocks of merged runs. A block's elements are the least of both runs that no
block before it has; a search on its diagonal tells how many are of the first run (Green,
McColl and Bader, "GPU Merge Path", ICS 2012). They are followed by those of the second run in
reverse, which makes a bitonic sequence. Elements are integers with their indices (order_keys.py),
so no two are equal.
"""

from __future__ import annotations

from typing import Any

import tile
import tile.language as tl
from tile.ops.core.call import I64, Call
from tile.ops.core.call_plans import launch
from tile.ops.core.operand import Rows
from tile.ops.core.tables import Table
from tile.ops.selection.order_keys import index_of, sort_keys

# RUN: the elements that a program sorts. BLOCK: those of a merged run that a program makes, a
# divisor of RUN. H200, float32, rows of 32768 to 10 million, 2026-11-29 (docs/notes/ops.md).
SORT_TILES = Table({(): {"RUN": 4096}}, {"nvptx": {(): {"RUN": 4096, "num_warps": 8}}})
MERGE_TILES = Table({(): {"BLOCK": 1024}}, {"nvptx": {(): {"BLOCK": 1024, "num_warps": 4}}})
WIDTH = tl.constexpr(128)  # places of a diagonal that a program compares at a time


@tile.jit
def sort_runs_kernel(
    x_ptr, keys_ptr, stride, length, runs, DESCENDING: tl.constexpr, RUN: tl.constexpr
):
    """Store the sorted runs of each row; the last one ends with the greatest keys."""
    program = tl.program_id(0)
    row = (program // runs).to(tl.int64)
    column = program % runs * RUN + tl.arange(0, RUN)
    x = tl.load(x_ptr + row * stride + column, mask=column < length, other=0)
    keys = tl.sort(sort_keys(x, column, column < length, DESCENDING, False))
    tl.store(keys_ptr + program.to(tl.int64) * RUN + tl.arange(0, RUN), keys)


@tile.jit
def count_of_first(first_ptr, second_ptr, first_count, second_count, diagonal):
    """Return how many of the `diagonal` least keys of two runs are of the first one."""
    low = max(diagonal - second_count, 0)
    high = min(diagonal, first_count)
    while low < high:
        step = tl.cdiv(high - low, WIDTH)
        place = low + tl.arange(0, WIDTH) * step
        inside = place < high
        first = tl.load(first_ptr + place, mask=inside, other=0)
        second = tl.load(second_ptr + (diagonal - 1 - place), mask=inside, other=0)
        # It is true of the first places and false of the others.
        count = tl.sum((inside & (first <= second)).to(tl.int32))
        high = min(high, low + count * step)
        if count > 0:
            low += (count - 1) * step + 1
    return low


@tile.jit
def merge_kernel(
    keys_ptr,
    merged_ptr,
    x_ptr,
    values_ptr,
    indices_ptr,
    stride,
    length,
    padded,
    run,
    LAST: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Merge pairs of runs of `run` keys; store elements and indices if that makes whole rows.

    padded: the keys of a row.
    """
    blocks = padded // BLOCK
    row = (tl.program_id(0) // blocks).to(tl.int64)
    start = tl.program_id(0) % blocks * BLOCK
    base = start // (2 * run) * (2 * run)
    first_count = min(run, padded - base)
    second_count = min(run, padded - base - first_count)
    first_ptr = keys_ptr + row * padded + base
    second_ptr = first_ptr + first_count
    diagonal = start - base
    runs = first_ptr, second_ptr, first_count, second_count
    begin = count_of_first(*runs, diagonal)
    count = count_of_first(*runs, diagonal + BLOCK) - begin
    place = tl.arange(0, BLOCK)
    second_place = first_count + diagonal - begin + (BLOCK - 1 - place)
    keys = tl.load(first_ptr + tl.where(place < count, begin + place, second_place))
    keys = tl.bitonic_merge(keys)
    column = start + place
    if LAST:
        index = index_of(keys, False)
        inside = column < length
        value = tl.load(x_ptr + row * stride + index, mask=inside)
        tl.store(values_ptr + row * length + column, value, mask=inside)
        tl.store(indices_ptr + row * length + column, index, mask=inside)
    else:
        tl.store(merged_ptr + row * padded + column, keys)


def launch_merge_sort(
    call: Call, x: Any, values: Any, indices: Any, rows: Rows, descending: bool
) -> None:
    """Write the elements of each row in order, and their indices."""
    sort_tiles, merge_tiles = SORT_TILES.select(call.backend), MERGE_TILES.select(call.backend)
    run = sort_tiles["RUN"]
    runs = tile.cdiv(rows.length, run)
    padded = runs * run
    keys, merged = (call.new((rows.count, padded), I64).value for _ in range(2))
    launch(sort_runs_kernel, (rows.count * runs,))(
        *(x, keys, rows.stride, rows.length, runs), DESCENDING=descending, **sort_tiles
    )
    while run < padded:
        last = 2 * run >= padded
        launch(merge_kernel, (rows.count * (padded // merge_tiles["BLOCK"]),))(
            *(keys, merged, x, values, indices, rows.stride, rows.length, padded, run),
            LAST=last,
            **merge_tiles,
        )
        keys, merged, run = merged, keys, 2 * run
