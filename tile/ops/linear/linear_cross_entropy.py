"""Cross entropy of a linear layer's results, which are never stored as a whole.

    loss[i] = s[i] - z[i, target[i]]        z = x @ weight.T        s[i] = log sum_j exp(z[i, j])

With a vocabulary, z is many times as large as x. Programs compute tiles of z, and keep the maximum
and the sum of each tile's rows, which a second kernel merges. With `logits` they store z, too, up
to a bounded size: the gradients are a matmul less then.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import tile
import tile.language as tl
from tile.ops.core.autograd import differentiable_by
from tile.ops.core.call import Call, accumulator
from tile.ops.core.call_plans import launch, planned
from tile.ops.core.reference import Array
from tile.ops.linear.configurations import tiles_of
from tile.ops.linear.linear_cross_entropy_backward import linear_cross_entropy_backward
from tile.ops.linear.logits import add_matmul, classes_at_once, log_sums_of, logit_operands
from tile.ops.linear.matmul_tiles import tile_position

ROWS = 64  # of a program that merges


@tile.jit
def logits_kernel(
    x_ptr,
    weight_ptr,
    target_ptr,
    highest_ptr,
    sums_ptr,
    right_ptr,
    logits_ptr,
    rows,
    classes,
    length,
    stored,
    x_strides,
    weight_strides,
    SUMS: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    GROUP: tl.constexpr,
):
    tile_row, tile_column = tile_position(rows, classes, BLOCK_M, BLOCK_N, GROUP)
    row = tile_row * BLOCK_M + tl.arange(0, BLOCK_M)
    column = tile_column * BLOCK_N + tl.arange(0, BLOCK_N)
    z = add_matmul(
        *(x_ptr, weight_ptr, row, column, rows, classes, 0, length, length),
        *(x_strides, weight_strides, tl.zeros((BLOCK_M, BLOCK_N), dtype=SUMS), BLOCK_K),
    )
    if logits_ptr is not None:
        at = row.to(tl.int64)[:, None] * stored + column[None, :]
        inside = (row < rows)[:, None] & (column < stored)[None, :]
        tl.store(logits_ptr + at, z.to(logits_ptr.dtype.element_ty), mask=inside)
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


@differentiable_by(
    "x weight",
    results="loss log_sums logits",
    backward=linear_cross_entropy_backward,
    recording={"logits": True},
    returned=2,
)
@planned()
def linear_cross_entropy(
    x: Any, weight: Any, target: Any, ignore_index: int = -100, logits: bool = False
) -> Any:
    """Return the loss of each row of x @ weight.T, and s of each, in float32 or float64.

    x: rows x length; weight: classes x length, of its type; any strides. target: the index of each
    row's class, int32 or int64; rows whose target is `ignore_index` have the loss 0. With `logits`
    the third result is z in the type of x, of all classes or of the first ones, 2**27 elements at
    most, which `linear_cross_entropy_backward` takes.
    """
    call = Call("linear_cross_entropy")
    source, weights = logit_operands(call, x, weight, target, ignore_index)
    (rows, length), classes = source.shape, weights.shape[0]
    kind = accumulator(source.dtype)
    loss, log_sums, right = (call.new((rows,), kind) for _ in range(3))
    stored = call.new((rows, classes_at_once(rows, classes)), source.dtype) if logits else None
    results = (loss.value, log_sums.value, *((stored.value,) if stored else ()))
    if not rows:
        return results
    config = tiles_of(call.backend, source.dtype, rows, classes, length)
    parts = tile.cdiv(classes, config["BLOCK_N"])
    highest, sums = call.new((parts, rows), kind), call.new((parts, rows), kind)
    launch(logits_kernel, (tile.cdiv(rows, config["BLOCK_M"]) * parts,))(
        *(x, weight, target, highest.value, sums.value, right.value, stored and stored.value),
        *(rows, classes, length, stored.shape[1] if stored else 0),
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
    return results


def linear_cross_entropy_reference(
    x: Array, weight: Array, target: Array, ignore_index: int, logits: bool = False
) -> tuple[Array, ...]:
    """Return the losses and s in float64, and z."""
    z, used = x @ weight.T, target != ignore_index
    sums = log_sums_of(z)
    loss = np.where(used, sums - z[np.arange(len(x)), np.where(used, target, 0)], 0.0)
    return (loss, sums, z) if logits else (loss, sums)
