"""Cross entropy of a linear layer's results, which are never stored as a whole.

    loss[i] = s[i] - z[i, target[i]]        z = x @ weight.T        s[i] = log sum_j exp(z[i, j])
    dz[i, j] = dloss[i] * (exp(z[i, j] - s[i]) - (j == target[i]))
    dx = dz @ weight        dweight = dz.T @ x

With a vocabulary, z is many times as large as x. The forward pass computes its tiles and keeps the
maximum and the sum of each tile's rows, which a second kernel merges. The backward pass computes z
anew for a range of classes at a time: dz of the range, whose size is bounded, its rows of dweight,
and its part of dx, which is added to those before, in a fixed order.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import tile
import tile.language as tl
from tile.errors import ArgumentValueError
from tile.ops.core.autograd import differentiable
from tile.ops.core.call import Call, Operand, accumulator
from tile.ops.core.call_plans import launch, planned
from tile.ops.core.reference import Array, wide
from tile.ops.linear.configurations import tiles_of
from tile.ops.linear.matmul_tiles import tile_position
from tile.ops.rowwise.labels import labels_of
from tile.ops.selection.embedding import convert_kernel

LARGEST = 2**27  # elements of dz that are stored at once
ROWS = 64  # of a program that merges
CONVERTED = 1024


@tile.jit
def add_matmul(
    a_ptr,
    b_ptr,
    row,
    column,
    rows,
    columns,
    inner,
    a_strides,
    b_strides,
    total,
    BLOCK_K: tl.constexpr,
):
    """Return `total` plus a tile of a @ b, whose strides are those of rows and columns."""
    lane = tl.arange(0, BLOCK_K)
    for start in range(0, inner, BLOCK_K):
        k = (start + lane).to(tl.int64)
        a_at = row[:, None] * a_strides[0] + k[None, :] * a_strides[1]
        b_at = k[:, None] * b_strides[0] + column[None, :] * b_strides[1]
        a_inside = (row < rows)[:, None] & (k < inner)[None, :]
        b_inside = (k < inner)[:, None] & (column < columns)[None, :]
        a = tl.load(a_ptr + a_at, mask=a_inside, other=0.0)
        b = tl.load(b_ptr + b_at, mask=b_inside, other=0.0)
        total = tl.dot(a, b, total, out_dtype=total.dtype)
    return total


@tile.jit
def logits_kernel(
    x_ptr,
    weight_ptr,
    target_ptr,
    highest_ptr,
    sums_ptr,
    right_ptr,
    rows,
    classes,
    length,
    x_strides,
    weight_strides,
    SUMS: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    GROUP: tl.constexpr,
):
    tile_row, tile_column = tile_position(rows, classes, BLOCK_M, BLOCK_N, GROUP)
    row = tile_row.to(tl.int64) * BLOCK_M + tl.arange(0, BLOCK_M)
    column = tile_column.to(tl.int64) * BLOCK_N + tl.arange(0, BLOCK_N)
    z = tl.zeros((BLOCK_M, BLOCK_N), dtype=SUMS)
    z = add_matmul(
        x_ptr, weight_ptr, row, column, rows, classes, length, x_strides, weight_strides, z, BLOCK_K
    )
    target = tl.load(target_ptr + row, mask=row < rows, other=-1)
    first = tile_column * BLOCK_N
    right = tl.sum(tl.where(column[None, :] == target[:, None], z, 0.0), axis=1)
    here = (row < rows) & (target >= first) & (target < first + BLOCK_N)
    tl.store(right_ptr + row, right, mask=here)
    z = tl.where((column < classes)[None, :], z, -float("inf"))
    highest = tl.max(z, axis=1)
    at = tile_column.to(tl.int64) * rows + row
    tl.store(highest_ptr + at, highest, mask=row < rows)
    tl.store(sums_ptr + at, tl.sum(tl.exp(z - highest[:, None]), axis=1), mask=row < rows)


@tile.jit
def merge_kernel(
    target_ptr,
    highest_ptr,
    sums_ptr,
    right_ptr,
    loss_ptr,
    log_ptr,
    rows,
    classes,
    parts,
    IGNORED: tl.constexpr,
    ROWS: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    inside = row < rows
    target = tl.load(target_ptr + row, mask=inside, other=IGNORED)
    used = target != IGNORED
    tl.device_assert(((target >= 0) & (target < classes)) | ~used, "targets are classes")
    highest = tl.load(highest_ptr + row, mask=inside, other=0.0)
    total = tl.load(sums_ptr + row, mask=inside, other=1.0)
    for part in range(1, parts):
        at = tl.cast(part, tl.int64) * rows + row
        other = tl.load(highest_ptr + at, mask=inside, other=0.0)
        higher = tl.maximum(highest, other)
        more = tl.load(sums_ptr + at, mask=inside, other=0.0) * tl.exp(other - higher)
        total = total * tl.exp(highest - higher) + more
        highest = higher
    log_sum = highest + tl.log(total)
    right = tl.load(right_ptr + row, mask=inside & used, other=0.0)
    tl.store(log_ptr + row, log_sum, mask=inside)
    tl.store(loss_ptr + row, tl.where(used, log_sum - right, 0.0), mask=inside)


@tile.jit
def logits_gradient_kernel(
    dloss_ptr,
    x_ptr,
    weight_ptr,
    target_ptr,
    log_ptr,
    dz_ptr,
    rows,
    first,
    classes,
    length,
    x_strides,
    weight_strides,
    IGNORED: tl.constexpr,
    SUMS: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    GROUP: tl.constexpr,
):
    tile_row, tile_column = tile_position(rows, classes, BLOCK_M, BLOCK_N, GROUP)
    row = tile_row.to(tl.int64) * BLOCK_M + tl.arange(0, BLOCK_M)
    column = tile_column.to(tl.int64) * BLOCK_N + tl.arange(0, BLOCK_N)
    weight_ptr += tl.cast(first, tl.int64) * weight_strides[1]
    z = tl.zeros((BLOCK_M, BLOCK_N), dtype=SUMS)
    z = add_matmul(
        x_ptr, weight_ptr, row, column, rows, classes, length, x_strides, weight_strides, z, BLOCK_K
    )
    inside = row < rows
    target = tl.load(target_ptr + row, mask=inside, other=IGNORED)
    used = target != IGNORED
    share = tl.where(used, tl.load(dloss_ptr + row, mask=inside, other=0.0), 0.0)
    z = tl.exp(z - tl.load(log_ptr + row, mask=inside, other=0.0)[:, None])
    z -= tl.where((first + column)[None, :] == target[:, None], 1.0, 0.0)
    at = row[:, None] * classes + column[None, :]
    mask = inside[:, None] & (column < classes)[None, :]
    tl.store(dz_ptr + at, (z * share[:, None]).to(dz_ptr.dtype.element_ty), mask=mask)


@tile.jit
def gradient_kernel(
    a_ptr,
    b_ptr,
    out_ptr,
    b_start,
    out_start,
    rows,
    columns,
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
    """Store a @ b from `out_start` on, or add it to what is there."""
    tile_row, tile_column = tile_position(rows, columns, BLOCK_M, BLOCK_N, GROUP)
    row = tile_row.to(tl.int64) * BLOCK_M + tl.arange(0, BLOCK_M)
    column = tile_column.to(tl.int64) * BLOCK_N + tl.arange(0, BLOCK_N)
    out = out_ptr + out_start + row[:, None] * columns + column[None, :]
    mask = (row < rows)[:, None] & (column < columns)[None, :]
    total = tl.zeros((BLOCK_M, BLOCK_N), dtype=SUMS)
    if ADD:
        total += tl.load(out, mask=mask, other=0.0)
    b_ptr += b_start
    total = add_matmul(
        a_ptr, b_ptr, row, column, rows, columns, inner, a_strides, b_strides, total, BLOCK_K
    )
    tl.store(out, total.to(out_ptr.dtype.element_ty), mask=mask)


def _gradients(step: Any) -> dict[str, Any]:
    x, weight, target = (step.arguments[name] for name in ("x", "weight", "target"))
    options = step.options("ignore_index")
    results = linear_cross_entropy_backward(
        step.grads[0], x, weight, target, step.results[1], **options
    )
    return dict(zip(("x", "weight"), results, strict=True))


@differentiable(_gradients)
@planned()
def linear_cross_entropy(
    x: Any, weight: Any, target: Any, ignore_index: int = -100
) -> tuple[Any, Any]:
    """Return the loss of each row of x @ weight.T, and s of each, in float32 or float64.

    x: rows x length; weight: classes x length, of its type; any strides. target: the index of each
    row's class, int32 or int64; rows whose target is `ignore_index` have the loss 0.
    """
    call = Call("linear_cross_entropy")
    source, weights = _operands(call, x, weight, target, ignore_index)
    (rows, length), classes = source.shape, weights.shape[0]
    kind = accumulator(source.dtype)
    loss, log_sums, right = (call.new((rows,), kind) for _ in range(3))
    if not rows:
        return loss.value, log_sums.value
    config = tiles_of(call.backend, source.dtype, rows, classes, length)
    parts = tile.cdiv(classes, config["BLOCK_N"])
    highest, sums = call.new((parts, rows), kind), call.new((parts, rows), kind)
    launch(logits_kernel, (tile.cdiv(rows, config["BLOCK_M"]) * parts,))(
        *(x, weight, target, highest.value, sums.value, right.value, rows, classes, length),
        *(source.strides, weights.strides[::-1]),
        SUMS=getattr(tl, kind.name),
        **config,
    )
    launch(merge_kernel, (tile.cdiv(rows, ROWS),))(
        *(target, highest.value, sums.value, right.value, loss.value, log_sums.value),
        *(rows, classes, parts),
        IGNORED=ignore_index,
        ROWS=ROWS,
    )
    return loss.value, log_sums.value


@planned()
def linear_cross_entropy_backward(
    dloss: Any,
    x: Any,
    weight: Any,
    target: Any,
    log_sums: Any,
    ignore_index: int = -100,
    largest: int = LARGEST,
) -> tuple[Any, Any]:
    """Return the gradients of x and weight from `dloss`, that of each row's loss.

    log_sums: s, the second result of `linear_cross_entropy`. largest: elements of dz that are
    stored at once, at most, but for one class.
    """
    call = Call("linear_cross_entropy_backward")
    source, weights = _operands(call, x, weight, target, ignore_index)
    (rows, length), classes = source.shape, weights.shape[0]
    kind = accumulator(source.dtype)
    for name, vector in (("dloss", dloss), ("log_sums", log_sums)):
        call.array(name, vector, dtypes=(kind,), rank=1, shape=(rows,)).contiguous()
    largest = call.integer("largest", largest, low=1)
    dx, dweight = call.new((rows, length), kind), call.new(weights.shape, weights.dtype)
    most = max(1, min(classes, largest // max(rows, 1)))
    config = tiles_of(call.backend, source.dtype, rows, most, length)
    options = {"SUMS": getattr(tl, kind.name), **config}
    dz = call.new((rows, most), source.dtype)
    for first in range(0, classes, most):
        count = min(most, classes - first)
        if rows:
            launch(logits_gradient_kernel, (_tiles(config, rows, count),))(
                *(dloss, x, weight, target, log_sums, dz.value, rows, first, count, length),
                *(source.strides, weights.strides[::-1]),
                IGNORED=ignore_index,
                **options,
            )
        if rows and length:
            launch(gradient_kernel, (_tiles(config, rows, length),))(
                *(dz.value, weight, dx.value, first * weights.strides[0], 0, rows, length, count),
                *((count, 1), weights.strides),
                ADD=first > 0,
                **options,
            )
        if length:
            launch(gradient_kernel, (_tiles(config, count, length),))(
                *(dz.value, x, dweight.value, 0, first * length, count, length, rows),
                *((1, count), source.strides),
                ADD=False,
                **options,
            )
    if source.dtype == kind or not dx.size:
        result = dx if source.dtype == kind else call.new(dx.shape, source.dtype)
        return result.value, dweight.value
    result = call.new(dx.shape, source.dtype)
    launch(convert_kernel, (tile.cdiv(dx.size, CONVERTED),))(
        dx.value, result.value, dx.size, CLEAR=False, BLOCK=CONVERTED
    )
    return result.value, dweight.value


def _tiles(config: Any, rows: int, columns: int) -> int:
    return tile.cdiv(rows, config["BLOCK_M"]) * tile.cdiv(columns, config["BLOCK_N"])


def _operands(
    call: Call, x: Any, weight: Any, target: Any, ignore_index: int
) -> tuple[Operand, Operand]:
    source = call.array("x", x, rank=2)
    weights = call.array("weight", weight, dtypes=(source.dtype,), rank=2)
    if weights.shape[1] != source.shape[1] or not weights.shape[0]:
        raise ArgumentValueError(
            f"{call.op}: `x` has shape {source.shape} and `weight` {weights.shape}; they must be "
            "rows x length and classes x length, with one class or more"
        )
    labels_of(call, target, source.shape[0], weights.shape[0], ignore_index)
    return source, weights


def _log_sums(z: Array) -> Array:
    highest = z.max(axis=1)
    result: Array = highest + np.log(np.exp(z - highest[:, None]).sum(axis=1))
    return result


def linear_cross_entropy_reference(
    x: Array, weight: Array, target: Array, ignore_index: int = -100
) -> tuple[Array, Array]:
    """Return the losses and s in float64."""
    x, weight = wide(x, weight)
    z, used = x @ weight.T, target != ignore_index
    sums = _log_sums(z)
    return np.where(used, sums - z[np.arange(len(x)), np.where(used, target, 0)], 0.0), sums


def linear_cross_entropy_backward_reference(
    dloss: Array,
    x: Array,
    weight: Array,
    target: Array,
    log_sums: Array,
    ignore_index: int = -100,
    largest: int = LARGEST,
) -> tuple[Array, Array]:
    """Return the gradients in float64, from x and weight: `log_sums` is not read."""
    dloss, x, weight = wide(dloss, x, weight)
    z = x @ weight.T
    dz = np.exp(z - _log_sums(z)[:, None]) - (np.arange(z.shape[1]) == target[:, None])
    dz *= np.where(target == ignore_index, 0.0, dloss)[:, None]
    return dz @ weight, dz.T @ x
