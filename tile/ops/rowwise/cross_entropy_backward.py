"""The gradient of the cross entropy of rows of logits and the index of the right class.

    dx[j] = dloss * (exp(x[j] - s) - (j == target))        s = loss + x[target]

s is the logarithm of the sum of exponentials (cross_entropy.py).
"""

from __future__ import annotations

from typing import Any

import numpy as np

import tile
import tile.language as tl
from tile.ops.core.call import Call, accumulator
from tile.ops.core.call_plans import launch, planned
from tile.ops.core.device_functions import widen
from tile.ops.core.reference import Array
from tile.ops.core.row_tiles import row_tile, rows_of
from tile.ops.core.row_vectors import LINE, vector_of, vectors_of
from tile.ops.core.tables import ANY, Table
from tile.ops.rowwise.labels import labels_of, target_of
from tile.ops.rowwise.part_cross_entropy import part_cross_entropy_backward_kernel, share_of
from tile.ops.rowwise.row_parts import row_parts

BLOCK = 2048  # elements of a program
# Rows that a program holds as several tiles, by their length and the bytes of an element. H200,
# 2026-12-01, us, by blocks of a power of two and so: float16, 65536 x 577 65 and 46, 32768 x 1025
# 59 and 40, 16384 x 2056 60 and 42, x 3000 64 and 53; float32, 16384 x 2056 89 and 66, 8192 x 5000
# 87 and 81, x 9001 160 and 144.
PARTS = Table(
    {(ANY, ANY): {}},
    {
        "nvptx": {
            (512, ANY): {},
            (1023, 2): {"BLOCK": 256, "num_warps": 1},
            (1024, 2): {},
            (1280, 2): {"BLOCK": 256, "num_warps": 1},
            (2048, 2): {},
            (4095, 2): {"BLOCK": 1024, "num_warps": 4},
            (6144, 2): {},
            (8191, 2): {"BLOCK": 1024, "num_warps": 8},
            (ANY, 2): {},
            (1024, 4): {"BLOCK": 512, "num_warps": 2},
            (4096, 4): {"BLOCK": 1024, "num_warps": 4},
            (6144, 4): {"BLOCK": 2048, "num_warps": 4},
            (8191, 4): {"BLOCK": 1024, "num_warps": 8},
            (8192, 4): {},
            (16384, 4): {"BLOCK": 2048, "num_warps": 16},
            (ANY, ANY): {},
        }
    },
)


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
    x = tl.load(x_ptr + column, mask=inside, other=0.0)
    dx = share_of(x, column, log_sum, right_place, dloss, used)
    tl.store(dx_ptr + column, dx, mask=inside)


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
    strides = rows.stride, result.rows().stride
    tiles = PARTS.select(call.backend, rows.length, logits.dtype.itemsize)
    parts = row_parts(call, logits, tiles, *strides, unaligned=tiles) if result.size else {}
    if parts:
        launch(part_cross_entropy_backward_kernel, (rows.count,), dependent=True)(
            *(dloss, x, target, loss, result.value, *strides, rows.length),
            IGNORED=ignore_index,
            **parts,
        )
    elif result.size:
        shape = row_tile(call.backend, rows, BLOCK)
        grid = tile.cdiv(rows.count, shape["ROWS"]), tile.cdiv(rows.length, shape["BLOCK"])
        kernel: Any = cross_entropy_backward_kernel
        vector = vector_of(logits.dtype, *strides, size=LINE)
        if vector > 1 and shape["ROWS"] == 1:
            kernel, shape["VECTOR"] = vectors_backward_kernel, vector
        launch(kernel, grid, dependent=True)(
            *(dloss, x, target, loss, result.value),
            *(*strides, rows.count, rows.length),
            IGNORED=ignore_index,
            **shape,
        )
    return result.value


def cross_entropy_backward_reference(
    dloss: Array, x: Array, target: Array, ignore_index: int
) -> Array:
    """Return the gradient in float64, from the logits: `loss` is not read."""
    powers = np.exp(x - x.max(axis=1, keepdims=True))
    share = powers / powers.sum(axis=1, keepdims=True)
    share -= np.arange(x.shape[1]) == target[:, None]
    result: Array = np.where(target == ignore_index, 0.0, dloss)[:, None] * share
    return result
