"""Matrix multiplication of 8-bit numbers whose rows and columns have scales.

    out[i, j] = a_scale[i] * b_scale[j] * sum over k of a[i, k] * b[k, j]

Operands are int8, summed in int32, or float8_e4m3fn, summed in float32: `quantize` makes them, with
a scale for each row. Scales do not depend on k, so they multiply the finished sums once. With b as
columns that are contiguous, as the transpose of quantized rows has them, tensor cores take both
operands as they lie in memory.
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

import tile
import tile.language as tl
from tile.ops.core.call import F32, I8, Call
from tile.ops.core.call_plans import launch, planned
from tile.ops.core.reference import Array, wide
from tile.ops.core.tables import ANY, Table
from tile.ops.linear.configurations import PORTABLE, tiles
from tile.ops.linear.matmul_tiles import tile_position

F8 = np.dtype(ml_dtypes.float8_e4m3fn)
# By M, N and K. H200, 4096 and 8192, 2026-11-21 (docs/results/gpu.md); smaller sizes not measured.
TABLE = Table(
    PORTABLE,
    {
        "nvptx": {
            (64, ANY, ANY): tiles(64, 128, 128),
            (1024, 1024, ANY): tiles(64, 128, 128, stages=4),
            (ANY, ANY, ANY): tiles(128, 256, 128, warps=8),
        }
    },
)


@tile.jit
def scaled_matmul_kernel(
    a_ptr,
    b_ptr,
    a_scale_ptr,
    b_scale_ptr,
    out_ptr,
    M,
    N,
    K,
    a_row,
    a_inner,
    b_inner,
    b_column,
    out_row,
    out_column,
    SUMS: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    GROUP: tl.constexpr,
):
    tile_row, tile_column = tile_position(M, N, BLOCK_M, BLOCK_N, GROUP)
    row = tile_row * BLOCK_M + tl.arange(0, BLOCK_M)
    column = tile_column * BLOCK_N + tl.arange(0, BLOCK_N)
    inner = tl.arange(0, BLOCK_K)
    a_tile = a_ptr + (row % M).to(tl.int64)[:, None] * a_row + inner[None, :] * a_inner
    b_tile = b_ptr + inner[:, None] * b_inner + (column % N).to(tl.int64)[None, :] * b_column
    total = tl.zeros((BLOCK_M, BLOCK_N), dtype=SUMS)
    for k in range(0, K, BLOCK_K):
        a = tl.load(a_tile, mask=inner[None, :] < K - k, other=0)
        b = tl.load(b_tile, mask=inner[:, None] < K - k, other=0)
        total = tl.dot(a, b, total, out_dtype=SUMS)
        a_tile += BLOCK_K * a_inner
        b_tile += BLOCK_K * b_inner
    scaled = total.to(tl.float32) * tl.load(a_scale_ptr + row % M)[:, None]
    scaled = scaled * tl.load(b_scale_ptr + column % N)[None, :]
    out = out_ptr + row.to(tl.int64)[:, None] * out_row + column[None, :] * out_column
    inside = (row < M)[:, None] & (column < N)[None, :]
    tl.store(out, scaled.to(out_ptr.dtype.element_ty), mask=inside)


@planned()
def scaled_matmul(
    a: Any, b: Any, a_scale: Any, b_scale: Any, dtype: str = "float32", *, out: Any = None
) -> Any:
    """Return the matmul of 8-bit numbers, times the scales of rows and columns, as floats.

    a: M x K; b: K x N, both int8 or both float8_e4m3fn; any strides. a_scale, b_scale: M and N
    elements of float32. dtype: of the result, "float16", "bfloat16", "float32" or "float64".

        q, s = tile.ops.quantize(x)                       # rows of activations
        w, t = tile.ops.quantize(weight)                  # rows of a linear layer's weight
        y = tile.ops.scaled_matmul(q, w.T, s, t, "float16")
    """
    call = Call("scaled_matmul")
    left, right = call.matching((I8, F8), a=(a, "M x K"), b=(b, "K x N"))
    (m, k), n = left.shape, right.shape[1]
    call.vectors(m, (F32,), a_scale=a_scale)
    call.vectors(n, (F32,), b_scale=b_scale)
    kind = call.float_type("dtype", dtype)
    result = call.output("out", out, (m, n), kind)
    if result.size:
        config = TABLE.select(call.backend, m, n, k)
        grid = (tile.cdiv(m, config["BLOCK_M"]) * tile.cdiv(n, config["BLOCK_N"]),)
        launch(scaled_matmul_kernel, grid)(
            *(a, b, a_scale, b_scale, result.value, m, n, k),
            *(*left.strides, *right.strides, *result.strides),
            SUMS=tl.int32 if left.dtype == I8 else tl.float32,
            **config,
        )
    return result.value


def scaled_matmul_reference(a: Array, b: Array, a_scale: Array, b_scale: Array) -> Array:
    """Return the result in float64."""
    a, b, a_scale, b_scale = wide(a, b, a_scale, b_scale)
    result: Array = a @ b * a_scale[:, None] * b_scale
    return result
