"""The gradients of bilinear forms of pairs of rows.

    dx1[r, i] = sum over k, j of dy[r, k] * x2[r, j] * weight[k, i, j]        dx2 alike
    dweight[k, i, j] = sum over r of dy[r, k] * x1[r, i] * x2[r, j]

The gradients of x1 and x2 are forms of the same kind, with other strides of the weights.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import tile
import tile.language as tl
from tile.ops.core.call import Call, accumulator
from tile.ops.core.call_plans import launch, planned
from tile.ops.core.device_functions import widen
from tile.ops.core.reference import Array
from tile.ops.linear.bilinear_forms import form_operands, write_forms
from tile.ops.linear.configurations import tiles_of
from tile.ops.linear.matmul_tiles import tile_position
from tile.ops.linear.splits import add_contiguous_splits, splits_of


@tile.jit
def bilinear_weight_kernel(
    dy_ptr,
    x1_ptr,
    x2_ptr,
    parts_ptr,
    dy_row,
    x1_row,
    x2_row,
    rows,
    outputs,
    outer,
    inner,
    span,
    PRECISION: tl.constexpr,
    SUMS: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    GROUP: tl.constexpr,
):
    columns = outer * inner
    tile_row, tile_column = tile_position(outputs, columns, BLOCK_M, BLOCK_N, GROUP)
    split = tl.program_id(1)
    k = tile_row * BLOCK_M + tl.arange(0, BLOCK_M)[:, None]
    column = tile_column * BLOCK_N + tl.arange(0, BLOCK_N)[None, :]
    i, j = column // inner, column % inner
    end = min(rows, (split + 1) * span)
    total = tl.zeros((BLOCK_M, BLOCK_N), dtype=SUMS)
    for start in range(split * span, end, BLOCK_K):
        row = tl.cast(start, tl.int64) + tl.arange(0, BLOCK_K)
        dy_at = row[None, :] * dy_row + k
        dy = tl.load(dy_ptr + dy_at, mask=(k < outputs) & (row < end)[None, :], other=0.0)
        inside = (row < end)[:, None] & (column < columns)
        x1 = widen(tl.load(x1_ptr + row[:, None] * x1_row + i, mask=inside, other=0.0))
        x2 = widen(tl.load(x2_ptr + row[:, None] * x2_row + j, mask=inside, other=0.0))
        pairs = (x1 * x2).to(dy.dtype)
        total = tl.dot(dy, pairs, total, input_precision=PRECISION, out_dtype=SUMS)
    at = (split.to(tl.int64) * outputs + k) * columns + column
    inside = (k < outputs) & (column < columns)
    tl.store(parts_ptr + at, total.to(parts_ptr.dtype.element_ty), mask=inside)


@planned()
def bilinear_backward(
    dy: Any, x1: Any, x2: Any, weight: Any, *, precision: str = "ieee"
) -> tuple[Any, Any, Any]:
    """Return the gradients of x1, x2 and weight from `dy`, that of the result."""
    call = Call("bilinear_backward")
    first, second, weights = form_operands(call, x1, x2, weight, precision)
    shape = (*first.shape[:-1], weights.shape[0])
    gradient = call.array("dy", dy, dtypes=(first.dtype,), shape=shape)
    dx1, dx2 = call.new(first.shape, first.dtype), call.new(second.shape, first.dtype)
    write_forms(call, gradient, second, weights, (1, 0, 2), None, dx1, precision)
    write_forms(call, gradient, first, weights, (2, 0, 1), None, dx2, precision)
    dweight = call.new(weights.shape, weights.dtype)
    rows, outputs = gradient.rows().count, weights.shape[0]
    columns = math.prod(weights.shape[1:])
    if dweight.size:
        config = tiles_of(call.backend, first.dtype, outputs, columns, rows, precision)
        tiles = tile.cdiv(outputs, config["BLOCK_M"]) * tile.cdiv(columns, config["BLOCK_N"])
        steps = tile.cdiv(rows, config["BLOCK_K"])
        splits = splits_of(call, None, tiles, steps)
        sums = accumulator(first.dtype)
        parts = call.new((splits, outputs, columns), sums) if splits > 1 else dweight
        launch(bilinear_weight_kernel, (tiles, splits))(
            *(dy, x1, x2, parts.value, gradient.rows().stride, first.rows().stride),
            *(second.rows().stride, rows, outputs, *weights.shape[1:]),
            tile.cdiv(steps, splits) * config["BLOCK_K"],
            PRECISION=precision,
            SUMS=getattr(tl, sums.name),
            **config,
        )
        if parts is not dweight:
            add_contiguous_splits(call, parts, dweight)
    return dx1.value, dx2.value, dweight.value


def bilinear_backward_reference(
    dy: Array, x1: Array, x2: Array, weight: Array
) -> tuple[Array, Array, Array]:
    """Return the gradients in float64."""
    dx1 = np.einsum("...k,...j,kij->...i", dy, x2, weight)
    dx2 = np.einsum("...k,...i,kij->...j", dy, x1, weight)
    flat = (array.reshape(-1, array.shape[-1]) for array in (dy, x1, x2))
    return dx1, dx2, np.einsum("rk,ri,rj->kij", *flat)
