"""Cross entropy of rows of logits and the index of the right class.

    loss = s - x[target]        s = log sum_j exp(x[j]), by the maximum m: m + log sum exp(x[j] - m)

Probabilities are never stored. A row, of a vocabulary, is long: a program goes over it in blocks
with a running maximum and sum (running_sums.py) and reads the logits once. The gradient needs s,
which is loss + x[target]: nothing else is kept for it.
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
from tile.ops.rowwise.cross_entropy_backward import cross_entropy_backward
from tile.ops.rowwise.labels import labels_of, target_of
from tile.ops.rowwise.part_cross_entropy import part_cross_entropy_kernel
from tile.ops.rowwise.row_parts import row_parts
from tile.ops.rowwise.running_sums import (
    part_sums,
    sum_of_blocks,
    sum_of_parts,
    with_block,
)

BLOCK = 8192  # elements of an iteration
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
# Rows that a program holds as several tiles, little longer than a power of two: by their length and
# the bytes of an element. H200, 2026-12-01, us, as one tile and so: float16, 32768 x 1025 45 and
# 23, 16384 x 2056 34 and 27, x 3000 34 and 29, 8192 x 5000 30 and 25; float32, 16384 x 2056 40 and
# 32.
PARTS = Table(
    {(ANY, ANY): {}},
    {
        "nvptx": {
            (1024, ANY): {},
            (1280, 2): {"BLOCK": 256, "num_warps": 1},
            (2048, ANY): {},
            (4096, 2): {"BLOCK": 1024, "num_warps": 4},
            (2560, 4): {"BLOCK": 1024, "num_warps": 4},
            (6144, 2): {"BLOCK": 2048, "num_warps": 4},
            (ANY, ANY): {},
        }
    },
)


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
    """Store the loss of a row from the maxima and sums of its parts (running_sums.py)."""
    row = tl.program_id(0).to(tl.int64)
    target, used = target_of(target_ptr, row, True, classes, IGNORED)
    most, total = sum_of_parts(most_ptr, total_ptr, row, parts, PARTS)
    right = widen(tl.load(x_ptr + row * stride + target, mask=used, other=0.0))
    tl.store(loss_ptr + row, tl.where(used, most + tl.log(total) - right, 0.0))


@differentiable_by("x", results="loss", backward=cross_entropy_backward)
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
    tiles = PARTS.select(call.backend, rows.length, logits.dtype.itemsize)
    row_tiles: dict[str, Any] = {}
    if rows.count and parts == 1:
        row_tiles = row_parts(call, logits, tiles, rows.stride, unaligned=tiles)
    if row_tiles:
        launch(part_cross_entropy_kernel, (rows.count,), dependent=True)(
            *(x, target, loss.value, rows.stride, rows.length), IGNORED=ignore_index, **row_tiles
        )
    elif parts > 1:
        most, total = part_sums(call, x, rows, parts, span)
        launch(shared_cross_entropy_kernel, (rows.count,), dependent=True)(
            *(x, target, most.value, total.value, loss.value, rows.stride, rows.length, parts),
            IGNORED=ignore_index,
            PARTS=tile.next_power_of_2(parts),
            num_warps=1,
        )
    elif rows.count:
        kernel: Any = cross_entropy_kernel
        shape = row_tile(call.backend, rows, BLOCK, ELEMENTS, WARPS)
        if rows.length > BLOCK:
            kernel = long_cross_entropy_kernel
            shape["VECTOR"] = vector_of(logits.dtype, rows.stride)
        launch(kernel, (tile.cdiv(rows.count, shape["ROWS"]),), dependent=True)(
            *(x, target, loss.value, rows.stride, rows.count, rows.length),
            IGNORED=ignore_index,
            **shape,
        )
    return loss.value


def cross_entropy_reference(x: Array, target: Array, ignore_index: int) -> Array:
    """Return the losses in float64."""
    highest = x.max(axis=1, initial=-np.inf)
    log_sum = highest + np.log(np.exp(x - highest[:, None]).sum(axis=1))
    used = target != ignore_index
    right = x[np.arange(len(x)), np.where(used, target, 0)]
    return np.where(used, log_sum - right, 0.0)
