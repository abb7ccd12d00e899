"""The kernel of bilinear forms: a matmul whose left operand is computed.

Its terms are x1[r, i] * x2[r, j], and the inner axis is (i, j). A program computes a tile of them
in registers, so that the array of all of them, rows x I x J, is never stored.
"""

from __future__ import annotations

from typing import Any

import tile
import tile.language as tl
from tile.errors import ArgumentValueError
from tile.ops.core.call import Call, Operand, accumulator
from tile.ops.core.call_plans import launch
from tile.ops.core.device_functions import widen
from tile.ops.core.epilogue import PRECISIONS
from tile.ops.linear.configurations import tiles_of
from tile.ops.linear.matmul_tiles import tile_position


@tile.jit
def bilinear_kernel(
    x1_ptr,
    x2_ptr,
    weight_ptr,
    bias_ptr,
    out_ptr,
    x1_row,
    x2_row,
    weight_strides,
    out_row,
    rows,
    columns,
    outer,
    inner,
    PRECISION: tl.constexpr,
    SUMS: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    GROUP: tl.constexpr,
):
    tile_row, tile_column = tile_position(rows, columns, BLOCK_M, BLOCK_N, GROUP)
    row = tile_row.to(tl.int64) * BLOCK_M + tl.arange(0, BLOCK_M)[:, None]
    column = tile_column.to(tl.int64) * BLOCK_N + tl.arange(0, BLOCK_N)[None, :]
    lane = tl.arange(0, BLOCK_K)
    weights = weight_ptr + column * weight_strides[0]
    steps = tl.cdiv(inner, BLOCK_K)
    total = tl.zeros((BLOCK_M, BLOCK_N), dtype=SUMS)
    for step in range(outer * steps):
        i, j = step // steps, step % steps * BLOCK_K + lane
        x1 = widen(tl.load(x1_ptr + row * x1_row + i, mask=row < rows, other=0.0))
        inside = (row < rows) & (j < inner)[None, :]
        x2 = widen(tl.load(x2_ptr + row * x2_row + j[None, :], mask=inside, other=0.0))
        at = tl.cast(i, tl.int64) * weight_strides[1] + j.to(tl.int64)[:, None] * weight_strides[2]
        inside = (j < inner)[:, None] & (column < columns)
        weight = tl.load(weights + at, mask=inside, other=0.0)
        pairs = (x1 * x2).to(weight.dtype)
        total = tl.dot(pairs, weight, total, input_precision=PRECISION, out_dtype=SUMS)
    if bias_ptr is not None:
        total += tl.load(bias_ptr + column, mask=column < columns, other=0.0)
    inside = (row < rows) & (column < columns)
    tl.store(out_ptr + row * out_row + column, total.to(out_ptr.dtype.element_ty), mask=inside)


def form_operands(
    call: Call, x1: Any, x2: Any, weight: Any, precision: str
) -> tuple[Operand, Operand, Operand]:
    """Return x1, x2 and the weight, or raise `ArgumentError` unless they fit together."""
    first = call.array("x1", x1)
    second = call.array("x2", x2, dtypes=(first.dtype,), rank=len(first.shape))
    weights = call.array("weight", weight, dtypes=(first.dtype,), rank=3)
    if first.shape[:-1] != second.shape[:-1] or weights.shape[1:] != (
        first.shape[-1],
        second.shape[-1],
    ):
        raise ArgumentValueError(
            f"{call.op}: `x1` has shape {first.shape}, `x2` {second.shape} and `weight` "
            f"{weights.shape}; they must be any axes x I, the same axes x J, and K x I x J"
        )
    call.choice("precision", precision, PRECISIONS)
    return first, second, weights


def write_forms(
    call: Call,
    a: Operand,
    b: Operand,
    weights: Operand,
    order: tuple[int, int, int],
    bias: Any,
    result: Operand,
    precision: str,
) -> None:
    """Write the forms of rows of `a` and `b`; `order` has the axes of the result, of a, and b."""
    columns, outer, inner = (weights.shape[axis] for axis in order)
    left, right, out = a.rows(), b.rows(), result.rows()
    if not result.size:
        return
    config = tiles_of(call.backend, a.dtype, out.count, columns, outer * inner, precision)
    tiles = tile.cdiv(out.count, config["BLOCK_M"]) * tile.cdiv(columns, config["BLOCK_N"])
    launch(bilinear_kernel, (tiles,))(
        *(a.value, b.value, weights.value, bias, result.value, left.stride, right.stride),
        *(tuple(weights.strides[axis] for axis in order), out.stride),
        *(out.count, columns, outer, inner),
        PRECISION=precision,
        SUMS=getattr(tl, accumulator(a.dtype).name),
        **config,
    )
