"""A matmul by weights of 4 bits that are converted to floats first, for many rows.

Each weight would be converted by many programs, so parts of the weights are converted once, to
arrays that stay in the L2 cache. While programs multiply by a part, they convert the next one
(int4_loop.py).
"""

from __future__ import annotations

from typing import Any

import tile
import tile.language as tl
from tile.ops.core.call import Call, Operand
from tile.ops.core.call_plans import launch
from tile.ops.linear.balanced_tiles import COLUMNS, INNER, ROWS
from tile.ops.linear.configurations import PROGRAMS, tiles, tiles_of
from tile.ops.linear.int4_loop import multiply_and_expand
from tile.ops.linear.int4_weights import SHIFT, expand_int4
from tile.ops.linear.matmul_tiles import multiply_tiles, store_tile, tile_position
from tile.ops.linear.strided import INT32_LIMIT

# Bytes of these weights that are expanded at a time, by backend: 8192 x 8192 with 2048 rows took
# 402 us so on an H200, and 415 us as a whole (2026-11-26).
EXPANDED_BYTES = {"nvptx": 2**25}
# By columns of a tile of 128 rows, its time for each of them, relative to that of 256; and that of
# expanding the weights of a column, which takes 5 us for 1024 of 8192 weights.
TIMES = {**COLUMNS, 232: 1.03, 240: 1.03, 248: 1.03}
EXPANSION = 0.0136
# 377 us with four stages, 396 with three, and as separate kernels with either (2026-11-30).
STAGES = {"nvptx": 4}


@tile.jit
def expanded_matmul_kernel(
    a_ptr,
    weights_ptr,
    out_ptr,
    expansion,
    M,
    N,
    K,
    a_row,
    out_row,
    first,
    EVEN: tl.constexpr,
    WIDE: tl.constexpr,
    WEIGHTS: tl.constexpr,
    ROWS: tl.constexpr,
    CONTIGUOUS: tl.constexpr,
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
    if expansion is None:
        total = multiply_tiles(
            *(a_tile, b_tile, inner, 0, K, K, 1, 1, total, "ieee", tl.float32, EVEN, BLOCK_K)
        )
    else:
        arguments = (*expansion, WEIGHTS, ROWS, CONTIGUOUS, BLOCK_K)
        total = multiply_and_expand(a_tile, b_tile, total, K, *arguments)
    total *= 1.0 / SHIFT
    tl.assume(first >= 0)
    store_tile(total, out_ptr, row, first + column, M, out_row, out_row, 1)


def parts_of(call: Call, a: Operand, n: int) -> tuple[int, dict[str, Any]]:
    """Return the rows of weights that are expanded at a time, and the configuration of the matmul.

    A part has about as many tiles as the device runs programs at a time, or a multiple of these,
    even if it has more bytes then.
    """
    m, k = a.shape
    size = k * a.dtype.itemsize
    limit = max(1, EXPANDED_BYTES.get(call.backend, n * size) // size)
    config = dict(tiles_of(call.backend, a.dtype, m, min(n, limit), k))
    if limit >= n:
        return n, config
    if call.backend in PROGRAMS:
        across = max(1, PROGRAMS[call.backend] // tile.cdiv(m, ROWS))
        config = tiles(ROWS, balanced_columns(n, across), INNER, warps=8)
    across = max(1, PROGRAMS.get(call.backend, 1) // tile.cdiv(m, config["BLOCK_M"]))
    once = across * config["BLOCK_N"]
    return min(n, max(1, limit // once) * once), config


def balanced_columns(n: int, across: int) -> int:
    """Return the columns of tiles of which `across` are multiplied at a time, for the least time.

    That is the time of all tiles, one after the other, and of the weights that are expanded first.
    """

    def cost(columns: int) -> float:
        return columns * (tile.cdiv(n, across * columns) * TIMES[columns] + EXPANSION * across)

    return min(TIMES, key=cost)


def matmul_by_expansion(
    call: Call, a: Operand, packed: Operand, scales: Operand, result: Operand
) -> None:
    """Write the matmul of `a` and weights that are converted to its type first.

    Parts of the weights are converted to two arrays in turn, all but the first by the matmul of the
    part before, if steps along K divide the halves of groups that bytes have.
    """
    (m, k), n, group = a.shape, packed.shape[0], a.shape[1] // scales.shape[1]
    part, config = parts_of(call, a, n)
    meanwhile = part < n and group // 2 % config["BLOCK_K"] == 0
    if meanwhile:
        config["num_stages"] = STAGES.get(call.backend, config["num_stages"])
    columns = tile.cdiv(part, config["BLOCK_N"]) * config["BLOCK_N"]
    arrays = [call.new((columns, k), a.dtype) for _ in range(1 + meanwhile)]
    for number, first in enumerate(range(0, n, part)):
        rows, left = min(part, n - first), max(0, min(part, n - first - part))
        weights = arrays[number % len(arrays)]
        if number == 0 or not meanwhile:
            expand_int4(packed, scales, weights, first, rows)
        count = tile.cdiv(m, config["BLOCK_M"]) * tile.cdiv(rows, config["BLOCK_N"])
        expansion = None
        if meanwhile and left:
            expansion = (
                *(arrays[(number + 1) % 2].value, packed.value, scales.value, first + rows, left),
                *(*packed.strides[:2], *scales.strides),
            )
        launch(expanded_matmul_kernel, (count,))(
            *(a.value, weights.value, result.value, expansion, m, rows, k, a.strides[0], n, first),
            EVEN=k % config["BLOCK_K"] == 0,
            WIDE=max(m * a.strides[0], columns * k) >= INT32_LIMIT,
            WEIGHTS=group,
            ROWS=tile.next_power_of_2(tile.cdiv(max(1, left), count)),
            CONTIGUOUS=packed.strides[0] == group // 2 and scales.strides[0] == 1,
            launch_pdl=not meanwhile,
            **config,
        )
