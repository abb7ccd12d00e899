"""Softmax of the rows of an array, forward and backward.

    y[i] = exp(x[i] - m) / sum_j exp(x[j] - m)          m = max_j x[j], so that exp cannot overflow
    dx[i] = y[i] * (dy[i] - sum_j dy[j] * y[j])

The limit is memory: a row is read once and written once. Up to `LONGEST` elements stay in registers
between both. A longer row is read twice: the first pass keeps a running maximum and a running sum,
which shrinks by exp(old maximum - new maximum) whenever the maximum grows (Milakov and Gimelshein,
arXiv:1805.02867); the second computes the quotients.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import tile
import tile.language as tl
from tile.ops.core.autograd import differentiable_by
from tile.ops.core.call import Call
from tile.ops.core.call_plans import launch, planned
from tile.ops.core.device_functions import widen
from tile.ops.core.reference import Array
from tile.ops.core.row_launch import launch_rows
from tile.ops.core.tables import ANY, Table
from tile.ops.rowwise.rows_backward import rows_backward_kernel

LONGEST = 16384  # elements of a row in registers: 64 for each of 8 warps' 256 threads
# By the length of rows. H200, float32, 4096 rows, 2026-11-21 (docs/results/gpu.md).
TABLE = Table(
    {(1024,): {"ROWS": 4}, (ANY,): {"ROWS": 1}},
    {
        "nvptx": {
            (256,): {"ROWS": 2, "num_warps": 2},
            (781,): {"ROWS": 2, "num_warps": 4},
            (1024,): {"ROWS": 2, "num_warps": 2},
            (4096,): {"ROWS": 1, "num_warps": 4},
            (ANY,): {"ROWS": 1, "num_warps": 8},
        }
    },
)


@tile.jit
def softmax_kernel(
    x_ptr, y_ptr, x_stride, y_stride, rows, length, ROWS: tl.constexpr, BLOCK: tl.constexpr
):
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)[:, None]
    column = tl.arange(0, BLOCK)[None, :]
    inside = (row < rows) & (column < length)
    # Elements past the end of a row do not change its maximum, and exp makes them 0.
    x = widen(tl.load(x_ptr + row * x_stride + column, mask=inside, other=-float("inf")))
    # A row of -inf alone has no softmax: -inf - -inf is NaN, as in NumPy and torch.
    powers = tl.exp(x - tl.max(x, axis=1, keep_dims=True))
    y = powers / tl.sum(powers, axis=1, keep_dims=True)
    tl.store(y_ptr + row * y_stride + column, y, mask=inside)


@tile.jit
def long_softmax_kernel(x_ptr, y_ptr, x_stride, y_stride, length, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    column = tl.arange(0, BLOCK)
    highest = widen(tl.load(x_ptr + row * x_stride + column))  # a maximum for each lane
    total = tl.full((BLOCK,), 1.0, highest.dtype)
    for start in range(BLOCK, length, BLOCK):
        inside = start + column < length
        x = widen(tl.load(x_ptr + row * x_stride + start + column, inside, -float("inf")))
        higher = tl.maximum(highest, x)
        # Where both are -inf, nothing was summed, and their difference would be NaN.
        total = total * tl.exp(tl.where(highest == higher, 0.0, highest - higher))
        total += tl.exp(tl.where(x == higher, 0.0, x - higher))
        highest = higher
    most = tl.max(highest, axis=0)
    scale = 1.0 / tl.sum(total * tl.exp(highest - most), axis=0)
    for start in range(0, length, BLOCK):
        inside = start + column < length
        x = widen(tl.load(x_ptr + row * x_stride + start + column, inside))
        tl.store(y_ptr + row * y_stride + start + column, tl.exp(x - most) * scale, mask=inside)


@tile.jit
def weighted(dy, y):
    return dy * y


@tile.jit
def softmax_gradient(dy, y, total):
    return y * (dy - total)


@differentiable_by("x", results="y")
@planned()
def softmax(x: Any, *, out: Any = None) -> Any:
    """Return the softmax along the last axis of `x`, of any float type, in its type.

    out: an array for the result, of the shape and dtype of `x`; it may be `x` itself.
    """
    call = Call("softmax")
    source = call.array("x", x)
    result = call.output("out", out, source.shape, source.dtype, in_place=("x",))
    rows, y = source.rows(), result.rows()
    if result.size == 0:
        return result.value
    strides = (rows.stride, y.stride)
    if rows.length > LONGEST:
        launch(long_softmax_kernel, (rows.count,))(
            x, result.value, *strides, rows.length, BLOCK=LONGEST
        )
        return result.value
    config = TABLE.select(call.backend, rows.length)
    block = tile.next_power_of_2(rows.length)
    grid = (tile.cdiv(rows.count, config["ROWS"]),)
    launch(softmax_kernel, grid)(
        x, result.value, *strides, rows.count, rows.length, BLOCK=block, **config
    )
    return result.value


@planned()
def softmax_backward(dy: Any, y: Any, *, out: Any = None) -> Any:
    """Return the gradient of x from `dy`, that of the result, and `y`, the result."""
    return launch_rows(
        *("softmax_backward", rows_backward_kernel, {"dy": dy, "y": y}, LONGEST, out),
        TERM=weighted,
        GRADIENT=softmax_gradient,
        LONG=True,
    )


def softmax_reference(x: Array) -> Array:
    """Return the softmax in float64."""
    powers = np.exp(x - x.max(axis=-1, keepdims=True, initial=-np.inf))
    result: Array = powers / powers.sum(axis=-1, keepdims=True)
    return result


def softmax_backward_reference(dy: Array, y: Array) -> Array:
    """Return the gradient in float64."""
    result: Array = y * (dy - (dy * y).sum(axis=-1, keepdims=True))
    return result
