"""The gradients of the cross entropy of a linear layer's results.

    dz[i, j] = dloss[i] * (exp(z[i, j] - s[i]) - (j == target[i]))        z = x @ weight.T
    dx = dz @ weight        dweight = dz.T @ x

A range of classes is computed at a time: dz of the range, whose size is bounded, its rows of
dweight, and its part of dx, which is added to those before, in a fixed order. The forward pass
stores s, and z of the first range on request; z of other ranges is computed anew, by a matmul more.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import tile
import tile.language as tl
from tile.errors import ArgumentValueError
from tile.ops.core.call import Call, accumulator
from tile.ops.core.call_plans import launch, planned
from tile.ops.core.contiguous import convert
from tile.ops.core.reference import Array
from tile.ops.linear.configurations import tiles_of
from tile.ops.linear.logits import (
    LARGEST,
    add_matmul,
    classes_at_once,
    log_sums_of,
    logit_operands,
)
from tile.ops.linear.logits_gradient import (
    STORED,
    logits_gradient_kernel,
    stored_logits_gradient_kernel,
)
from tile.ops.linear.matmul_tiles import tile_position


@tile.jit
def gradient_kernel(
    a_ptr,
    b_ptr,
    out_ptr,
    out_start,
    rows,
    columns,
    first,
    end,
    inner,
    a_strides,
    b_strides,
    ADD: tl.constexpr,
    SUMS: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    GROUP: tl.constexpr,
):
    """Store a @ b[first:end] from `out_start` on, or add it to what is there."""
    tile_row, tile_column = tile_position(rows, columns, BLOCK_M, BLOCK_N, GROUP)
    tl.assume(first >= 0)
    row = tile_row * BLOCK_M + tl.arange(0, BLOCK_M)
    column = tile_column * BLOCK_N + tl.arange(0, BLOCK_N)
    total = add_matmul(
        *(a_ptr, b_ptr, row, column, rows, columns, first, end, inner, a_strides, b_strides),
        *(tl.zeros((BLOCK_M, BLOCK_N), dtype=SUMS), BLOCK_K),
    )
    out = out_ptr + out_start + row.to(tl.int64)[:, None] * columns + column[None, :]
    mask = (row < rows)[:, None] & (column < columns)[None, :]
    if ADD:
        total += tl.load(out, mask=mask, other=0.0)
    tl.store(out, total.to(out_ptr.dtype.element_ty), mask=mask)


@planned()
def linear_cross_entropy_backward(
    dloss: Any,
    x: Any,
    weight: Any,
    target: Any,
    log_sums: Any,
    ignore_index: int = -100,
    logits: Any = None,
    largest: int = LARGEST,
) -> tuple[Any, Any]:
    """Return the gradients of x and weight from `dloss`, that of each row's loss.

    log_sums, logits: s and z, further results of `linear_cross_entropy`. largest: elements of dz
    that are stored at once, at most, but for one class; with `logits`, as many as these.
    """
    call = Call("linear_cross_entropy_backward")
    source, weights = logit_operands(call, x, weight, target, ignore_index)
    (rows, length), classes = source.shape, weights.shape[0]
    kind = accumulator(source.dtype)
    call.vectors(rows, (kind,), dloss=dloss, log_sums=log_sums)
    largest = call.integer("largest", largest, low=1)
    most = classes_at_once(rows, classes, largest)
    if logits is not None:
        stored = call.array("logits", logits, dtypes=(source.dtype,), rank=2).contiguous()
        most = stored.shape[1]
        if stored.shape[0] != rows or not 0 < most <= classes:
            raise ArgumentValueError(
                f"{call.op}: `logits` has shape {stored.shape}; it must be {rows} x {classes}, "
                "or have the first of these columns"
            )
    # The sums of several ranges are added in the type of the arithmetic.
    dx = call.new((rows, length), kind if most < classes else source.dtype)
    dweight = call.new(weights.shape, weights.dtype)
    config = tiles_of(call.backend, source.dtype, rows, most, length)
    options = {"SUMS": getattr(tl, kind.name), **config}
    dz = call.new((rows, most), source.dtype)
    for first in range(0, classes, most):
        end = min(classes, first + most)
        count = end - first
        if rows and logits is not None and not first:
            launch(stored_logits_gradient_kernel, (rows * tile.cdiv(most, STORED),))(
                *(dloss, logits, target, log_sums, dz.value, most),
                IGNORED=ignore_index,
                BLOCK=STORED,
            )
        elif rows:
            launch(logits_gradient_kernel, (_tiles(config, rows, count),))(
                *(dloss, x, weight, target, log_sums, dz.value, rows, first, end, count, length),
                *(source.strides, weights.strides[::-1]),
                IGNORED=ignore_index,
                **options,
            )
        if rows and length:
            launch(gradient_kernel, (_tiles(config, rows, length),))(
                *(dz.value, weight, dx.value, 0, rows, length, first, end, count),
                *((count, 1), weights.strides),
                ADD=first > 0,
                **options,
            )
        if length:
            launch(gradient_kernel, (_tiles(config, count, length),))(
                *(dz.value, x, dweight.value, first * length, count, length, 0, rows, rows),
                *((1, count), source.strides),
                ADD=False,
                **options,
            )
    if dx.dtype == source.dtype or not dx.size:
        return dx.value, dweight.value
    result = call.new(dx.shape, source.dtype)
    convert(dx, result)
    return result.value, dweight.value


def _tiles(config: Any, rows: int, columns: int) -> int:
    return tile.cdiv(rows, config["BLOCK_M"]) * tile.cdiv(columns, config["BLOCK_N"])


def linear_cross_entropy_backward_reference(
    dloss: Array, x: Array, weight: Array, target: Array, ignore_index: int
) -> tuple[Array, Array]:
    """Return the gradients in float64, from x and weight: `log_sums` is not read."""
    z = x @ weight.T
    dz = np.exp(z - log_sums_of(z)[:, None]) - (np.arange(z.shape[1]) == target[:, None])
    dz *= np.where(target == ignore_index, 0.0, dloss)[:, None]
    return dz @ weight, dz.T @ x
