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
from tile.ops.core.tables import ANY, Table
from tile.ops.rowwise.labels import labels_of
from tile.ops.rowwise.softmax_kernels import part_sums, row_sum

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
    for start in range(BLOCK, classes, BLOCK):
        inside = exists & (start + column < classes)
        x = widen(tl.load(logits + start + column, inside, -float("inf")))
        higher = tl.maximum(highest, tl.max(x, axis=1, keep_dims=True))
        origin = tl.where(higher == -float("inf"), 0.0, higher)
        more = tl.sum(tl.exp(x - origin), axis=1, keep_dims=True)
        total = total * tl.exp(highest - origin) + more
        highest = higher
    right = widen(tl.load(logits + target, mask=used, other=0.0))
    loss = tl.where(used, highest + tl.log(total) - right, 0.0)
    tl.store(loss_ptr + row, loss, mask=exists)


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
    most, total = row_sum(most_ptr, total_ptr, row, parts, PARTS)
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
        )
    elif rows.count:
        shape = row_tile(call.backend, rows, BLOCK, ELEMENTS, WARPS)
        launch(cross_entropy_kernel, (tile.cdiv(rows.count, shape["ROWS"]),))(
            *(x, target, loss.value, rows.stride, rows.count, rows.length),
            IGNORED=ignore_index,
            **shape,
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
        launch(cross_entropy_backward_kernel, grid)(
            *(dloss, x, target, loss, result.value),
            *(rows.stride, result.rows().stride, rows.count, rows.length),
            IGNORED=ignore_index,
            **shape,
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
