"""The device functions that kernels of matmuls share: positions, the inner loop, and the end."""

from __future__ import annotations

from typing import Any

import tile
import tile.language as tl


@tile.jit
def tile_at(program, M, N, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, GROUP: tl.constexpr):
    """Return the row and column of a program's tile, in groups of `GROUP` rows of tiles."""
    in_group = GROUP * tl.cdiv(N, BLOCK_N)
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
def parts_of(BLOCK: tl.constexpr):
    """Return the indices 0 to `BLOCK` - 1 as tiles of as many elements as the powers of two of it.

    A tile of 208 columns is one of 128, of 64 and of 16. One of 7/8 of a power of two or more, such
    as 224, is a single tile, which is masked where it is stored: wgmma computes no other columns.
    """
    parts: Any = ()
    if 7 << BLOCK.bit_length() <= 8 * BLOCK:
        parts += (tl.arange(0, 1 << BLOCK.bit_length()),)
    else:
        first = 0
        for bit in tl.static_range(BLOCK.bit_length() - 1, -1, -1):
            if BLOCK >> bit & 1:
                parts += (first + tl.arange(0, 1 << bit),)
                first += 1 << bit
    return parts


@tile.jit
def multiply_parts(
    a_tile,
    b_tiles,
    inner,
    first,
    end,
    K,
    a_inner,
    b_inner,
    totals,
    PRECISION: tl.constexpr,
    SUMS: tl.constexpr,
    EVEN: tl.constexpr,
    BLOCK_K: tl.constexpr,
):
    """Return `totals` plus the dots of tiles of a and of each of b, from `first` to `end` of K.

    An `end` below K follows `first` by a multiple of `BLOCK_K`: masks compare with K alone, so that
    tiles are blocks of arrays.
    """
    for k in range(first, end, BLOCK_K):
        a = tl.load(a_tile) if EVEN else tl.load(a_tile, mask=inner[None, :] < K - k, other=0.0)
        sums: Any = ()
        moved: Any = ()
        for i in tl.static_range(len(totals)):
            if EVEN:
                b = tl.load(b_tiles[i])
            else:
                b = tl.load(b_tiles[i], mask=inner[:, None] < K - k, other=0.0)
            sums += (tl.dot(a, b, totals[i], input_precision=PRECISION, out_dtype=SUMS),)
            moved += (b_tiles[i] + BLOCK_K * b_inner,)
        totals, b_tiles = sums, moved
        a_tile += BLOCK_K * a_inner
    return totals


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
    """Return `total` plus the dots of tiles of a and b, as `multiply_parts` does."""
    (total,) = multiply_parts(
        *(a_tile, (b_tile,), inner, first, end, K, a_inner, b_inner, (total,)),
        *(PRECISION, SUMS, EVEN, BLOCK_K),
    )
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
def store_tile(total, out_ptr, row, column, M, N, out_row, out_column, inside=None):
    """Store a tile of a result of M x N elements, in the columns that are `inside` of it."""
    out_ptr += row.to(tl.int64)[:, None] * out_row + column.to(tl.int64)[None, :] * out_column
    columns = column < N if inside is None else (column < N) & inside
    tl.store(
        out_ptr, total.to(out_ptr.dtype.element_ty), mask=(row < M)[:, None] & columns[None, :]
    )
