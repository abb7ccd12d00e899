"""Kernels of the tests of `tile.jax`."""

from __future__ import annotations

import tile
import tile.language as tl


@tile.jit
def scale(x_ptr, out_ptr, n, factor, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + i, tl.load(x_ptr + i, mask=i < n) * factor, mask=i < n)


@tile.jit
def copy(x_ptr, out_ptr, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(out_ptr + i, tl.load(x_ptr + i))


@tile.jit
def copy_back(x_ptr, out_ptr, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(x_ptr + i, tl.load(out_ptr + i))


@tile.jit
def add_and_subtract(x_ptr, y_ptr, sum_ptr, difference_ptr, n: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x, y = tl.load(x_ptr + i, mask=i < n), tl.load(y_ptr + i, mask=i < n)
    tl.store(sum_ptr + i, x + y, mask=i < n)
    tl.store(difference_ptr + i, x - y, mask=i < n)


@tile.jit
def accumulate(x_ptr, total_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(total_ptr, tl.sum(tl.load(x_ptr + i, mask=i < n, other=0.0)))


@tile.jit
def increment(x_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x_ptr + i, tl.load(x_ptr + i, mask=i < n) + 1, mask=i < n)


@tile.jit
def increment_into(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    """Like `increment`, where both are one array."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + i, tl.load(out_ptr + i, mask=i < n) + 1, mask=i < n)


@tile.jit
def sum_of(pair, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    total = tl.load(pair[0] + i, mask=i < n) + tl.load(pair[1] + i, mask=i < n)
    tl.store(out_ptr + i, total, mask=i < n)


@tile.jit
def out_of_bounds(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(out_ptr + i, tl.load(x_ptr + n + i))
