"""Weights of 4 bits times tiles of rows, by programs that convert the weights of their tiles.

    out[m, n] = sum over k of scale[n, k // group] * (q[n, k] - 8) * a[m, k]

With few rows of a, the sums of a group are scaled in float32. With more, that would wait for the
matmul of each group: weights are scaled in the type of a, times 2 ** 4 (for float16, scales are
2 ** -18 to 2 ** 8). Programs share the inner axis where a result has few tiles (splits.py).
"""

from __future__ import annotations

import tile
import tile.language as tl
from tile.ops.core.call import F32, Call, Operand
from tile.ops.core.call_plans import launch
from tile.ops.core.tables import ANY, Table
from tile.ops.linear.configurations import tiles
from tile.ops.linear.int4_conversion import weights_of
from tile.ops.linear.int4_weights import GROUPS, SHIFT
from tile.ops.linear.matmul_tiles import tile_position
from tile.ops.linear.splits import add_contiguous_splits, splits_of

# By M. WEIGHTS_LEFT: a program computes the transpose of its tile, so that weights are the operand
# that the tensor cores take from registers. Not measured.
TABLE = Table(
    {(ANY,): {**tiles(16, 32, 32), "WEIGHTS_LEFT": False, "SCALE_SUMS": True}},
    {
        "nvptx": {
            (16,): {**tiles(16, 64, 128, stages=4), "WEIGHTS_LEFT": True, "SCALE_SUMS": True},
            (64,): {**tiles(64, 64, 128), "WEIGHTS_LEFT": True, "SCALE_SUMS": True},
            (ANY,): {**tiles(256, 128, 128, 8), "WEIGHTS_LEFT": True, "SCALE_SUMS": False},
        }
    },
)
RESIDENT = 4  # programs with few rows that one multiprocessor runs at a time


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
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    GROUP: tl.constexpr,
    WEIGHTS_LEFT: tl.constexpr,
    SCALE_SUMS: tl.constexpr,
):
    tile_row, tile_column = tile_position(M, N, BLOCK_M, BLOCK_N, GROUP)
    split = tl.program_id(1)
    row = tile_row * BLOCK_M + tl.arange(0, BLOCK_M)
    column = tile_column * BLOCK_N + tl.arange(0, BLOCK_N)
    byte = tl.arange(0, BLOCK_K // 2)
    a_rows = a_ptr + (row % M).to(tl.int64)[:, None] * a_row + byte[None, :]
    weights = packed_ptr + (column % N).to(tl.int64)[:, None] * weight_row + byte[None, :]
    scales = scale_ptr + (column % N).to(tl.int64) * scale_row
    total = tl.zeros(
        (BLOCK_N if WEIGHTS_LEFT else BLOCK_M, BLOCK_M if WEIGHTS_LEFT else BLOCK_N),
        dtype=tl.float32,
    )
    for k in range(split * span, min(K, (split + 1) * span), BLOCK_K):
        group = tl.cast(k // WEIGHTS, tl.int64)
        scale = tl.load(scales + group * scale_group)
        multiplier = None if SCALE_SUMS else (scale * SHIFT)[:, None]
        # A part of a group begins at a vector.
        packed = weights + group * weight_group + tl.multiple_of(k % WEIGHTS // 2, 16)
        low, high = weights_of(tl.load(packed), multiplier, a_ptr.dtype.element_ty)
        # The elements of a group in the low bits, and those in the high bits.
        first = k - k % WEIGHTS // 2 if BLOCK_K < WEIGHTS else k
        a_low, a_high = tl.load(a_rows + first), tl.load(a_rows + first + WEIGHTS // 2)
        if not SCALE_SUMS:
            if WEIGHTS_LEFT:
                total = tl.dot(low, tl.trans(a_low), total)
                total = tl.dot(high, tl.trans(a_high), total)
            else:
                total = tl.dot(a_low, tl.trans(low), total)
                total = tl.dot(a_high, tl.trans(high), total)
        elif WEIGHTS_LEFT:
            part = tl.dot(high, tl.trans(a_high), tl.dot(low, tl.trans(a_low)))
            total += part * scale[:, None]
        else:
            part = tl.dot(a_high, tl.trans(high), tl.dot(a_low, tl.trans(low)))
            total += part * scale[None, :]
    if not SCALE_SUMS:
        total *= 1.0 / SHIFT
    if WEIGHTS_LEFT:
        total = tl.trans(total)
    at = (split.to(tl.int64) * M + row)[:, None] * N + column[None, :]
    inside = (row < M)[:, None] & (column < N)[None, :]
    tl.store(out_ptr + at, total.to(out_ptr.dtype.element_ty), mask=inside)


def int4_tiles(
    call: Call, a: Operand, packed: Operand, scales: Operand, result: Operand, splits: int | None
) -> None:
    """Write the matmul of `a` and packed weights to `result`."""
    (m, k), n, groups = a.shape, packed.shape[0], scales.shape[1]
    group = k // max(1, groups) or GROUPS[0]
    config = dict(TABLE.select(call.backend, m))
    config["BLOCK_K"] = min(config["BLOCK_K"], group)
    count = tile.cdiv(m, config["BLOCK_M"]) * tile.cdiv(n, config["BLOCK_N"])
    steps = tile.cdiv(k, config["BLOCK_K"])
    resident = RESIDENT if config["BLOCK_M"] <= 64 else 1
    splits = splits_of(call, splits, tile.cdiv(count, resident), steps)
    span = max(1, tile.cdiv(steps, splits)) * config["BLOCK_K"]
    parts = result if splits == 1 else call.new((splits, m, n), F32)
    launch(int4_matmul_kernel, (count, splits))(
        *(a.value, packed.value, scales.value, parts.value),
        *(m, n, k, a.rows().stride, *packed.strides[:2], *scales.strides, span),
        WEIGHTS=group,
        **config,
    )
    if splits > 1:
        add_contiguous_splits(call, parts, result)
