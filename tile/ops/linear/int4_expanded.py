"""A matmul by weights of 4 bits that are converted to floats first, for many rows.

Each weight would be converted by many programs, so that a kernel of its own does it once: parts of
the weights are converted to the same array, which stays in the L2 cache.
"""

from __future__ import annotations

import tile
import tile.language as tl
from tile.ops.core.call import Call, Operand
from tile.ops.core.call_plans import launch
from tile.ops.linear.configurations import tiles_of
from tile.ops.linear.int4_weights import SHIFT, expand_int4
from tile.ops.linear.matmul_tiles import multiply_tiles, store_tile, tile_position
from tile.ops.linear.strided import INT32_LIMIT

# Bytes of these weights that are expanded at a time, by backend: 8192 x 8192 with 2048 rows takes
# 402 us so on an H200, and 415 us as a whole (2026-11-26). Dependent launches save 7 us.
EXPANDED_BYTES = {"nvptx": 2**25}


@tile.jit
def expanded_matmul_kernel(
    a_ptr,
    weights_ptr,
    out_ptr,
    M,
    N,
    K,
    a_row,
    out_row,
    first,
    EVEN: tl.constexpr,
    WIDE: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    GROUP: tl.constexpr,
):
    tile_row, tile_column = tile_position(M, N, BLOCK_M, BLOCK_N, GROUP)
    row = tile_row * BLOCK_M + tl.arange(0, BLOCK_M)
    column = tile_column * BLOCK_N + tl.arange(0, BLOCK_N)
    a_rows, b_columns = (row % M)[:, None], column[None, :]
    if WIDE:
        a_rows, b_columns = a_rows.to(tl.int64), b_columns.to(tl.int64)
    inner = tl.arange(0, BLOCK_K)
    a_tile = a_ptr + a_rows * a_row + inner[None, :]
    # Tiles fill the array of weights; the last part ends with the result.
    b_tile = weights_ptr + inner[:, None] + b_columns * K
    total = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    total = multiply_tiles(
        *(a_tile, b_tile, inner, 0, K, K, 1, 1, total, "ieee", tl.float32, EVEN, BLOCK_K)
    )
    total *= 1.0 / SHIFT
    tl.assume(first >= 0)
    store_tile(total, out_ptr, row, first + column, M, out_row, out_row, 1)


def matmul_by_expansion(
    call: Call, a: Operand, packed: Operand, scales: Operand, result: Operand
) -> None:
    """Write the matmul of `a` and weights that are converted to its type first.

    Parts of the weights are converted to the same array, which stays in the L2 cache.
    """
    (m, k), n = a.shape, packed.shape[0]
    size = n * k * a.dtype.itemsize
    part = tile.cdiv(n, tile.cdiv(size, EXPANDED_BYTES.get(call.backend, size)))
    config = {**tiles_of(call.backend, a.dtype, m, part, k), "launch_pdl": True}
    part = tile.cdiv(part, config["BLOCK_N"]) * config["BLOCK_N"]
    weights = call.new((part, k), a.dtype)
    for first in range(0, n, part):
        rows = min(part, n - first)
        expand_int4(packed, scales, weights, first, rows)
        count = tile.cdiv(m, config["BLOCK_M"]) * tile.cdiv(rows, config["BLOCK_N"])
        launch(expanded_matmul_kernel, (count,))(
            *(a.value, weights.value, result.value, m, rows, k, a.strides[0], n, first),
            EVEN=k % config["BLOCK_K"] == 0,
            WIDE=max(m * a.strides[0], part * k) >= INT32_LIMIT,
            **config,
        )
