"""A block-sparse matrix times a dense one, and its gradients.

    out = s @ b        s has the blocks values[i] in column columns[i] of blocks, for i from
                       starts[r] to starts[r + 1] - 1 in row r of blocks
    dvalues[i] = the block of dout @ b.T where values[i] is in s        db = s.T @ dout

A sparse matrix is a list of its dense blocks, `size` x `size` each, in the order of rows (block
compressed rows); for its transpose the blocks are put in the order of columns (block_order.py).
block_kernels.py has the kernels; no operation on zero blocks is done.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from tile.errors import ArgumentValueError
from tile.ops.core.autograd import differentiable_by
from tile.ops.core.call import I32, Call, Operand
from tile.ops.core.call_plans import planned
from tile.ops.core.reference import Array
from tile.ops.sparse.block_kernels import SIZES, launch_sddmm, launch_spmm
from tile.ops.sparse.block_order import order_of, rows_of


def _operands(
    call: Call, values: Any, starts: Any, columns: Any, b: Any
) -> tuple[Operand, Operand, int]:
    """Return the blocks, b and the number of rows of blocks, after checks of all."""
    blocks = call.array("values", values, rank=3).contiguous()
    count, size, _ = blocks.shape
    call.choice("size", size, SIZES)
    call.array("values", values, rank=3, shape=(count, size, size))
    dense = call.array("b", b, dtypes=(blocks.dtype,), rank=2)
    k = dense.shape[0]
    if k % size:
        raise ArgumentValueError(
            f"{call.op}: `b` has {k} rows; with blocks of {size}, a multiple of that"
        )
    first = call.array("starts", starts, dtypes=(I32,), rank=1).contiguous()
    call.vectors(count, (I32,), columns=columns)[0].within(0, k // size)
    host = first.host
    if first.size == 0 or (
        host is not None and (host[0] != 0 or host[-1] != count or (np.diff(host) < 0).any())
    ):
        raise ArgumentValueError(
            f"{call.op}: `starts` must start with 0, not decrease, and end with the number of "
            f"blocks, {count}"
        )
    return blocks, dense, first.size - 1


@planned()
def spmm_backward(dout: Any, values: Any, starts: Any, columns: Any, b: Any) -> tuple[Any, Any]:
    """Return the gradients of values and b from `dout`, that of the result, of any strides."""
    call = Call("spmm_backward")
    blocks, dense, rows = _operands(call, values, starts, columns, b)
    (count, size, _), (k, n) = blocks.shape, dense.shape
    shape = (rows * size, n)
    gradient = call.array("dout", dout, dtypes=(blocks.dtype,), rank=2, shape=shape)
    dvalues, db = call.new(blocks.shape, blocks.dtype), call.new((k, n), blocks.dtype)
    # Kernels that order blocks check them: they come before the matmuls.
    row = rows_of(call, starts, rows, count)
    indices = (*order_of(call, columns, count, k // size), row)
    sizes = (rows * size, k, n)
    launch_sddmm(dout, b, row, columns, dvalues, sizes, gradient.strides, dense.strides[::-1])
    launch_spmm(
        *(blocks, indices, dout, db, rows * size, n, gradient.strides, (n, 1)), transposed=True
    )
    return dvalues.value, db.value


@differentiable_by("values b")
@planned()
def spmm(values: Any, starts: Any, columns: Any, b: Any, *, out: Any = None) -> Any:
    """Return the dense matrix of a block-sparse one times `b`, in the type of `values`.

    values: blocks x size x size, contiguous, in the order of rows; size is a power of two from 16
    to 128. starts: int32, for each row of blocks the first of its blocks, and at the end the number
    of blocks. columns: int32, the column of each block, counted in blocks. b: K x N, of the type of
    `values`, any strides; K is a multiple of the size.
    """
    call = Call("spmm")
    blocks, dense, rows = _operands(call, values, starts, columns, b)
    k, n = dense.shape
    result = call.output("out", out, (rows * blocks.shape[1], n), blocks.dtype).contiguous()
    launch_spmm(blocks, (starts, None, columns), b, result, k, n, dense.strides, (n, 1))
    return result.value


def spmm_reference(values: Array, starts: Array, columns: Array, b: Array) -> Array:
    """Return the result in float64."""
    size = values.shape[1]
    out = np.zeros(((len(starts) - 1) * size, b.shape[1]))
    for row, (start, end) in enumerate(itertools.pairwise(starts)):
        for block in range(start, end):
            k = columns[block] * size
            out[row * size : (row + 1) * size] += values[block] @ b[k : k + size]
    return out


def spmm_backward_reference(
    dout: Array, values: Array, starts: Array, columns: Array, b: Array
) -> tuple[Array, Array]:
    """Return the gradients in float64."""
    size = values.shape[1]
    dvalues, db = np.zeros(values.shape), np.zeros(b.shape)
    for row, (start, end) in enumerate(itertools.pairwise(starts)):
        grad = dout[row * size : (row + 1) * size]
        for block in range(start, end):
            part = slice(columns[block] * size, (columns[block] + 1) * size)
            dvalues[block] = grad @ b[part].T
            db[part] += values[block].T @ grad
    return dvalues, db
