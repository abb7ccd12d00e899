"""Counts of integers.

    counts[v] = how many elements of x are v, for v from 0 to bins - 1

A program counts the elements of its blocks, in registers and shared memory, and adds its counts to
those in memory by an atomic addition each. Integers have the same sum in any order. Above `MOST`
bins it adds 1 in memory for each element instead.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import tile
import tile.language as tl
from tile.ops.core.call import I8, I32, I64, Call
from tile.ops.core.call_plans import launch, planned
from tile.ops.core.reference import Array
from tile.ops.core.tables import Table

BLOCK = 2048  # elements of a program that adds in memory
PROGRAMS = 1056  # at most: eight for each multiprocessor of an H200
TILES = Table({(): {"BLOCK": 2048}}, {"nvptx": {(): {"BLOCK": 4096, "num_warps": 8}}})
MOST = 1024  # bins that a program counts by itself


@tile.jit
def histogram_kernel(x_ptr, counts_ptr, n, bins, BINS: tl.constexpr, BLOCK: tl.constexpr):
    counts = tl.zeros((BINS,), tl.int32)
    for block in range(tl.program_id(0), tl.cdiv(n, BLOCK), tl.num_programs(0)):
        at = tl.cast(block, tl.int64) * BLOCK + tl.arange(0, BLOCK)
        inside = at < n
        x = tl.load(x_ptr + at, mask=inside, other=0)
        tl.device_assert((x >= 0) & (x < bins), "elements are bins", mask=inside)
        counts += tl.histogram(x.to(tl.int32), BINS, mask=inside)
    index = tl.arange(0, BINS)
    tl.atomic_add(counts_ptr + index, counts, mask=(counts > 0) & (index < bins), sem="relaxed")


@tile.jit
def many_bins_kernel(x_ptr, counts_ptr, n, bins, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n, other=0)
    tl.device_assert((x >= 0) & (x < bins), "elements are bins", mask=at < n)
    tl.atomic_add(counts_ptr + x, 1, mask=at < n, sem="relaxed")


@tile.jit
def clear_kernel(counts_ptr, bins, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(counts_ptr + at, tl.zeros((BLOCK,), tl.int32), mask=at < bins)


@planned()
def histogram(x: Any, bins: int, *, out: Any = None) -> Any:
    """Return the counts of 0 to `bins` - 1 among the elements of `x`, as int32.

    x: int8, int32 or int64, contiguous, of any shape, with elements in that range.
    """
    call = Call("histogram")
    source = call.array("x", x, dtypes=(I8, I32, I64)).contiguous()
    bins = call.integer("bins", bins, low=1)
    source.within(0, bins)
    result = call.output("out", out, (bins,), I32).contiguous()
    launch(clear_kernel, (tile.cdiv(bins, BLOCK),), dependent=True)(result.value, bins, BLOCK=BLOCK)
    if source.size and bins > MOST:
        programs = tile.cdiv(source.size, BLOCK)
        launch(many_bins_kernel, (programs,), dependent=True)(
            *(x, result.value, source.size, bins), BLOCK=BLOCK
        )
    elif source.size:
        tiles = TILES.select(call.backend)
        programs = min(PROGRAMS, tile.cdiv(source.size, tiles["BLOCK"]))
        launch(histogram_kernel, (programs,), dependent=True)(
            *(x, result.value, source.size, bins), BINS=tile.next_power_of_2(bins), **tiles
        )
    return result.value


def histogram_reference(x: Array, bins: int) -> Array:
    """Return the counts."""
    result: Array = np.bincount(x.ravel(), minlength=bins)
    return result
