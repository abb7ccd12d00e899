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
    K,
    a_strides,
    b_strides,
    SUMS: tl.constexpr,
    SIZE: tl.constexpr,
    BLOCK_K: tl.constexpr,
):
    block = tl.program_id(0).to(tl.int64)
    within = tl.arange(0, SIZE)
    row = tl.load(rows_ptr + block).to(tl.int64) * SIZE + within[:, None]
    column = tl.load(columns_ptr + block).to(tl.int64) * SIZE + within[None, :]
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
    for block in range(tl.load(starts_ptr + row), tl.load(starts_ptr + row + 1)):
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
    a: Any, b: Any, rows: Any, columns: Any, values: Operand, k: int, *strides: tuple[int, ...]
) -> None:
    """Write the blocks `values` of a @ b; strides are those of a and b, of k inner elements."""
    count, size, _ = values.shape
    if values.size:
        launch(sddmm_kernel, (count,))(
            *(a, b, rows, columns, values.value, k, *strides),
            SUMS=getattr(tl, accumulator(values.dtype).name),
            SIZE=size,
            BLOCK_K=BLOCK_K,
        )


def launch_spmm(
    values: Operand,
    indices: tuple[Any, Any, Any],
    b: Any,
    out: Operand,
    n: int,
    *strides: tuple[int, ...],
    transposed: bool = False,
) -> None:
    """Write `out`, of which n elements are a row: a block-sparse matrix times b.

    indices: `starts`, where the blocks of each row begin in the `order`, or in the values if that
    is None, and the column of each block. strides: of b and of out. transposed: the transposes of
    the blocks are multiplied.
    """
    size = values.shape[1]
    if out.size:
        launch(spmm_kernel, (out.size // n // size, tile.cdiv(n, BLOCK_N)))(
            *(values.value, *indices, b, out.value, n, *strides),
            SUMS=getattr(tl, accumulator(values.dtype).name),
            TRANSPOSED=transposed,
            SIZE=size,
            BLOCK_N=BLOCK_N,
        )
