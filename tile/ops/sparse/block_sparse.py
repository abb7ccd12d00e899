"""Matmuls with block-sparse matrices, such as those of attention whose mask has blocks.

    sddmm: values[i] = the block (rows[i], columns[i]) of a @ b, for the blocks of a mask
    spmm:  out = s @ b, where s has the blocks values[i] in column columns[i] of blocks, for i from
           starts[r] to starts[r + 1] - 1 in row r of blocks

A sparse matrix is a list of its dense blocks, `size` x `size` each, in the order of rows (block
compressed rows). A program of sddmm computes one block; one of spmm has a row of blocks and a part
of the columns of b, and iterates over the blocks of its row. No operation on zero blocks is done.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

import tile
import tile.language as tl
from tile.errors import ArgumentValueError
from tile.ops.core.call import I32, Call, accumulator
from tile.ops.core.call_plans import launch, planned
from tile.ops.core.reference import Array, wide

BLOCK_K = 32  # elements along the inner axis of an iteration of sddmm
BLOCK_N = 64  # columns of a program of spmm


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
    columns_ptr,
    b_ptr,
    out_ptr,
    N,
    b_strides,
    SUMS: tl.constexpr,
    SIZE: tl.constexpr,
    BLOCK_N: tl.constexpr,
):
    row = tl.program_id(0)
    within = tl.arange(0, SIZE)
    column = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)[None, :]
    total = tl.zeros((SIZE, BLOCK_N), dtype=SUMS)
    for block in range(tl.load(starts_ptr + row), tl.load(starts_ptr + row + 1)):
        base = values_ptr + tl.cast(block, tl.int64) * SIZE * SIZE
        a = tl.load(base + within[:, None] * SIZE + within[None, :])
        k = tl.load(columns_ptr + block).to(tl.int64) * SIZE + within[:, None]
        b = tl.load(b_ptr + k * b_strides[0] + column * b_strides[1], mask=column < N, other=0.0)
        total = tl.dot(a, b, total, out_dtype=SUMS)
    at = (row.to(tl.int64) * SIZE + within)[:, None] * N + column
    tl.store(out_ptr + at, total.to(out_ptr.dtype.element_ty), mask=column < N)


@planned()
def sddmm(a: Any, b: Any, rows: Any, columns: Any, size: int, *, out: Any = None) -> Any:
    """Return the blocks of a @ b at the given positions, blocks x size x size, in the type of `a`.

    a: M x K; b: K x N, of its type; any strides. M and N are multiples of `size`, a power of two
    from 16 to 128. rows, columns: int32, the row and column of each block, counted in blocks.
    """
    call = Call("sddmm")
    left = call.array("a", a, rank=2)
    right = call.array("b", b, dtypes=(left.dtype,), rank=2)
    call.choice("size", size, (16, 32, 64, 128))
    (m, k), (inner, n) = left.shape, right.shape
    if k != inner or m % size or n % size:
        raise ArgumentValueError(
            f"sddmm: `a` has shape {left.shape} and `b` {right.shape}; they must be M x K and K x "
            f"N, where M and N are multiples of {size}"
        )
    first = call.array("rows", rows, dtypes=(I32,), rank=1).contiguous().within(0, m // size)
    second = call.array("columns", columns, dtypes=(I32,), rank=1, shape=first.shape)
    second.contiguous().within(0, n // size)
    result = call.output("out", out, (first.size, size, size), left.dtype).contiguous()
    if result.size:
        launch(sddmm_kernel, (first.size,))(
            *(a, b, rows, columns, result.value, k, left.strides, right.strides),
            SUMS=getattr(tl, accumulator(left.dtype).name),
            SIZE=size,
            BLOCK_K=BLOCK_K,
        )
    return result.value


@planned()
def spmm(values: Any, starts: Any, columns: Any, b: Any, *, out: Any = None) -> Any:
    """Return the dense matrix of a block-sparse one times `b`, in the type of `values`.

    values: blocks x size x size, contiguous, in the order of rows. starts: int32, for each row of
    blocks the first of its blocks, and at the end the number of blocks. columns: int32, the column
    of each block, counted in blocks. b: K x N, of the type of `values`, any strides.
    """
    call = Call("spmm")
    blocks = call.array("values", values, rank=3).contiguous()
    count, size, _ = blocks.shape
    call.choice("size", size, (16, 32, 64, 128))
    call.array("values", values, rank=3, shape=(count, size, size))
    dense = call.array("b", b, dtypes=(blocks.dtype,), rank=2)
    (k, n) = dense.shape
    first = call.array("starts", starts, dtypes=(I32,), rank=1).contiguous().within(0, count + 1)
    second = call.array("columns", columns, dtypes=(I32,), rank=1, shape=(count,))
    second.contiguous().within(0, k // size)
    if first.size == 0 or (first.host is not None and first.host[-1] != count):
        raise ArgumentValueError(f"spmm: `starts` must end with the number of blocks, {count}")
    rows = first.size - 1
    result = call.output("out", out, (rows * size, n), blocks.dtype).contiguous()
    if result.size:
        launch(spmm_kernel, (rows, tile.cdiv(n, BLOCK_N)))(
            *(values, starts, columns, b, result.value, n, dense.strides),
            SUMS=getattr(tl, accumulator(blocks.dtype).name),
            SIZE=size,
            BLOCK_N=BLOCK_N,
        )
    return result.value


def sddmm_reference(a: Array, b: Array, rows: Array, columns: Array, size: int) -> Array:
    """Return the blocks in float64."""
    a, b = wide(a, b)
    m, n = a.shape[0] // size, b.shape[1] // size
    blocks = (a @ b).reshape(m, size, n, size).swapaxes(1, 2)
    result: Array = blocks[rows, columns]
    return result


def spmm_reference(values: Array, starts: Array, columns: Array, b: Array) -> Array:
    """Return the result in float64."""
    values, b = wide(values, b)
    size = values.shape[1]
    out = np.zeros(((len(starts) - 1) * size, b.shape[1]))
    for row, (start, end) in enumerate(itertools.pairwise(starts)):
        for block in range(start, end):
            k = columns[block] * size
            out[row * size : (row + 1) * size] += values[block] @ b[k : k + size]
    return out
