"""The matmul of matrices of any strides, as a part of ops whose call plans have its launches.

    out = activation(a @ b + bias)

A matrix is any view of an array from its first element on, a transposed one as well: nothing is
copied, and an op with several matmuls has one plan.
"""

from __future__ import annotations

from typing import Any

import tile
import tile.language as tl
from tile.ops.core.batched_grid import batched_grid, persistent_programs
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
from tile.ops.linear.matmul_kernel import matmul_kernel
from tile.ops.linear.matvec import is_matvec, matvec
from tile.ops.linear.splits import add_splits, splits_of
from tile.ops.linear.strided import Strided, reaches_far


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
    if splits is None and is_matvec(dtype, a, b, sizes):
        matvec(call, a, b, out, sizes, dtype, sums_of(dtype), bias=bias, function=function)
        return
    few = few_tiles(call.backend, dtype, a.strides, b.strides, sizes)
    config = dict(few.config if few else tiles_of(call.backend, dtype, m, n, k, precision))
    chosen, persistent = config.pop("splits", None), config.pop("persistent", False)
    swapped = few is not None and few.swapped
    rows, columns = (n, m) if swapped else (m, n)
    tiles = tile.cdiv(rows, config["BLOCK_M"]) * tile.cdiv(columns, config["BLOCK_N"])
    steps = tile.cdiv(k, config["BLOCK_K"])
    by_fma = dtype == F32 and precision == "ieee"
    least = tile.cdiv(LEAST_FMA_INNER if by_fma else LEAST_INNER, config["BLOCK_K"])
    busy = tile.cdiv(tiles * batches, FMA_RESIDENT if by_fma else 1)
    splits = splits_of(call, splits or chosen, busy, steps, least, LEAST_SPLITS if few else 1)
    span = tile.cdiv(steps, splits) * config["BLOCK_K"]
    several, sums = splits > 1, sums_of(dtype)
    parts = call.new((splits, batches * m, n), sums) if several else None
    target = Strided(parts.value, (m * n, n, 1)) if parts else out
    wide = reaches_far(a, b, sizes)
    if swapped:
        a, b, target = b.transposed(), a.transposed(), target.transposed()
    grid, order = batched_grid(tiles, batches)
    if persistent:
        most, cluster = PROGRAMS[call.backend], config.get("num_ctas", 1)
        grid, order = (persistent_programs(tiles * batches, most, cluster), 1), {}
    launch(matmul_kernel, (*grid, splits))(
        *(a.value, b.value, None if several else bias, target.value, rows, columns, k),
        *(*a.strides, *b.strides, batches * m * n, *target.strides, max(span, 1)),
        *(tiles, batches),
        ACTIVATION=None if several else function,
        PRECISION=precision,
        SUMS=getattr(tl, sums.name),
        SPLIT=several,
        EVEN=0 < k == splits * span,
        WIDE=wide,
        SWAPPED=swapped,
        PERSISTENT=persistent,
        BATCHED=batches > 1,
        **order,
        **config,
    )
    if parts:
        add_splits(call, parts, out.value, out.strides, batches, bias, function)
