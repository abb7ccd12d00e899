"""Kernels that several tests of the runtime launch."""

from __future__ import annotations

import tile
import tile.language as tl


@tile.jit
def add(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    total = tl.load(x_ptr + offsets, mask=mask) + tl.load(y_ptr + offsets, mask=mask)
    tl.store(out_ptr + offsets, total, mask=mask)


@tile.jit
def scale(x_ptr, rows, cols, stride_row, stride_col, factor, BLOCK: tl.constexpr = 16):
    row = tl.program_id(0)
    columns = tl.arange(0, BLOCK)
    pointers = x_ptr + row * stride_row + columns * stride_col
    mask = columns < cols
    tl.store(pointers, tl.load(pointers, mask=mask) * factor, mask=mask)


@tile.jit
def fill(out_ptr, value, BLOCK: tl.constexpr):
    tl.store(out_ptr + tl.arange(0, BLOCK), value)


@tile.jit
def store_scalar(out_ptr, value):
    tl.store(out_ptr, value)


@tile.jit
def maybe_add(x_ptr, bias_ptr, out_ptr, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets)
    if bias_ptr is not None:
        x += tl.load(bias_ptr + offsets)
    tl.store(out_ptr + offsets, x)


@tile.jit
def gather_rows(table_ptr, out_ptr, BLOCK: tl.constexpr):
    row = tl.load(table_ptr + tl.program_id(0))
    offsets = tl.arange(0, BLOCK)
    tl.store(out_ptr + tl.program_id(0) * BLOCK + offsets, tl.load(row + offsets))


@tile.jit
def scatter_rows(table_ptr, value, BLOCK: tl.constexpr):
    row = tl.load(table_ptr + tl.program_id(0))
    tl.store(row + tl.arange(0, BLOCK), value)


@tile.jit
def copy_pair(pair, n, BLOCK: tl.constexpr):
    source, target = pair
    offsets = tl.arange(0, BLOCK)
    tl.store(target + offsets, tl.load(source + offsets, mask=offsets < n), mask=offsets < n)
