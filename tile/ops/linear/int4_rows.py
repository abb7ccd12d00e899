"""Weights of 4 bits times few rows, by tensor cores that take weights from registers.

    out[m, n] = sum over k of scale[n, k // group] * (q[n, k] - 8) * a[m, k]

A program computes the transpose of its tile, with weights as the left operand of mma instructions.
Each warp has a chunk of the inner axis of its own, and loads both operands to the registers from
which it multiplies them (int4_fragments.py). So no warp waits for another one before the end, where
the sums of all warps are added up. Weights are loaded an iteration early, to shared memory, from
which each lane reads what it has copied, or for few rows of weights and of `a`, to registers.
"""

from __future__ import annotations

import tile
import tile.language as tl
from tile.ops.core.call import F32, Call, Operand
from tile.ops.core.call_plans import launch
from tile.ops.core.tables import ANY, Table
from tile.ops.linear.int4_conversion import high_weights, low_weights
from tile.ops.linear.int4_fragments import by_warps, fragments, joined, load_lanes, warp_rows
from tile.ops.linear.splits import add_contiguous_splits, splits_of
from tile.ops.linear.strided import INT32_LIMIT

# By rows of a and of weights. ROWS: of weights, of a program. RESIDENT: programs that a
# multiprocessor runs at a time. COPIED: weights are copied to shared memory. H200, float16, 4096
# and 8192 squared with 1, 8 and 16 rows, 2026-11-29 (docs/notes/ops.md).
_ALL = {"RESIDENT": 2, "num_warps": 8, "maxnreg": 128}
_COPIED = {**_ALL, "ROWS": 32, "COPIED": True, "num_stages": 2}
TABLE = Table(
    {
        (8, 4096): {**_ALL, "BLOCK_M": 8, "ROWS": 16, "COPIED": False, "num_stages": 1},
        (8, ANY): {**_COPIED, "BLOCK_M": 8},
        (ANY, ANY): {**_COPIED, "BLOCK_M": 16},
    },
    {},
)
CHUNK = 64  # bytes of weights of a warp in an iteration, if a group has as many


@tile.jit
def load_early(pointers, first, end, group, stride, STEP: tl.constexpr, EVEN: tl.constexpr):
    """Return what the iteration that begins with the group `first` reads: weights or scales.

    group: those of rows, from `first` on, of the type of offsets. EVEN: all iterations are whole;
    those from `end` on are not needed.
    """
    # They are read once: the first level of the cache is for `a`.
    if EVEN:
        at = tl.cast(min(first, end - STEP), group.dtype) * stride
        return tl.load(pointers + at, cache_modifier=".cg")
    exists, at = (group < end - first)[:, None], tl.cast(first, group.dtype) * stride
    return tl.load(pointers + at, mask=exists, other=0, cache_modifier=".cg")


@tile.jit
def int4_rows_kernel(
    a_ptr,
    packed_ptr,
    scale_ptr,
    out_ptr,
    M,
    N,
    groups,
    a_row,
    weight_row,
    weight_group,
    scale_row,
    scale_group,
    span,
    WEIGHTS: tl.constexpr,
    BYTES: tl.constexpr,
    WARPS: tl.constexpr,
    ROWS: tl.constexpr,
    BLOCK_M: tl.constexpr,
    EVEN: tl.constexpr,
    WIDE: tl.constexpr,
    COPIED: tl.constexpr,
):
    """WEIGHTS: of a group. BYTES: of a warp in an iteration, of a group or a part of one.

    groups: of a row. span: those of a program.
    """
    LONG: tl.constexpr = WEIGHTS // 2
    STEP: tl.constexpr = WARPS * BYTES // LONG
    ELEMENT: tl.constexpr = a_ptr.dtype.element_ty
    split, begin = tl.program_id(1), tl.program_id(1) * span
    end = min(groups, begin + span)

    # Rows that do not exist are others; their results are not stored.
    warp, row = warp_rows(tl.arange(0, WARPS * BLOCK_M), WARPS)
    column, row = warp * BYTES, tl.minimum(row, M - 1).to(tl.int64)
    a_group = column // LONG
    a_rows = a_ptr + row * a_row + (a_group * WEIGHTS + column % LONG)
    warp, own = warp_rows(tl.arange(0, WARPS * ROWS), WARPS)
    own = tl.minimum(tl.program_id(0) * ROWS + own, N - 1).to(tl.int64)
    byte = warp * BYTES
    group = tl.cast(byte // LONG, tl.int64 if WIDE else tl.int32)
    weights = packed_ptr + own * weight_row + group * weight_group + byte % LONG
    weights = weights[:, None] + tl.arange(0, BYTES)[None, :]
    # Each of 32 lanes loads the scale of a row, or of fewer rows those four that have its sums.
    SHUFFLED: tl.constexpr = ROWS == 32
    if SHUFFLED:
        own = tl.minimum(tl.program_id(0) * ROWS + tl.arange(0, ROWS), N - 1).to(tl.int64)
        scaled = tl.cast(tl.arange(0, WARPS) * BYTES // LONG, group.dtype)
        scales = scale_ptr + own[None, :] * scale_row + scaled[:, None] * scale_group
    else:
        scaled = group
        scales = (scale_ptr + own * scale_row + group * scale_group)[:, None]
        scales += tl.zeros((1, 4), dtype=tl.int32)

    # `.ca`: no copies of `a`, whose shared memory the cache that has it would lack.
    CACHE: tl.constexpr = ".ca" if COPIED else ""
    total = tl.zeros((WARPS, ROWS, BLOCK_M), dtype=tl.float32)
    next_scale = load_early(scales, begin, end, scaled, scale_group, STEP, EVEN)
    if not COPIED:
        next_packed = load_early(weights, begin, end, group, weight_group, STEP, EVEN)
    for first in range(begin, end, STEP):
        if COPIED:
            exists = None if EVEN else (group < end - first)[:, None]
            packed = weights + tl.cast(first, group.dtype) * weight_group
            packed = tl.load(packed, mask=exists, other=None if EVEN else 0)
        else:
            packed = next_packed
            next_packed = load_early(weights, first + STEP, end, group, weight_group, STEP, EVEN)
        scale = next_scale
        next_scale = load_early(scales, first + STEP, end, scaled, scale_group, STEP, EVEN)
        exists = None if EVEN else (a_group < end - first)[:, None]
        columns = (a_rows + first * WEIGHTS)[:, None]
        low = load_lanes(columns, exists, BYTES, CACHE)
        high = load_lanes(columns + LONG, exists, BYTES, CACHE)
        w = fragments(low_weights(packed, ELEMENT), WARPS)
        part = tl.dot(w, joined(low, WARPS).permute(0, 2, 1))
        w = fragments(high_weights(packed, ELEMENT), WARPS)
        part = tl.dot(w, joined(high, WARPS).permute(0, 2, 1), part)
        if SHUFFLED:
            total += part * scale[:, :, None]
        else:
            lanes = part.reshape(WARPS, ROWS, BLOCK_M // 8, 4, 2)
            lanes *= by_warps(scale, WARPS)[:, :, None, :, None]
            total += lanes.reshape(WARPS, ROWS, BLOCK_M)
    row, column = tl.arange(0, BLOCK_M), tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    out = out_ptr + (split.to(tl.int64) * M + row)[None, :] * N + column[:, None]
    result = tl.sum(total, axis=0).to(out_ptr.dtype.element_ty)
    tl.store(out, result, mask=(row < M)[None, :] & (column < N)[:, None])


def int4_rows(
    call: Call, a: Operand, packed: Operand, scales: Operand, result: Operand, splits: int | None
) -> None:
    """Write the matmul of `a`, of few rows, and packed weights to `result`."""
    (m, k), (n, groups) = a.shape, scales.shape
    long = k // groups // 2
    config = dict(TABLE.select(call.backend, m, n))
    programs = tile.cdiv(n, config["ROWS"])
    chunk = min(long, CHUNK)
    step = chunk * config["num_warps"] // long
    steps = tile.cdiv(groups, step)
    resident = config.pop("RESIDENT")
    splits = splits_of(call, splits, tile.cdiv(programs, resident), steps)
    parts = result if splits == 1 else call.new((splits, m, n), F32)
    span = tile.cdiv(steps, splits) * step
    launch(int4_rows_kernel, (programs, splits), dependent=True)(
        *(a.value, packed.value, scales.value, parts.value),
        *(m, n, groups, a.strides[0], *packed.strides[:2], *scales.strides, span),
        WEIGHTS=2 * long,
        BYTES=chunk,
        WARPS=config["num_warps"],
        EVEN=groups % step == 0,
        WIDE=groups * max(packed.strides[1], scales.strides[1]) >= INT32_LIMIT,
        **config,
    )
    if splits > 1:
        add_contiguous_splits(call, parts, result)
