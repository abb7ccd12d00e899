"""Weights of 4 bits times few rows, by tensor cores that take weights from registers.

    out[m, n] = sum over k of scale[n, k // group] * (q[n, k] - 8) * a[m, k]

A program computes the transpose of its tile, with weights as the left operand of mma instructions.
A lane that holds 16 contiguous bytes of a row would need bytes of other lanes, as mma numbers the
inner axis; but the order of the inner axis is free. So both operands are reshaped to one in which
the bytes of a lane stay there, and the rows of a warp, too: weights are converted where they are,
and go through shared memory only as they are packed.
"""

from __future__ import annotations

import tile
import tile.language as tl
from tile.ops.core.call import F32, Call, Operand
from tile.ops.core.call_plans import launch
from tile.ops.core.tables import ANY, Table
from tile.ops.linear.int4_conversion import high_weights, low_weights
from tile.ops.linear.splits import add_contiguous_splits, splits_of

# By rows of a. ROWS: of weights, of a program; two warps multiply by mma, four by wgmma, which
# takes weights from shared memory. GROUPS: those of an iteration, where they divide all. RESIDENT:
# programs that a multiprocessor runs at a time. H200, float16, 8192 x 8192 with 1 and 16 rows,
# 2026-11-26.
FEW = {"BLOCK_M": 8, "ROWS": 32, "GROUPS": 2, "RESIDENT": 8, "num_warps": 2, "num_stages": 2}
MORE = {"BLOCK_M": 16, "ROWS": 64, "GROUPS": 2, "RESIDENT": 4, "num_warps": 2, "num_stages": 3}
TABLE = Table({(8,): FEW, (ANY,): MORE}, {})


@tile.jit
def inner_order(x, EXTENT: tl.constexpr, LONG: tl.constexpr):
    """Return rows whose elements are in the order in which mma numbers those of four lanes."""
    lanes = x.reshape(EXTENT, 4, LONG // 8, 2)
    return lanes.permute(0, 2, 1, 3).reshape(EXTENT, LONG)


@tile.jit
def row_order(x, ROWS: tl.constexpr, LONG: tl.constexpr, WARPS: tl.constexpr):
    """Return rows in the order in which mma numbers those of some warps."""
    rows = x.reshape(ROWS // 8 // WARPS, WARPS, 8, LONG)
    return rows.permute(1, 0, 2, 3).reshape(ROWS, LONG)


@tile.jit
def int4_rows_kernel(
    a_ptr,
    packed_ptr,
    scale_ptr,
    out_ptr,
    M,
    N,
    row_bytes,
    a_row,
    span,
    WEIGHTS: tl.constexpr,
    WARPS: tl.constexpr,
    ROWS: tl.constexpr,
    BLOCK_M: tl.constexpr,
    GROUPS: tl.constexpr,
):
    LONG: tl.constexpr = WEIGHTS // 2
    ELEMENT: tl.constexpr = a_ptr.dtype.element_ty
    split, end = tl.program_id(1), min(row_bytes, (tl.program_id(1) + 1) * span)
    row = tl.arange(0, BLOCK_M)
    column = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    byte = tl.arange(0, LONG)
    a_rows = a_ptr + row.to(tl.int64)[:, None] * a_row + byte[None, :]
    weights = packed_ptr + (column % N).to(tl.int64)[:, None] * row_bytes + byte[None, :]
    # The columns of the sums.
    column = row_order(column[:, None], ROWS, 1, WARPS).reshape(ROWS)
    scales = scale_ptr + (column % N).to(tl.int64) * (row_bytes // LONG)
    total = tl.zeros((ROWS, BLOCK_M), dtype=tl.float32)
    for first in range(split * span, end, GROUPS * LONG):
        for group in tl.static_range(GROUPS):
            at = first + group * LONG
            scale = tl.load(scales + at // LONG)
            packed = tl.load(weights + at)
            low = row_order(low_weights(packed, ELEMENT), ROWS, LONG, WARPS)
            high = row_order(high_weights(packed, ELEMENT), ROWS, LONG, WARPS)
            # Rows that do not exist are not read.
            a_low = tl.load(a_rows + 2 * at, mask=(row < M)[:, None], other=0.0)
            a_high = tl.load(a_rows + 2 * at + LONG, mask=(row < M)[:, None], other=0.0)
            part = tl.dot(inner_order(low, ROWS, LONG), tl.trans(inner_order(a_low, BLOCK_M, LONG)))
            part = tl.dot(
                inner_order(high, ROWS, LONG), tl.trans(inner_order(a_high, BLOCK_M, LONG)), part
            )
            total += part * scale[:, None]
    out = out_ptr + (split.to(tl.int64) * M + row)[None, :] * N + column[:, None]
    inside = (row < M)[None, :] & (column < N)[:, None]
    tl.store(out, total.to(out_ptr.dtype.element_ty), mask=inside)


def int4_rows(
    call: Call, a: Operand, packed: Operand, scales: Operand, result: Operand, splits: int | None
) -> None:
    """Write the matmul of `a`, of few rows, and packed weights to `result`."""
    (m, k), n, groups = a.shape, packed.shape[0], scales.shape[1]
    config = dict(TABLE.select(call.backend, m))
    programs = tile.cdiv(n, config["ROWS"])
    if groups % config["GROUPS"]:
        config["GROUPS"] = 1
    steps = groups // config["GROUPS"]
    splits = splits_of(call, splits, tile.cdiv(programs, config.pop("RESIDENT")), steps)
    span = tile.cdiv(steps, splits) * (k // steps // 2)
    parts = result if splits == 1 else call.new((splits, m, n), F32)
    launch(int4_rows_kernel, (programs, splits))(
        *(a.value, packed.value, scales.value, parts.value, m, n, k // 2, a.strides[0], span),
        WEIGHTS=k // groups,
        WARPS=config["num_warps"],
        launch_pdl=True,
        **config,
    )
    if splits > 1:
        add_contiguous_splits(call, parts, result)
