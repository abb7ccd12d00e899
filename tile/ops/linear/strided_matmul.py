"""The matmul of matrices of any strides, as a part of ops whose call plans have its launches.

    out = activation(a @ b + bias)

A matrix is any view of an array from its first element on, a transposed one as well: nothing is
copied, and an op with several matmuls has one plan.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import tile
import tile.language as tl
from tile.ops.core.call import F32, I8, I32, Call, accumulator
from tile.ops.core.call_plans import launch
from tile.ops.core.new_arrays import DType
from tile.ops.linear.configurations import (
    FMA_RESIDENT,
    LEAST_FMA_INNER,
    LEAST_INNER,
    PROGRAMS,
    tiles_of,
)
from tile.ops.linear.few_tiles import LEAST_SPLITS, few_tiles
from tile.ops.linear.matmul_tiles import (
    activated,
    multiply_parts,
    parts_of,
    store_tile,
    tile_at,
)
from tile.ops.linear.splits import add_splits, splits_of

INT32_LIMIT = 2**31


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
    if PERSISTENT:
        for item in range(tl.program_id(0), tiles, tl.num_programs(0)):
            matmul_tile(
                item,
                *(a_ptr, b_ptr, bias_ptr, out_ptr, M, N, K, a_batch),
                *(a_row, a_inner, b_batch, b_inner, b_column, out_split, out_batch, out_row),
                *(out_column, span, ACTIVATION, PRECISION, SUMS, SPLIT, EVEN, WIDE),
                *(SWAPPED, BLOCK_M, BLOCK_N, BLOCK_K, GROUP),
            )
    else:
        matmul_tile(
            tl.program_id(0),
            *(a_ptr, b_ptr, bias_ptr, out_ptr, M, N, K, a_batch),
            *(a_row, a_inner, b_batch, b_inner, b_column, out_split, out_batch, out_row),
            *(out_column, span, ACTIVATION, PRECISION, SUMS, SPLIT, EVEN, WIDE),
            *(SWAPPED, BLOCK_M, BLOCK_N, BLOCK_K, GROUP),
        )


class Strided(NamedTuple):
    """An array as matrices; strides are those of a batch, a row and a column, in elements."""

    value: Any
    strides: tuple[int, int, int]

    def transposed(self) -> Strided:
        """Return the transposed matrices."""
        batch, row, column = self.strides
        return Strided(self.value, (batch, column, row))


def rows_of(value: Any, length: int) -> Strided:
    """Return a matrix of contiguous rows."""
    return Strided(value, (0, length, 1))


def reaches_far(a: Strided, b: Strided, sizes: tuple[int, int, int, int]) -> bool:
    """Return True if the distance of elements of a matrix is no integer of 32 bits."""
    _, m, n, k = sizes
    extents = ((a, m, k), (b, k, n))
    reaches = (
        (rows - 1) * abs(one.strides[1]) + (columns - 1) * abs(one.strides[2])
        for one, rows, columns in extents
    )
    return max(reaches) >= INT32_LIMIT


def sums_of(dtype: DType) -> DType:
    """Return the type of the sums of a matmul."""
    return I32 if dtype == I8 else accumulator(dtype)


def strided_matmul(
    call: Call,
    a: Strided,
    b: Strided,
    out: Strided,
    sizes: tuple[int, int, int, int],
    dtype: DType,
    *,
    bias: Any = None,
    function: Any = None,
    precision: str = "ieee",
    splits: int | None = None,
) -> None:
    """Write function(a @ b + bias) to `out`.

    sizes: batches, M, N and K. dtype: of a and b. splits: parts of the inner axis; None chooses.
    """
    batches, m, n, k = sizes
    if not batches * m * n:
        return
    few = few_tiles(call.backend, dtype, a.strides, b.strides, sizes)
    config = few.config if few else tiles_of(call.backend, dtype, m, n, k, precision)
    swapped = few is not None and few.swapped
    rows, columns = (n, m) if swapped else (m, n)
    tiles = tile.cdiv(rows, config["BLOCK_M"]) * tile.cdiv(columns, config["BLOCK_N"])
    steps = tile.cdiv(k, config["BLOCK_K"])
    by_fma = dtype == F32 and precision == "ieee"
    least = tile.cdiv(LEAST_FMA_INNER if by_fma else LEAST_INNER, config["BLOCK_K"])
    busy = tile.cdiv(tiles * batches, FMA_RESIDENT if by_fma else 1)
    splits = splits_of(call, splits, busy, steps, least, LEAST_SPLITS if few else 1)
    span = tile.cdiv(steps, splits) * config["BLOCK_K"]
    several, sums = splits > 1, sums_of(dtype)
    parts = call.new((splits, batches * m, n), sums) if several else None
    target = Strided(parts.value, (m * n, n, 1)) if parts else out
    wide = reaches_far(a, b, sizes)
    if swapped:
        a, b, target = b.transposed(), a.transposed(), target.transposed()
    config = dict(config)
    persistent = config.pop("persistent", False)
    programs = min(tiles, PROGRAMS[call.backend]) if persistent else tiles
    launch(matmul_kernel, (programs, batches, splits))(
        *(a.value, b.value, None if several else bias, target.value, rows, columns, k),
        *(*a.strides, *b.strides, batches * m * n, *target.strides, max(span, 1), tiles),
        ACTIVATION=None if several else function,
        PRECISION=precision,
        SUMS=getattr(tl, sums.name),
        SPLIT=several,
        EVEN=0 < k == splits * span,
        WIDE=wide,
        SWAPPED=swapped,
        PERSISTENT=persistent,
        **config,
    )
    if parts:
        add_splits(call, parts, out.value, out.strides, batches, bias, function)
