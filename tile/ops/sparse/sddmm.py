"""Blocks of a matmul, as of attention whose mask has blocks, and their gradients.

    values[i] = the block (rows[i], columns[i]) of a @ b, for the blocks of a mask
    da = s @ b.T        db = a.T @ s        s has the blocks dvalues[i] at (rows[i], columns[i])

A sparse matrix is a list of its dense blocks, `size` x `size` each. The gradients are matmuls of a
sparse matrix with a dense one, by the order of its blocks (block_order.py). No operation on zero
blocks is done. block_kernels.py has the kernels.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tile.errors import ArgumentValueError
from tile.ops.core.autograd import differentiable_by
from tile.ops.core.call import I32, Call, Operand
from tile.ops.core.call_plans import planned
from tile.ops.core.reference import Array
from tile.ops.sparse.block_kernels import SIZES, launch_sddmm, launch_spmm
from tile.ops.sparse.block_order import order_of


def _operands(
    call: Call, a: Any, b: Any, rows: Any, columns: Any, size: int
) -> tuple[Operand, Operand, int]:
    """Return a, b and the number of blocks, after checks of all."""
    left = call.array("a", a, rank=2)
    right = call.array("b", b, dtypes=(left.dtype,), rank=2)
    call.choice("size", size, SIZES)
    (m, k), (inner, n) = left.shape, right.shape
    if k != inner or m % size or n % size:
        raise ArgumentValueError(
            f"{call.op}: `a` has shape {left.shape} and `b` {right.shape}; they must be M x K and "
            f"K x N, where M and N are multiples of {size}"
        )
    first = call.array("rows", rows, dtypes=(I32,), rank=1).contiguous().within(0, m // size)
    call.vectors(first.size, (I32,), columns=columns)[0].within(0, n // size)
    return left, right, first.size


@planned()
def sddmm_backward(
    dvalues: Any, a: Any, b: Any, rows: Any, columns: Any, size: int
) -> tuple[Any, Any]:
    """Return the gradients of a and b from `dvalues`, that of the blocks, contiguous."""
    call = Call("sddmm_backward")
    left, right, count = _operands(call, a, b, rows, columns, size)
    shape = (count, size, size)
    gradient = call.array("dvalues", dvalues, dtypes=(left.dtype,), rank=3, shape=shape)
    gradient.contiguous()
    da, db = (call.new(operand.shape, left.dtype) for operand in (left, right))
    (m, k), n = left.shape, right.shape[1]
    # Kernels that order blocks check them: both come before the matmuls.
    by_row = order_of(call, rows, count, m // size)
    by_column = order_of(call, columns, count, n // size)
    indices = (*by_row, columns)
    launch_spmm(gradient, indices, b, da, n, k, right.strides[::-1], (k, 1))
    indices = (*by_column, rows)
    launch_spmm(gradient, indices, a, db, m, k, left.strides, (1, n), transposed=True)
    return da.value, db.value


@differentiable_by("a b")
@planned()
def sddmm(a: Any, b: Any, rows: Any, columns: Any, size: int, *, out: Any = None) -> Any:
    """Return the blocks of a @ b at the given positions, blocks x size x size, in the type of `a`.

    a: M x K; b: K x N, of its type; any strides. M and N are multiples of `size`, a power of two
    from 16 to 128. rows, columns: int32, the row and column of each block, counted in blocks.
    """
    call = Call("sddmm")
    left, right, count = _operands(call, a, b, rows, columns, size)
    result = call.output("out", out, (count, size, size), left.dtype).contiguous()
    sizes = (left.shape[0], right.shape[1], left.shape[1])
    launch_sddmm(a, b, rows, columns, result, sizes, left.strides, right.strides)
    return result.value


def sddmm_reference(a: Array, b: Array, rows: Array, columns: Array, size: int) -> Array:
    """Return the blocks in float64."""
    m, n = a.shape[0] // size, b.shape[1] // size
    blocks = (a @ b).reshape(m, size, n, size).swapaxes(1, 2)
    result: Array = blocks[rows, columns]
    return result


def sddmm_backward_reference(
    dvalues: Array, a: Array, b: Array, rows: Array, columns: Array, size: int
) -> tuple[Array, Array]:
    """Return the gradients in float64, by the dense matrix."""
    dense = np.zeros((a.shape[0] // size, b.shape[1] // size, size, size))
    np.add.at(dense, (rows, columns), dvalues)
    s = dense.swapaxes(1, 2).reshape(a.shape[0], b.shape[1])
    return s @ b.T, a.T @ s
