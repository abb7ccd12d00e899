"""The operands that the cross entropy of a linear layer and its gradients share, and a matmul."""

from __future__ import annotations

from typing import Any

import numpy as np

import tile
import tile.language as tl
from tile.errors import ArgumentValueError
from tile.ops.core.call import Call, Operand
from tile.ops.core.reference import Array
from tile.ops.rowwise.labels import labels_of

LARGEST = 2**27  # elements of z, or of its gradient, that are stored at once


def classes_at_once(rows: int, classes: int, largest: int = LARGEST) -> int:
    """Return the number of classes, at least one, of which `largest` elements can be stored."""
    return max(1, min(classes, largest // max(rows, 1)))


@tile.jit
def add_matmul(
    a_ptr,
    b_ptr,
    row,
    column,
    rows,
    columns,
    first,
    end,
    inner,
    a_strides,
    b_strides,
    total,
    BLOCK_K: tl.constexpr,
):
    """Return `total` plus a tile of a @ b[first:end], whose strides are those of rows and columns.

    inner: end - first. It is an argument, as rows and columns are, and all are 32-bit, so that
    tiles are blocks of arrays, which TMA copies.
    """
    lane = tl.arange(0, BLOCK_K)
    for start in range(0, inner, BLOCK_K):
        a_inner = start + lane
        b_inner = first + a_inner
        a_at = row.to(tl.int64)[:, None] * a_strides[0] + a_inner.to(tl.int64) * a_strides[1]
        b_at = b_inner.to(tl.int64)[:, None] * b_strides[0]
        b_at += column.to(tl.int64)[None, :] * b_strides[1]
        a_inside = (row < rows)[:, None] & (a_inner < inner)[None, :]
        b_inside = (b_inner < end)[:, None] & (column < columns)[None, :]
        a = tl.load(a_ptr + a_at, mask=a_inside, other=0.0)
        b = tl.load(b_ptr + b_at, mask=b_inside, other=0.0)
        total = tl.dot(a, b, total, out_dtype=total.dtype)
    return total


def logit_operands(
    call: Call, x: Any, weight: Any, target: Any, ignore_index: int
) -> tuple[Operand, Operand]:
    """Return x and the weight, or raise `ArgumentError` unless all operands fit together."""
    source, weights = call.matching(x=(x, "rows x length"), weight=(weight, "classes x length"))
    if not weights.shape[0]:
        raise ArgumentValueError(f"{call.op}: `weight` has no classes; it must have one or more")
    labels_of(call, target, source.shape[0], weights.shape[0], ignore_index)
    return source, weights


def log_sums_of(z: Array) -> Array:
    """Return the logarithm of the sum of exponentials of each row."""
    highest = z.max(axis=1)
    result: Array = highest + np.log(np.exp(z - highest[:, None]).sum(axis=1))
    return result
