"""The kernels of matmuls with block-sparse matrices.

A program of sddmm computes one block; one of spmm has a row of blocks and a part of the columns of
b, and iterates over the blocks of its row. No operation on zero blocks is done.
"""

from __future__ import annotations

from typing import Any

import tile
import tile.language as tl
from tile.ops.core.call import Operand, accumulator
from tile.ops.core.call_plans import launch

BLOCK_K = 32  # elements along the inner axis of an iteration of sddmm
BLOCK_N = 64  # columns of a program of spmm
SIZES = (16, 32, 64, 128)  # of blocks


@tile.jit
def sddmm_kernel(
    a_ptr,
    b_ptr,
    rows_ptr,
    columns_ptr,
    values_ptr,
    row_blocks,
    column_blocks,
    K,
    a_strides,
    b_strides,
    SUMS: tl.constexpr,
    SIZE: tl.constexpr,
    BLOCK_K: tl.constexpr,
):
    block = tl.program_id(0).to(tl.int64)
    within = tl.arange(0, SIZE)
    down, right = tl.load(rows_ptr + block), tl.load(columns_ptr + block)
    tl.device_assert((down >= 0) & (down < row_blocks), "rows are blocks of a")
    tl.device_assert((right >= 0) & (right < column_blocks), "columns are blocks of b")
    row = down.to(tl.int64) * SIZE + within[:, None]
    column = right.to(tl.int64) * SIZE + within[None, :]
    total = tl.zeros((SIZE, SIZE), dtype=SUMS)
    for start in range(0, K, BLOCK_K):
        k = start + tl.arange(0, BLOCK_K)
        a_tile = a_ptr + row * a_strides[0] + k[None, :] * a_strides[1]
        b_tile = b_ptr + k[:, None] * b_strides[0] + column * b_strides[1]
        a = tl.load(a_tile, mask=(k < K)[None, :], other=0.0)
        b = tl.load(b_tile, mask=(k < K)[:, None], other=0.0)
        total = tl.dot(a, b, total, out_dtype=SUMS)
    out = values_ptr + block * SIZE * SIZE + within[:, None] * SIZE + within[None, :]
    tl.store(out, total.to(values_ptr.dtype.element_ty))


@tile.jit
def spmm_kernel(
    values_ptr,
    starts_ptr,
    order_ptr,
    columns_ptr,
    b_ptr,
    out_ptr,
    blocks,
    column_blocks,
    N,
    b_strides,
    out_strides,
    SUMS: tl.constexpr,
    TRANSPOSED: tl.constexpr,
    SIZE: tl.constexpr,
    BLOCK_N: tl.constexpr,
):
    row = tl.program_id(0)
    within = tl.arange(0, SIZE)
    column = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)[None, :]
    total = tl.zeros((SIZE, BLOCK_N), dtype=SUMS)
    start, end = tl.load(starts_ptr + row), tl.load(starts_ptr + row + 1)
    tl.device_assert((start >= 0) & (start <= end) & (end <= blocks), "starts are blocks")
    # In the loop, assertions would keep loads from being asynchronous. Ordered blocks are checked.
    if (order_ptr is None) and tl.program_id(1) == 0:
        for first in range(start, end, SIZE):
            inside = first + within < end
            across = tl.load(columns_ptr + first + within, mask=inside, other=0)
            tl.device_assert((across >= 0) & (across < column_blocks), "columns are blocks of b")
    for block in range(start, end):
        if order_ptr is not None:
            block = tl.load(order_ptr + block)
        base = values_ptr + tl.cast(block, tl.int64) * SIZE * SIZE
        if TRANSPOSED:
            a = tl.load(base + within[None, :] * SIZE + within[:, None])
        else:
            a = tl.load(base + within[:, None] * SIZE + within[None, :])
        k = tl.load(columns_ptr + block).to(tl.int64) * SIZE + within[:, None]
        b = tl.load(b_ptr + k * b_strides[0] + column * b_strides[1], mask=column < N, other=0.0)
        total = tl.dot(a, b, total, out_dtype=SUMS)
    at = (row.to(tl.int64) * SIZE + within)[:, None] * out_strides[0]
    at += column.to(tl.int64) * out_strides[1]
    tl.store(out_ptr + at, total.to(out_ptr.dtype.element_ty), mask=column < N)


def launch_sddmm(
    a: Any,
    b: Any,
    rows: Any,
    columns: Any,
    values: Operand,
    sizes: tuple[int, int, int],
    *strides: tuple[int, ...],
) -> None:
    """Write the blocks `values` of a @ b, of sizes M, N and K; strides are those of a and b."""
    (count, size, _), (m, n, k) = values.shape, sizes
    if values.size:
        launch(sddmm_kernel, (count,), dependent=True)(
            *(a, b, rows, columns, values.value, m // size, n // size, k, *strides),
            SUMS=getattr(tl, accumulator(values.dtype).name),
            SIZE=size,
            BLOCK_K=BLOCK_K,
        )


def launch_spmm(
    values: Operand,
    indices: tuple[Any, Any, Any],
    b: Any,
    out: Operand,
    k: int,
    n: int,
    *strides: tuple[int, ...],
    transposed: bool = False,
) -> None:
    """Write `out`: a block-sparse matrix times b, which has k x n elements.

    indices: `starts`, where the blocks of each row begin in the `order`, or in the values if that
    is None, and the column of each block. strides: of b and of out. transposed: the transposes of
    the blocks are multiplied.
    """
    count, size, _ = values.shape
    if out.size:
        launch(spmm_kernel, (out.size // n // size, tile.cdiv(n, BLOCK_N)), dependent=True)(
            *(values.value, *indices, b, out.value, count, k // size, n, *strides),
            SUMS=getattr(tl, accumulator(values.dtype).name),
            TRANSPOSED=transposed,
            SIZE=size,
            BLOCK_N=BLOCK_N,
        )
