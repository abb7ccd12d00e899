"""Bilinear forms of pairs of rows, forward and backward, as matmuls with a computed operand.

    y[r, k] = sum over i, j of x1[r, i] * x2[r, j] * weight[k, i, j] + bias[k]
    dx1[r, i] = sum over k, j of dy[r, k] * x2[r, j] * weight[k, i, j]        dx2 alike
    dweight[k, i, j] = sum over r of dy[r, k] * x1[r, i] * x2[r, j]

An operand of the matmul has the terms x1[r, i] * x2[r, j], and its inner axis is (i, j). A program
computes a tile of them in registers, so that the array of all of them, rows x I x J, is never
stored. The gradients of x1 and x2 are forms of the same kind, with other strides of the weights.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import tile
import tile.language as tl
from tile.errors import ArgumentValueError
from tile.ops.channels.channel_sums import channel_sums
from tile.ops.core.autograd import differentiable
from tile.ops.core.call import Call, Operand, accumulator
from tile.ops.core.call_plans import launch, planned
from tile.ops.core.device_functions import widen
from tile.ops.core.reference import Array, wide
from tile.ops.linear.configurations import tiles_of
from tile.ops.linear.matmul_tiles import tile_position
from tile.ops.linear.splits import add_contiguous_splits, splits_of


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


def _gradients(step: Any) -> dict[str, Any]:
    arguments, grad = step.arguments, step.grads[0]
    inputs = (arguments[name] for name in ("x1", "x2", "weight"))
    results = bilinear_backward(grad, *inputs, **step.options("precision"))
    gradients = dict(zip(("x1", "x2", "weight"), results, strict=True))
    if "bias" in step.needed:
        gradients["bias"] = channel_sums(grad.reshape(-1, grad.shape[-1]), -1)
    return gradients


@differentiable(_gradients)
@planned()
def bilinear(
    x1: Any, x2: Any, weight: Any, bias: Any = None, *, precision: str = "ieee", out: Any = None
) -> Any:
    """Return the bilinear forms of corresponding rows of `x1` and `x2`, in their type.

    x1: any axes x I; x2: the same axes x J; weight: K x I x J, of any strides; the result has the
    same axes x K. bias: K elements of any float type. precision: as in `matmul`.
    """
    call = Call("bilinear")
    first, second, weights = _operands(call, x1, x2, weight, precision)
    count = weights.shape[0]
    if bias is not None:
        call.array("bias", bias, rank=1, shape=(count,)).contiguous()
    result = call.output("out", out, (*first.shape[:-1], count), first.dtype)
    _forms(call, first, second, weights, (0, 1, 2), bias, result, precision)
    return result.value


@planned()
def bilinear_backward(
    dy: Any, x1: Any, x2: Any, weight: Any, *, precision: str = "ieee"
) -> tuple[Any, Any, Any]:
    """Return the gradients of x1, x2 and weight from `dy`, that of the result."""
    call = Call("bilinear_backward")
    first, second, weights = _operands(call, x1, x2, weight, precision)
    shape = (*first.shape[:-1], weights.shape[0])
    gradient = call.array("dy", dy, dtypes=(first.dtype,), shape=shape)
    dx1, dx2 = call.new(first.shape, first.dtype), call.new(second.shape, first.dtype)
    _forms(call, gradient, second, weights, (1, 0, 2), None, dx1, precision)
    _forms(call, gradient, first, weights, (2, 0, 1), None, dx2, precision)
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


def _operands(
    call: Call, x1: Any, x2: Any, weight: Any, precision: str
) -> tuple[Operand, Operand, Operand]:
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
    call.choice("precision", precision, ("ieee", "tf32", "tf32x3", "bf16x3", "bf16x6"))
    return first, second, weights


def _forms(
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


def bilinear_reference(
    x1: Array, x2: Array, weight: Array, bias: Array | None = None, precision: str = "ieee"
) -> Array:
    """Return the result in float64."""
    x1, x2, weight = wide(x1, x2, weight)
    result: Array = np.einsum("...i,...j,kij->...k", x1, x2, weight)
    return result + (0 if bias is None else wide(bias)[0])


def bilinear_backward_reference(
    dy: Array, x1: Array, x2: Array, weight: Array, precision: str = "ieee"
) -> tuple[Array, Array, Array]:
    """Return the gradients in float64."""
    dy, x1, x2, weight = wide(dy, x1, x2, weight)
    dx1 = np.einsum("...k,...j,kij->...i", dy, x2, weight)
    dx2 = np.einsum("...k,...i,kij->...j", dy, x1, weight)
    flat = (array.reshape(-1, array.shape[-1]) for array in (dy, x1, x2))
    return dx1, dx2, np.einsum("rk,ri,rj->kij", *flat)
