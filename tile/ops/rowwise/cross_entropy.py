"""Cross entropy of rows of logits and the index of the right class, forward and backward.

    loss = s - x[target]        s = log sum_j exp(x[j]), by the maximum m: m + log sum exp(x[j] - m)
    dx[j] = dloss * (exp(x[j] - s) - (j == target))

Probabilities are never stored. A row, of a vocabulary, is long: both passes go over it in blocks.
The forward pass keeps a running maximum and sum (softmax.py), reading the logits once. The
backward pass needs s, which is loss + x[target]: nothing else is kept between them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import tile
import tile.language as tl
from tile.ops.core.autograd import differentiable_by
from tile.ops.core.call import Call, accumulator
from tile.ops.core.call_plans import launch, planned
from tile.ops.core.device_functions import widen
from tile.ops.core.reference import Array
from tile.ops.core.row_tiles import parts_of, row_tile, rows_of
from tile.ops.core.row_vectors import vector_of, vectors_of
from tile.ops.core.tables import ANY, Table
from tile.ops.rowwise.labels import labels_of
from tile.ops.rowwise.softmax_kernels import (
    part_sums,
    sum_of_blocks,
    sum_of_parts,
    with_block,
)

BLOCK = 8192
ELEMENTS = 2048  # of a tile of short rows
# Of the forward pass, by the elements of a tile: 32 or 64 for each thread. H200, 2026-11-29.
WARPS = Table(
    {(ANY,): {}},
    {
        "nvptx": {
            (1024,): {"num_warps": 1},
            (2048,): {"num_warps": 2},
            (ANY,): {"num_warps": 4},
        }
    },
)


@tile.jit
def target_of(target_ptr, row, exists, classes, IGNORED: tl.constexpr):
    """Return the class of each row, and True for those that are not ignored."""
    target = tl.load(target_ptr + row, mask=exists, other=IGNORED)
    used = target != IGNORED
    tl.device_assert(((target >= 0) & (target < classes)) | ~used, "targets are classes")
    return target, used & exists


@tile.jit
def cross_entropy_kernel(
    x_ptr,
    target_ptr,
    loss_ptr,
    stride,
    rows,
    classes,
    IGNORED: tl.constexpr,
    ROWS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    row, exists = rows_of(rows, ROWS)
    target, used = target_of(target_ptr, row, exists, classes, IGNORED)
    column = tl.arange(0, BLOCK)[None, :]
    logits = x_ptr + row * stride
    x = widen(tl.load(logits + column, exists & (column < classes), -float("inf")))
    highest = tl.max(x, axis=1, keep_dims=True)
    origin = tl.where(highest == -float("inf"), 0.0, highest)  # -inf - -inf would be NaN
    total = tl.sum(tl.exp(x - origin), axis=1, keep_dims=True)
    right = widen(tl.load(logits + target, mask=used, other=0.0))
    loss = tl.where(used, highest + tl.log(total) - right, 0.0)
    tl.store(loss_ptr + row, loss, mask=exists)


@tile.jit
def long_cross_entropy_kernel(
    x_ptr,
    target_ptr,
    loss_ptr,
    stride,
    rows,
    classes,
    IGNORED: tl.constexpr,
    ROWS: tl.constexpr,
    VECTOR: tl.constexpr,
    BLOCK: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64)
    target, used = target_of(target_ptr, row, True, classes, IGNORED)
    right = widen(tl.load(x_ptr + row * stride + target, mask=used, other=0.0))
    first, count, place, inside = vectors_of(row, stride, classes, VECTOR)
    most, total = sum_of_blocks(x_ptr + first, count, BLOCK)
    if VECTOR > 1:
        rest = widen(tl.load(x_ptr + (first + place), mask=inside, other=-float("inf")))
        most, total = with_block(most, total, rest)
    tl.store(loss_ptr + row, tl.where(used, most + tl.log(total) - right, 0.0))


@tile.jit
def shared_cross_entropy_kernel(
    x_ptr,
    target_ptr,
    most_ptr,
    total_ptr,
    loss_ptr,
    stride,
    classes,
    parts,
    IGNORED: tl.constexpr,
    PARTS: tl.constexpr,
):
    """Store the loss of a row from the maxima and sums of its parts (softmax_kernels.py)."""
    row = tl.program_id(0).to(tl.int64)
    target, used = target_of(target_ptr, row, True, classes, IGNORED)
    most, total = sum_of_parts(most_ptr, total_ptr, row, parts, PARTS)
    right = widen(tl.load(x_ptr + row * stride + target, mask=used, other=0.0))
    tl.store(loss_ptr + row, tl.where(used, most + tl.log(total) - right, 0.0))


@tile.jit
def cross_entropy_backward_kernel(
    dloss_ptr,
    x_ptr,
    target_ptr,
    loss_ptr,
    dx_ptr,
    x_stride,
    dx_stride,
    rows,
    classes,
    IGNORED: tl.constexpr,
    ROWS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    row, exists = rows_of(rows, ROWS)
    target, used = target_of(target_ptr, row, exists, classes, IGNORED)
    column = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)[None, :]
    inside = exists & (column < classes)
    x = widen(tl.load(x_ptr + row * x_stride + column, mask=inside, other=0.0))
    right = widen(tl.load(x_ptr + row * x_stride + target, mask=used, other=0.0))
    log_sum = tl.load(loss_ptr + row, mask=exists, other=0.0) + right
    share = tl.exp(x - log_sum) - tl.where(column == target, 1.0, 0.0)
    dx = tl.where(used, tl.load(dloss_ptr + row, mask=exists, other=0.0) * share, 0.0)
    tl.store(dx_ptr + row * dx_stride + column, dx, mask=inside)


@tile.jit
def vectors_backward_kernel(
    dloss_ptr,
    x_ptr,
    target_ptr,
    loss_ptr,
    dx_ptr,
    x_stride,
    dx_stride,
    rows,
    classes,
    IGNORED: tl.constexpr,
    VECTOR: tl.constexpr,
    ROWS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Store the gradient of a block of a row, whose stride is that of dx."""
    row = tl.program_id(0).to(tl.int64)
    target, used = target_of(target_ptr, row, True, classes, IGNORED)
    right = widen(tl.load(x_ptr + row * x_stride + target, mask=used, other=0.0))
    log_sum = tl.load(loss_ptr + row) + right
    dloss = tl.load(dloss_ptr + row)
    first, count, place, inside = vectors_of(row, x_stride, classes, VECTOR)
    right_place = target + (row * x_stride - first)
    x_ptr += first
    dx_ptr += first
    column = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    store_share(x_ptr, dx_ptr, column, column < count, log_sum, right_place, dloss, used)
    if tl.program_id(1) == 0:
        store_share(x_ptr, dx_ptr, place, inside, log_sum, right_place, dloss, used)


@tile.jit
def store_share(x_ptr, dx_ptr, column, inside, log_sum, right_place, dloss, used):
    x = widen(tl.load(x_ptr + column, mask=inside, other=0.0))
    share = tl.exp(x - log_sum) - tl.where(column == right_place, 1.0, 0.0)
    tl.store(dx_ptr + column, tl.where(used, dloss * share, 0.0), mask=inside)


@differentiable_by("x", results="loss")
@planned()
def cross_entropy(x: Any, target: Any, ignore_index: int = -100, *, out: Any = None) -> Any:
    """Return the loss of each row of logits `x` (rows x classes), in float32 or float64.

    target: the index of each row's class, int32 or int64; rows whose target is `ignore_index` have
    the loss 0.
    """
    call = Call("cross_entropy")
    logits = call.array("x", x, rank=2)
    rows = logits.rows()
    labels_of(call, target, rows.count, rows.length, ignore_index)
    loss = call.output("out", out, (rows.count,), accumulator(logits.dtype)).contiguous()
    parts, span = parts_of(rows)
    if parts > 1:
        most, total = part_sums(call, x, rows, parts, span)
        launch(shared_cross_entropy_kernel, (rows.count,))(
            *(x, target, most.value, total.value, loss.value, rows.stride, rows.length, parts),
            IGNORED=ignore_index,
            PARTS=tile.next_power_of_2(parts),
            num_warps=1,
            launch_pdl=True,
        )
    elif rows.count:
        kernel: Any = cross_entropy_kernel
        shape = row_tile(call.backend, rows, BLOCK, ELEMENTS, WARPS)
        if rows.length > BLOCK:
            kernel = long_cross_entropy_kernel
            shape["VECTOR"] = vector_of(logits.dtype, rows.stride)
        launch(kernel, (tile.cdiv(rows.count, shape["ROWS"]),))(
            *(x, target, loss.value, rows.stride, rows.count, rows.length),
            IGNORED=ignore_index,
            **shape,
            launch_pdl=True,
        )
    return loss.value


@planned()
def cross_entropy_backward(
    dloss: Any, x: Any, target: Any, loss: Any, ignore_index: int = -100, *, out: Any = None
) -> Any:
    """Return the gradient of `x` from `dloss`, that of each row's loss, and the losses."""
    call = Call("cross_entropy_backward")
    logits = call.array("x", x, rank=2)
    rows = logits.rows()
    call.vectors(rows.count, (accumulator(logits.dtype),), dloss=dloss, loss=loss)
    labels_of(call, target, rows.count, rows.length, ignore_index)
    result = call.output("out", out, logits.shape, logits.dtype)
    if result.size:
        shape = row_tile(call.backend, rows, BLOCK)
        grid = tile.cdiv(rows.count, shape["ROWS"]), tile.cdiv(rows.length, shape["BLOCK"])
        strides = rows.stride, result.rows().stride
        kernel: Any = cross_entropy_backward_kernel
        vector = vector_of(logits.dtype, *strides)
        if vector > 1 and shape["ROWS"] == 1:
            kernel, shape["VECTOR"] = vectors_backward_kernel, vector
        launch(kernel, grid)(
            *(dloss, x, target, loss, result.value),
            *(*strides, rows.count, rows.length),
            IGNORED=ignore_index,
            **shape,
            launch_pdl=True,
        )
    return result.value


def cross_entropy_reference(x: Array, target: Array, ignore_index: int) -> Array:
    """Return the losses in float64."""
    highest = x.max(axis=1, initial=-np.inf)
    log_sum = highest + np.log(np.exp(x - highest[:, None]).sum(axis=1))
    used = target != ignore_index
    right = x[np.arange(len(x)), np.where(used, target, 0)]
    return np.where(used, log_sum - right, 0.0)


def cross_entropy_backward_reference(
    dloss: Array, x: Array, target: Array, ignore_index: int
) -> Array:
    """Return the gradient in float64, from the logits: `loss` is not read."""
    powers = np.exp(x - x.max(axis=1, keepdims=True))
    share = powers / powers.sum(axis=1, keepdims=True)
    share -= np.arange(x.shape[1]) == target[:, None]
    result: Array = np.where(target == ignore_index, 0.0, dloss)[:, None] * share
    return result
