"""Weights of 4 bits times tiles of rows, by programs that convert the weights of their tiles.

    out[m, n] = sum over k of scale[n, k // group] * (q[n, k] - 8) * a[m, k]

A program computes the transpose of its tile, whose columns are up to 256 rows of a, so that few
programs convert the same weights. While tensor cores multiply by the weights of an iteration,
threads convert those of the next one: an iteration has one dot, which stays in flight into the next
one. Weights are scaled in the type of a, times 2 ** 4 (for float16, scales are
2 ** -18 to 2 ** 8). Programs share the inner axis where a result has few tiles (splits.py).
"""

from __future__ import annotations

import tile
import tile.language as tl
from tile.ops.core.call import F32, Call, Operand
from tile.ops.core.call_plans import launch
from tile.ops.linear.int4_conversion import weights_of
from tile.ops.linear.int4_loop import part_of_weights
from tile.ops.linear.int4_tile_sizes import tiles_and_splits
from tile.ops.linear.int4_weights import GROUPS, SHIFT
from tile.ops.linear.matmul_tiles import column_parts, store_tile, tile_position
from tile.ops.linear.splits import add_contiguous_splits
from tile.ops.linear.strided import INT32_LIMIT


@tile.jit
def int4_matmul_kernel(
    a_ptr,
    packed_ptr,
    scale_ptr,
    out_ptr,
    M,
    N,
    K,
    a_row,
    weight_row,
    weight_group,
    scale_row,
    scale_group,
    span,
    WEIGHTS: tl.constexpr,
    WIDE: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    GROUP: tl.constexpr,
):
    """WEIGHTS: of a group. BLOCK_K: of a step, a group or a part of its half with low or high bits.

    span: of a program.
    """
    WHOLE: tl.constexpr = BLOCK_K == WEIGHTS
    BYTES: tl.constexpr = BLOCK_K // 2 if WHOLE else BLOCK_K
    ELEMENT: tl.constexpr = a_ptr.dtype.element_ty
    tile_row, tile_column = tile_position(M, N, BLOCK_M, BLOCK_N, GROUP)
    begin = tl.program_id(1) * span
    tl.assume(begin >= 0)
    # Extents of tiles are powers of two; wgmma computes only those columns that are stored.
    ROWS: tl.constexpr = 1 << (BLOCK_M - 1).bit_length()
    row = tile_row * BLOCK_M + tl.arange(0, ROWS)
    column = tile_column * BLOCK_N + tl.arange(0, BLOCK_N)
    a_rows = (row % M)[:, None]
    if WIDE:
        a_rows = a_rows.to(tl.int64)
    a_tile = a_ptr + a_rows * a_row + (begin + tl.arange(0, BLOCK_K))[None, :]
    source = (column % N).to(tl.int64)
    weights = packed_ptr + source[:, None] * weight_row + tl.arange(0, BYTES)[None, :]
    scales = scale_ptr + source * scale_row
    total = tl.zeros((BLOCK_N, ROWS), dtype=tl.float32)
    end = min(K, begin + span)
    for step in range(0, end - begin, BLOCK_K):
        k = begin + step
        group = tl.cast(k // WEIGHTS, tl.int64)
        at = group * weight_group
        if not WHOLE:
            at += tl.multiple_of(k % (WEIGHTS // 2), 16)  # it begins at a vector
        packed = tl.load(weights + at)
        multiplier = (tl.load(scales + group * scale_group) * SHIFT)[:, None]
        if WHOLE:
            low, high = weights_of(packed, multiplier, ELEMENT)
            w = tl.join(low, high).permute(0, 2, 1).reshape(BLOCK_N, BLOCK_K)
        else:
            shift = k % WEIGHTS // (WEIGHTS // 2) * 4
            w = part_of_weights(packed, shift, multiplier, ELEMENT)
        total = tl.dot(w, tl.trans(tl.load(a_tile)), total)
        a_tile += BLOCK_K
    out = out_ptr + tl.program_id(1).to(tl.int64) * M * N
    totals = column_parts(total, BLOCK_M)
    first = tile_row * BLOCK_M
    for i in tl.static_range(len(totals)):
        part = tl.trans(totals[i] * (1.0 / SHIFT))
        row = first + tl.arange(0, part.shape[0])
        store_tile(part, out, row, column, M, N, N, 1)
        first += part.shape[0]


def int4_tiles(
    call: Call, a: Operand, packed: Operand, scales: Operand, result: Operand, splits: int | None
) -> None:
    """Write the matmul of `a` and packed weights to `result`."""
    (m, k), n, groups = a.shape, packed.shape[0], scales.shape[1]
    group = k // max(1, groups) or GROUPS[0]
    config, wanted = tiles_and_splits(call, a.dtype, (m, n, k), group, splits)
    count = tile.cdiv(m, config["BLOCK_M"]) * tile.cdiv(n, config["BLOCK_N"])
    steps = tile.cdiv(k, config["BLOCK_K"])
    span = max(1, tile.cdiv(steps, wanted))
    splits = max(1, tile.cdiv(steps, span))
    parts = result if splits == 1 else call.new((splits, m, n), F32)
    launch(int4_matmul_kernel, (count, splits))(
        *(a.value, packed.value, scales.value, parts.value),
        *(m, n, k, a.strides[0], *packed.strides[:2], *scales.strides, span * config["BLOCK_K"]),
        WEIGHTS=group,
        WIDE=m * a.strides[0] >= INT32_LIMIT,
        **config,
    )
    if splits > 1:
        add_contiguous_splits(call, parts, result)
