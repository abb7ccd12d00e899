"""The kernel of matmuls: a program for each tile of the result, or programs that take several.

out = activation(a @ b + bias), or the sums of a part of the inner axis
"""

from __future__ import annotations

import tile
import tile.language as tl
from tile.ops.linear.matmul_tiles import (
    activated,
    column_parts,
    multiply_tiles,
    store_tile,
    tile_at,
)


@tile.jit
def matmul_tile(
    item,
    batch,
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
    batch = tl.cast(batch, tl.int64)
    split = tl.program_id(2).to(tl.int64)
    row = tile_row * BLOCK_M + tl.arange(0, BLOCK_M)
    # Extents of tiles are powers of two; wgmma computes only those columns that are stored.
    COLUMNS: tl.constexpr = 1 << (BLOCK_N - 1).bit_length()
    column = tile_column * BLOCK_N + tl.arange(0, COLUMNS)
    # Rows and columns past the end read others again: their results are not stored, and loads
    # need a mask along the inner axis only.
    a_rows, b_columns = (row % M)[:, None], (column % N)[None, :]
    if WIDE:
        a_rows, b_columns = a_rows.to(tl.int64), b_columns.to(tl.int64)
    inner = tl.arange(0, BLOCK_K)
    first = tl.program_id(2) * span if SPLIT else 0
    tl.assume(first >= 0)
    a_tile = a_ptr + batch * a_batch + tl.cast(first, tl.int64) * a_inner
    a_tile += a_rows * a_row + inner[None, :] * a_inner
    b_tile = b_ptr + batch * b_batch + tl.cast(first, tl.int64) * b_inner
    b_tile += inner[:, None] * b_inner + b_columns * b_column
    total = tl.zeros((BLOCK_M, COLUMNS), dtype=SUMS)
    if EVEN:  # no mask compares with K
        first, end = 0, span
    else:
        end = min(first + span, K) if SPLIT else K
    total = multiply_tiles(
        *(a_tile, b_tile, inner, first, end, K, a_inner, b_inner, total),
        *(PRECISION, SUMS, EVEN, BLOCK_K),
    )
    out = out_ptr + split * out_split + batch * out_batch
    totals = column_parts(total, BLOCK_N)
    first_column = tile_column * BLOCK_N
    for i in tl.static_range(len(totals)):
        column = first_column + tl.arange(0, totals[i].shape[1])
        # Swapped, its rows are columns of the result.
        index = (row % M)[:, None] if SWAPPED else (column % N)[None, :]
        result = activated(totals[i], bias_ptr, index, ACTIVATION)
        store_tile(result, out, row, column, M, N, out_row, out_column)
        first_column += totals[i].shape[1]


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
    batches,
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
    BATCHED: tl.constexpr,
    BATCH_AXIS: tl.constexpr = 1,
):
    """Compute a tile, or each of those of a persistent program; strides are in elements."""
    arguments = (
        *(a_ptr, b_ptr, bias_ptr, out_ptr, M, N, K, a_batch, a_row, a_inner, b_batch, b_inner),
        *(b_column, out_split, out_batch, out_row, out_column, span, ACTIVATION, PRECISION, SUMS),
        *(SPLIT, EVEN, WIDE, SWAPPED, BLOCK_M, BLOCK_N, BLOCK_K, GROUP),
    )
    if PERSISTENT:
        for item in range(tl.program_id(0), batches * tiles, tl.num_programs(0)):
            if BATCHED:
                batch = item // tiles
                tl.assume(batch >= 0)
                matmul_tile(item - batch * tiles, batch, *arguments)
            else:
                matmul_tile(item, 0, *arguments)
    else:
        matmul_tile(tl.program_id(1 - BATCH_AXIS), tl.program_id(BATCH_AXIS), *arguments)
