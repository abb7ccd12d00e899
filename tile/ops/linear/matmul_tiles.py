"""The device functions that kernels of matmuls share: positions, the inner loop, and the end."""

from __future__ import annotations

from typing import Any

import tile
import tile.language as tl


@tile.jit
def tile_at(program, M, N, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, GROUP: tl.constexpr):
    """Return the row and column of a program's tile, in groups of `GROUP` rows of tiles.

    Groups of one row take one division.
    """
    columns = tl.cdiv(N, BLOCK_N)
    if GROUP == 1:
        tile_row, tile_column = program // columns, program % columns
    else:
        in_group = GROUP * columns
        first = program // in_group * GROUP
        group_rows = min(tl.cdiv(M, BLOCK_M) - first, GROUP)
        tile_row = first + program % in_group % group_rows
        tile_column = program % in_group // group_rows
    # Nonnegative dividends let the compiler prove that remainders are contiguous.
    tl.assume(tile_row >= 0)
    tl.assume(tile_column >= 0)
    return tile_row, tile_column


@tile.jit
def tile_position(M, N, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, GROUP: tl.constexpr):
    """Return the row and column of this program's tile; see `tile_at`."""
    return tile_at(tl.program_id(0), M, N, BLOCK_M, BLOCK_N, GROUP)


@tile.jit
def column_parts(x, COLUMNS: tl.constexpr):
    """Return the first columns of a tile, as tiles of the powers of two of `COLUMNS`.

    Each is stored as a block of an array, which 208 columns of 256 would not be.
    """
    parts: Any = ()
    for bit in tl.static_range(x.shape[1].bit_length() - 2, -1, -1):
        if COLUMNS % (2 << bit) != 0:
            low, high = tl.split(x.reshape(x.shape[0], 2, 1 << bit).permute(0, 2, 1))
            if COLUMNS >> bit & 1:
                parts += (low,)
                x = high
            else:
                x = low
    return parts if len(parts) > 0 else (x,)


@tile.jit
def multiply_tiles(
    a_tile,
    b_tile,
    inner,
    first,
    end,
    K,
    a_inner,
    b_inner,
    total,
    PRECISION: tl.constexpr,
    SUMS: tl.constexpr,
    EVEN: tl.constexpr,
    BLOCK_K: tl.constexpr,
):
    """Return `total` plus the dots of tiles of a and b, from `first` to `end` of K.

    An `end` below K follows `first` by a multiple of `BLOCK_K`: masks compare with K alone, so that
    tiles are blocks of arrays.
    """
    for k in range(first, end, BLOCK_K):
        if EVEN:
            a, b = tl.load(a_tile), tl.load(b_tile)
        else:
            a = tl.load(a_tile, mask=inner[None, :] < K - k, other=0.0)
            b = tl.load(b_tile, mask=inner[:, None] < K - k, other=0.0)
        total = tl.dot(a, b, total, input_precision=PRECISION, out_dtype=SUMS)
        a_tile += BLOCK_K * a_inner
        b_tile += BLOCK_K * b_inner
    return total


@tile.jit
def activated(total, bias_ptr, index, ACTIVATION: tl.constexpr):
    """Return activation(total + bias), with elements of the bias at `index`."""
    if bias_ptr is not None:
        total += tl.load(bias_ptr + index)
    if ACTIVATION is not None:
        total = ACTIVATION(total)
    return total


@tile.jit
def store_tile(total, out_ptr, row, column, M, N, out_row, out_column):
    """Store a tile of a result of M x N elements."""
    out_ptr += row.to(tl.int64)[:, None] * out_row + column.to(tl.int64)[None, :] * out_column
    inside = (row < M)[:, None] & (column < N)[None, :]
    tl.store(out_ptr, total.to(out_ptr.dtype.element_ty), mask=inside)
