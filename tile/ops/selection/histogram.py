"""Counts of integers.

    counts[v] = how many elements of x are v, for v from 0 to bins - 1

A program counts the elements of its block, in registers and shared memory, and adds its counts to
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

BLOCK = 2048  # elements of a program
MOST = 1024  # bins that a program counts by itself


@tile.jit
def histogram_kernel(
    x_ptr, counts_ptr, n, bins, BINS: tl.constexpr, MOST: tl.constexpr, BLOCK: tl.constexpr
):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    x = tl.load(x_ptr + at, mask=inside, other=0)
    tl.device_assert((x >= 0) & (x < bins), "elements are bins", mask=inside)
    if BINS <= MOST:
        counts = tl.histogram(x.to(tl.int32), BINS, mask=inside)
        index = tl.arange(0, BINS)
        tl.atomic_add(counts_ptr + index, counts, mask=(counts > 0) & (index < bins), sem="relaxed")
    else:
        tl.atomic_add(counts_ptr + x, 1, mask=inside, sem="relaxed")


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
    launch(clear_kernel, (tile.cdiv(bins, BLOCK),))(result.value, bins, BLOCK=BLOCK)
    if source.size:
        launch(histogram_kernel, (tile.cdiv(source.size, BLOCK),))(
            *(x, result.value, source.size, bins),
            BINS=tile.next_power_of_2(bins),
            MOST=MOST,
            BLOCK=BLOCK,
        )
    return result.value


def histogram_reference(x: Array, bins: int) -> Array:
    """Return the counts."""
    result: Array = np.bincount(x.ravel(), minlength=bins)
    return result
