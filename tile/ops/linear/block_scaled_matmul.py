"""Matrix multiplication of 8-bit numbers with a scale for each block of them.

    out[i, j] = sum over k of a_scale[i, k / 128] * a[i, k] * b_scale[k / 128, j / 128] * b[k, j]

A block of `a`, of activations, is 128 elements of a row; one of `b`, of weights, is 128 x 128, as
in DeepSeek-V3 (arXiv:2412.19437): an outlier costs the precision of its block alone. Each iteration
takes 128 elements along k. Its dot is summed by tensor cores, times the scales, and added to sums
of float32, so the short accumulators that tensor cores have for 8-bit floats hold 128 terms only.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import tile
import tile.language as tl
from tile.ops.core.call import F32, I8, Call
from tile.ops.core.call_plans import launch, planned
from tile.ops.core.reference import Array, wide
from tile.ops.core.tables import ANY, Table
from tile.ops.linear.configurations import tiles
from tile.ops.linear.matmul_tiles import store_tile, tile_position
from tile.ops.training.quantization import F8

BLOCK = 128  # elements of a block along each axis
# By M, N and K. Tiles divide blocks. H200, float8, 4096 cubed, 2026-11-26; the entry for few rows
# is not measured.
TABLE = Table(
    {(16, ANY, ANY): tiles(16, 64, BLOCK), (ANY, ANY, ANY): tiles(64, 64, BLOCK)},
    {
        "nvptx": {
            (64, ANY, ANY): tiles(64, 128, BLOCK),
            (ANY, ANY, ANY): tiles(128, 128, BLOCK, warps=8, stages=4),
        }
    },
)


@tile.jit
def block_scaled_matmul_kernel(
    a_ptr,
    b_ptr,
    a_scale_ptr,
    b_scale_ptr,
    out_ptr,
    M,
    N,
    K,
    a_strides,
    b_strides,
    a_scale_strides,
    b_scale_strides,
    out_strides,
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
    a_tile = a_ptr + (row % M).to(tl.int64)[:, None] * a_strides[0] + inner[None, :] * a_strides[1]
    b_tile = b_ptr + (column % N).to(tl.int64)[None, :] * b_strides[1]
    b_tile += inner[:, None] * b_strides[0]
    a_scales = a_scale_ptr + (row % M).to(tl.int64) * a_scale_strides[0]
    b_scale_ptr += tile_column * BLOCK_N // BLOCK_K * b_scale_strides[1]
    total = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k in range(0, K, BLOCK_K):
        a = tl.load(a_tile, mask=inner[None, :] < K - k, other=0)
        b = tl.load(b_tile, mask=inner[:, None] < K - k, other=0)
        scale = tl.load(a_scales) * tl.load(b_scale_ptr)
        total += tl.dot(a, b, out_dtype=SUMS).to(tl.float32) * scale[:, None]
        a_tile += BLOCK_K * a_strides[1]
        b_tile += BLOCK_K * b_strides[0]
        a_scales += a_scale_strides[1]
        b_scale_ptr += b_scale_strides[0]
    store_tile(total, out_ptr, row, column, M, N, out_strides[0], out_strides[1])


@planned()
def block_scaled_matmul(
    a: Any, b: Any, a_scale: Any, b_scale: Any, dtype: str = "float32", *, out: Any = None
) -> Any:
    """Return the matmul of 8-bit numbers, times the scales of their blocks, as floats.

    a: M x K; b: K x N, both int8 or both float8_e4m3fn; any strides. a_scale: M x K / 128; b_scale:
    K / 128 x N / 128, rounded up, of float32, any strides. dtype: of the result, "float16",
    "bfloat16", "float32" or "float64".

        q, s = tile.ops.quantize_blocks(x)                # 1 x 128 elements of activations
        w, t = tile.ops.quantize_blocks(weight, 128)      # 128 x 128 of a linear layer's weight
        y = tile.ops.block_scaled_matmul(q, w.T, s, t.T, "bfloat16")
    """
    call = Call("block_scaled_matmul")
    left, right = call.matching((I8, F8), a=(a, "M x K"), b=(b, "K x N"))
    (m, k), n = left.shape, right.shape[1]
    blocks = tile.cdiv(k, BLOCK)
    scales = [
        call.array(name, scale, dtypes=(F32,), rank=2, shape=shape)
        for name, scale, shape in (
            ("a_scale", a_scale, (m, blocks)),
            ("b_scale", b_scale, (blocks, tile.cdiv(n, BLOCK))),
        )
    ]
    kind = call.float_type("dtype", dtype)
    result = call.output("out", out, (m, n), kind)
    if result.size:
        config = TABLE.select(call.backend, m, n, k)
        grid = (tile.cdiv(m, config["BLOCK_M"]) * tile.cdiv(n, config["BLOCK_N"]),)
        launch(block_scaled_matmul_kernel, grid)(
            *(a, b, a_scale, b_scale, result.value, m, n, k, left.strides, right.strides),
            *(*(scale.strides for scale in scales), result.strides),
            SUMS=tl.int32 if left.dtype == I8 else tl.float32,
            **config,
        )
    return result.value


def block_scaled_matmul_reference(a: Array, b: Array, a_scale: Array, b_scale: Array) -> Array:
    """Return the result in float64, of numbers times their scales."""
    a, b, a_scale, b_scale = wide(a, b, a_scale, b_scale)
    k, n = b.shape
    columns = np.repeat(b_scale, BLOCK, axis=1)[:, :n]
    result: Array = (a * np.repeat(a_scale, BLOCK, axis=1)[:, :k]) @ (
        b * np.repeat(columns, BLOCK, axis=0)[:k]
    )
    return result
