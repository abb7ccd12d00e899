"""The kernel of matmuls: a program for each tile of the result, or programs that take several.

out = activation(a @ b + bias), or the sums of a part of the inner axis
"""

from __future__ import annotations

from typing import Any

import tile
import tile.language as tl
from tile.ops.linear.matmul_tiles import (
    activated,
    multiply_parts,
    parts_of,
    store_tile,
    tile_at,
)


@tile.jit
def matmul_tile(
    item,
    a_ptr,
    b_ptr,
    bias_ptr,
    out_ptr,
    M,
    N,
    K,
    a_batch,
    a_row,
    a_inner,
    b_batch,
    b_inner,
    b_column,
    out_split,
    out_batch,
    out_row,
    out_column,
    span,
    ACTIVATION: tl.constexpr,
    PRECISION: tl.constexpr,
    SUMS: tl.constexpr,
    SPLIT: tl.constexpr,
    EVEN: tl.constexpr,
    WIDE: tl.constexpr,
    SWAPPED: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    GROUP: tl.constexpr,
):
    """Compute one tile of the result."""
    tile_row, tile_column = tile_at(item, M, N, BLOCK_M, BLOCK_N, GROUP)
    batch = tl.program_id(1).to(tl.int64)
    split = tl.program_id(2).to(tl.int64)
    row = tile_row * BLOCK_M + tl.arange(0, BLOCK_M)
    parts = parts_of(BLOCK_N)
    columns: Any = ()
    for i in tl.static_range(len(parts)):
        columns += (tile_column * BLOCK_N + parts[i],)
    # Rows and columns past the end read others again: their results are not stored, and loads
    # need a mask along the inner axis only.
    a_rows = (row % M)[:, None]
    if WIDE:
        a_rows = a_rows.to(tl.int64)
    inner = tl.arange(0, BLOCK_K)
    first = tl.program_id(2) * span if SPLIT else 0
    tl.assume(first >= 0)
    a_tile = a_ptr + batch * a_batch + tl.cast(first, tl.int64) * a_inner
    a_tile += a_rows * a_row + inner[None, :] * a_inner
    b_tile = b_ptr + batch * b_batch + tl.cast(first, tl.int64) * b_inner
    b_tiles: Any = ()
    totals: Any = ()
    for i in tl.static_range(len(columns)):
        b_columns = (columns[i] % N)[None, :]
        if WIDE:
            b_columns = b_columns.to(tl.int64)
        b_tiles += (b_tile + (inner[:, None] * b_inner + b_columns * b_column),)
        totals += (tl.zeros((BLOCK_M, columns[i].shape[0]), dtype=SUMS),)
    if EVEN:  # no mask compares with K
        first, end = 0, span
    else:
        end = min(first + span, K) if SPLIT else K
    totals = multiply_parts(
        *(a_tile, b_tiles, inner, first, end, K, a_inner, b_inner, totals),
        *(PRECISION, SUMS, EVEN, BLOCK_K),
    )
    results: Any = ()
    for i in tl.static_range(len(columns)):
        # Swapped, its rows are columns of the result.
        index = (row % M)[:, None] if SWAPPED else (columns[i] % N)[None, :]
        results += (activated(totals[i], bias_ptr, index, ACTIVATION),)
    out = out_ptr + split * out_split + batch * out_batch
    for i in tl.static_range(len(columns)):
        inside = parts[i] < BLOCK_N if parts[i].shape[0] > BLOCK_N else None
        store_tile(results[i], out, row, columns[i], M, N, out_row, out_column, inside)


@tile.jit
def matmul_kernel(
    a_ptr,
    b_ptr,
    bias_ptr,
    out_ptr,
    M,
    N,
    K,
    a_batch,
    a_row,
    a_inner,
    b_batch,
    b_inner,
    b_column,
    out_split,
    out_batch,
    out_row,
    out_column,
    span,
    tiles,
    ACTIVATION: tl.constexpr,
    PRECISION: tl.constexpr,
    SUMS: tl.constexpr,
    SPLIT: tl.constexpr,
    EVEN: tl.constexpr,
    WIDE: tl.constexpr,
    SWAPPED: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    GROUP: tl.constexpr,
    PERSISTENT: tl.constexpr,
):
    """Compute a tile, or each of those of a persistent program; strides are in elements."""
    arguments = (
        *(a_ptr, b_ptr, bias_ptr, out_ptr, M, N, K, a_batch, a_row, a_inner, b_batch, b_inner),
        *(b_column, out_split, out_batch, out_row, out_column, span, ACTIVATION, PRECISION, SUMS),
        *(SPLIT, EVEN, WIDE, SWAPPED, BLOCK_M, BLOCK_N, BLOCK_K, GROUP),
    )
    if PERSISTENT:
        for item in range(tl.program_id(0), tiles, tl.num_programs(0)):
            matmul_tile(item, *arguments)
    else:
        matmul_tile(tl.program_id(0), *arguments)
