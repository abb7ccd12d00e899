"""The gradient of the matrices of a grouped matrix multiplication.

    db[g] = a[rows].T @ dout[rows]        for the rows of group g: ends[g - 1] <= row < ends[g]

A program has a tile of the matrix of one group, and iterates over the rows of the group, whose
number is data in device memory. The matrix of a group without rows is 0.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import tile
import tile.language as tl
from tile.errors import ArgumentValueError
from tile.ops.core.call import I32, Call, Operand, accumulator
from tile.ops.core.call_plans import launch, planned
from tile.ops.core.epilogue import PRECISIONS
from tile.ops.core.reference import Array
from tile.ops.linear.configurations import tiles_of
from tile.ops.linear.grouped_programs import programs_config
from tile.ops.linear.grouped_wgrad_programs import grouped_wgrad_programs
from tile.ops.linear.matmul_tiles import store_tile, tile_position


@tile.jit
def grouped_matmul_wgrad_kernel(
    a_ptr,
    dout_ptr,
    ends_ptr,
    db_ptr,
    rows,
    K,
    N,
    a_row,
    a_inner,
    dout_row,
    dout_column,
    PRECISION: tl.constexpr,
    SUMS: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    GROUP: tl.constexpr,
):
    tile_row, tile_column = tile_position(K, N, BLOCK_M, BLOCK_N, GROUP)
    group = tl.program_id(1)
    start = tl.load(ends_ptr + group - 1, mask=group > 0, other=0)
    end = tl.load(ends_ptr + group)
    tl.device_assert((start >= 0) & (end >= start) & (end <= rows), "ends are rows of a")
    row = tile_row * BLOCK_M + tl.arange(0, BLOCK_M)
    column = tile_column * BLOCK_N + tl.arange(0, BLOCK_N)
    inner = tl.arange(0, BLOCK_K)
    a_tile = a_ptr + tl.cast(start, tl.int64) * a_row + row.to(tl.int64)[:, None] * a_inner
    a_tile += inner[None, :] * a_row
    dout_tile = dout_ptr + tl.cast(start, tl.int64) * dout_row + inner[:, None] * dout_row
    dout_tile += column.to(tl.int64)[None, :] * dout_column
    total = tl.zeros((BLOCK_M, BLOCK_N), dtype=SUMS)
    for first in range(start, end, BLOCK_K):
        inside = inner < end - first
        a = tl.load(a_tile, mask=(row < K)[:, None] & inside[None, :], other=0.0)
        dout = tl.load(dout_tile, mask=inside[:, None] & (column < N)[None, :], other=0.0)
        total = tl.dot(a, dout, total, input_precision=PRECISION, out_dtype=SUMS)
        a_tile += BLOCK_K * a_row
        dout_tile += BLOCK_K * dout_row
    out = db_ptr + tl.cast(group, tl.int64) * K * N
    store_tile(total, out, row, column, K, N, N, 1)


@planned()
def grouped_matmul_wgrad(a: Any, dout: Any, ends: Any, *, precision: str = "ieee") -> Any:
    """Return the gradient of `b` of `grouped_matmul`, groups x K x N, from that of the result.

    a: rows x K; dout: rows x N, of the type of `a`; any strides. ends, precision: as in
    `grouped_matmul`. The gradient of `a` is `grouped_matmul(dout, b.swapaxes(1, 2), ends)`.
    """
    call = Call("grouped_matmul_wgrad")
    left, gradient = call.matching(a=(a, "rows x K"), dout=(dout, "rows x N"))
    (rows, k), n = left.shape, gradient.shape[1]
    last = call.array("ends", ends, dtypes=(I32,), rank=1).contiguous()
    check_ends(last, rows)
    call.choice("precision", precision, PRECISIONS)
    groups = last.size
    result = call.new((groups, k, n), left.dtype)
    if result.size:
        config = tiles_of(call.backend, left.dtype, k, n, rows // groups, precision)
        own = programs_config(call, config, left, gradient, result)
        if own is not None and left.strides[1] == gradient.strides[1] == 1:
            grouped_wgrad_programs(call, left, gradient, last, result, own)
            return result.value
        tiles = tile.cdiv(k, config["BLOCK_M"]) * tile.cdiv(n, config["BLOCK_N"])
        launch(grouped_matmul_wgrad_kernel, (tiles, groups))(
            *(a, dout, ends, result.value, rows, k, n, *left.strides, *gradient.strides),
            PRECISION=precision,
            SUMS=getattr(tl, accumulator(left.dtype).name),
            **config,
        )
    return result.value


def check_ends(ends: Operand, rows: int) -> None:
    """Raise `ArgumentValueError` for ends in host memory that do not divide the rows."""
    if ends.host is None:
        return
    steps = np.diff(ends.host, prepend=0)
    if (steps < 0).any() or (ends.host[-1:] != rows).any() or (rows and not ends.size):
        raise ArgumentValueError(
            f"{ends.op}: `ends` is {ends.host.tolist()}; it must not decrease, and end with "
            f"the number of rows, {rows}"
        )


def grouped_matmul_wgrad_reference(a: Array, dout: Array, ends: Array) -> Array:
    """Return the gradient in float64."""
    parts = zip(np.split(a, ends)[: len(ends)], np.split(dout, ends), strict=False)
    result = np.zeros((len(ends), a.shape[1], dout.shape[1]))
    for group, (rows, grads) in enumerate(parts):
        result[group] = rows.T @ grads
    return result
