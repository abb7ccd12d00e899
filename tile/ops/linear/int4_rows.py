"""Weights of 4 bits times few rows, by tensor cores that take weights from registers.

    out[m, n] = sum over k of scale[n, k // group] * (q[n, k] - 8) * a[m, k]

A program computes the transpose of its tile, with weights as the left operand of mma instructions.
Each warp has a chunk of the inner axis of its own, and loads both operands to the registers from
which it multiplies them (int4_fragments.py). So no warp waits for another one before the end, where
the sums of all warps are added up. Weights are loaded an iteration early, to registers, or where
there are too few, to shared memory, from which each lane reads what it has copied.
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

# By rows of a and of weights. ROWS: of weights, of a program. RESIDENT: programs that a
# multiprocessor runs at a time. COPIED: weights are copied to shared memory. H200, float16, 4096
# and 8192 squared with 1, 8 and 16 rows, 2026-11-29 (docs/notes/ops.md).
_WIDE = {"ROWS": 32, "RESIDENT": 2, "num_warps": 8, "maxnreg": 128}
_NARROW = {**_WIDE, "ROWS": 16}
_FEW = {"BLOCK_M": 8, "COPIED": False, "num_stages": 1}
_MORE = {"BLOCK_M": 16, "COPIED": True, "num_stages": 2}
TABLE = Table(
    {
        (8, 4096): {**_FEW, **_NARROW},
        (8, ANY): {**_FEW, **_WIDE},
        (ANY, 4096): {**_MORE, **_NARROW},
        (ANY, ANY): {**_MORE, **_WIDE},
    },
    {},
)
CHUNK = 64  # bytes of weights of a warp in an iteration, if a group has as many


@tile.jit
def load_weights(weights, first, end, byte, STEP: tl.constexpr, EVEN: tl.constexpr):
    """Return the packed weights of an iteration, as `load_scales`."""
    # They are read once: the first level of the cache is for `a`.
    if EVEN:
        return tl.load(weights + min(first, end - STEP), cache_modifier=".cg")
    exists = (byte < end - first)[:, None]
    return tl.load(weights + first, mask=exists, other=0, cache_modifier=".cg")


@tile.jit
def load_scales(
    scales,
    first,
    end,
    byte,
    LONG: tl.constexpr,
    STEP: tl.constexpr,
    EVEN: tl.constexpr,
    CACHE: tl.constexpr,
):
    """Return the scales of an iteration.

    EVEN: all iterations are whole; those from `end` on are not needed.
    """
    if EVEN:
        return tl.load(scales + min(first, end - STEP) // LONG, cache_modifier=CACHE)
    exists = (byte < end - first)[:, None]
    return tl.load(scales + first // LONG, mask=exists, other=0.0, cache_modifier=CACHE)


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
    BYTES: tl.constexpr,
    WARPS: tl.constexpr,
    ROWS: tl.constexpr,
    BLOCK_M: tl.constexpr,
    EVEN: tl.constexpr,
    COPIED: tl.constexpr,
):
    """WEIGHTS: of a group. BYTES: of a warp in an iteration, of a group or a part of one."""
    LONG: tl.constexpr = WEIGHTS // 2
    STEP: tl.constexpr = WARPS * BYTES
    ELEMENT: tl.constexpr = a_ptr.dtype.element_ty
    split, begin = tl.program_id(1), tl.program_id(1) * span
    end = min(row_bytes, begin + span)

    # Rows that do not exist are others; their results are not stored.
    warp, row = warp_rows(tl.arange(0, WARPS * BLOCK_M), WARPS)
    byte, row = warp * BYTES, tl.minimum(row, M - 1).to(tl.int64)
    a_rows = a_ptr + row * a_row + (byte // LONG * WEIGHTS + byte % LONG)
    warp, own = warp_rows(tl.arange(0, WARPS * ROWS), WARPS)
    own = tl.minimum(tl.program_id(0) * ROWS + own, N - 1).to(tl.int64)
    at = warp * BYTES
    weights = (packed_ptr + own * row_bytes + at)[:, None] + tl.arange(0, BYTES)[None, :]
    # The four lanes that have sums of a row load its scale.
    scales = (scale_ptr + own * (row_bytes // LONG) + at // LONG)[:, None]
    scales += tl.zeros((1, 4), dtype=tl.int32)

    # `.ca`: no copies of `a`, whose shared memory the cache that has it would lack.
    CACHE: tl.constexpr = ".ca" if COPIED else ""
    step = LONG, STEP, EVEN, CACHE
    total = tl.zeros((WARPS, ROWS, BLOCK_M), dtype=tl.float32)
    if not COPIED:
        next_packed = load_weights(weights, begin, end, at, STEP, EVEN)
        next_scale = load_scales(scales, begin, end, at, *step)
    for first in range(begin, end, STEP):
        if COPIED:
            exists = None if EVEN else (at < end - first)[:, None]
            packed = tl.load(weights + first, mask=exists, other=None if EVEN else 0)
            scale = load_scales(scales, first, end, at, *step)
        else:
            packed, scale = next_packed, next_scale
            next_packed = load_weights(weights, first + STEP, end, at, STEP, EVEN)
            next_scale = load_scales(scales, first + STEP, end, at, *step)
        exists = None if EVEN else (byte < end - first)[:, None]
        columns = (a_rows + 2 * first)[:, None]
        low = load_lanes(columns, exists, BYTES, CACHE)
        high = load_lanes(columns + LONG, exists, BYTES, CACHE)
        w = fragments(low_weights(packed, ELEMENT), WARPS)
        part = tl.dot(w, joined(low, WARPS).permute(0, 2, 1))
        w = fragments(high_weights(packed, ELEMENT), WARPS)
        part = tl.dot(w, joined(high, WARPS).permute(0, 2, 1), part)
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
    (m, k), n, group = a.shape, packed.shape[0], a.shape[1] // scales.shape[1]
    config = dict(TABLE.select(call.backend, m, n))
    programs = tile.cdiv(n, config["ROWS"])
    chunk = min(group // 2, CHUNK)
    step = chunk * config["num_warps"]
    steps = tile.cdiv(k // 2, step)
    resident = config.pop("RESIDENT")
    splits = splits_of(call, splits, tile.cdiv(programs, resident), steps)
    parts = result if splits == 1 else call.new((splits, m, n), F32)
    span = tile.cdiv(steps, splits) * step
    launch(int4_rows_kernel, (programs, splits))(
        *(a.value, packed.value, scales.value, parts.value, m, n, k // 2, a.strides[0], span),
        WEIGHTS=group,
        BYTES=chunk,
        WARPS=config["num_warps"],
        EVEN=k // 2 % step == 0,
        launch_pdl=True,
        **config,
    )
    if splits > 1:
        add_contiguous_splits(call, parts, result)
