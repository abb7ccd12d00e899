"""Matrix multiplication by weights of 4 bits, which are converted in registers.

    w[n, k] = (q[n, k] - 8) * scale[n, k // group]        out = a @ w.T

With few rows of a, as in decoding, the limit is reading the weights: with 4 bits each they take a
quarter of the time of 16. `pack_int4` rounds each group of weights along k to multiples of a
seventh of its greatest magnitude, and stores two a byte, the first in the low bits. An iteration
lies within a group, so that it needs one scale for each row of weights. Programs share the inner
axis where a result has few tiles (splits.py).
"""

from __future__ import annotations

from typing import Any

import numpy as np

import tile
import tile.language as tl
from tile.errors import ArgumentValueError
from tile.language.extra import libdevice
from tile.ops.core.call import BF16, F16, F32, Call
from tile.ops.core.call_plans import launch, planned
from tile.ops.core.reference import Array, wide
from tile.ops.core.tables import ANY, Table
from tile.ops.linear.configurations import tiles
from tile.ops.linear.matmul import tile_position
from tile.ops.linear.splits import add_splits_kernel, splits_of

U8 = np.dtype(np.uint8)
FLOATS = (F16, BF16, F32)
GROUPS = (32, 64, 128, 256)
# By M. Not measured: an iteration has 32 elements, the smallest group, or 64.
TABLE = Table(
    {(ANY,): tiles(16, 32, 32)},
    {"nvptx": {(16,): tiles(16, 64, 64), (64,): tiles(64, 64, 64), (ANY,): tiles(128, 128, 64)}},
)


@tile.jit
def pack_int4_kernel(w_ptr, packed_ptr, scale_ptr, stride, length, GROUP: tl.constexpr):
    row, group = tl.program_id(0).to(tl.int64), tl.program_id(1)
    at = group * GROUP + tl.arange(0, GROUP)
    w = tl.load(w_ptr + row * stride + at).to(tl.float32)
    # Exact divisions: weights of 16 bits are often halfway between two integers.
    scale = tl.div_rn(tl.max(tl.abs(w), axis=0), 7.0)
    inverse = tl.where(scale > 0, tl.div_rn(1.0, scale), 0.0)
    q = libdevice.rint(tl.clamp(w * inverse, -7.0, 7.0)).to(tl.int32) + 8
    low, high = tl.split(q.reshape(GROUP // 2, 2))
    byte = row * (length // 2) + group * (GROUP // 2) + tl.arange(0, GROUP // 2)
    tl.store(packed_ptr + byte, (low | (high << 4)).to(tl.uint8))
    tl.store(scale_ptr + row * (length // GROUP) + group, scale)


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
    span,
    WEIGHTS: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    GROUP: tl.constexpr,
):
    tile_row, tile_column = tile_position(M, N, BLOCK_M, BLOCK_N, GROUP)
    split = tl.program_id(1)
    row = tile_row * BLOCK_M + tl.arange(0, BLOCK_M)
    column = tile_column * BLOCK_N + tl.arange(0, BLOCK_N)
    inner, byte = tl.arange(0, BLOCK_K), tl.arange(0, BLOCK_K // 2)
    a_rows = a_ptr + (row % M).to(tl.int64)[:, None] * a_row + inner[None, :]
    weights = packed_ptr + (column % N).to(tl.int64)[:, None] * (K // 2) + byte[None, :]
    scales = scale_ptr + (column % N).to(tl.int64) * (K // WEIGHTS)
    total = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k in range(split * span, min(K, (split + 1) * span), BLOCK_K):
        packed = tl.load(weights + k // 2).to(tl.int32)
        w = tl.join((packed & 15) - 8, (packed >> 4) - 8).reshape(BLOCK_N, BLOCK_K)
        scaled = w.to(tl.float32) * tl.load(scales + k // WEIGHTS)[:, None]
        a = tl.load(a_rows + k)
        total = tl.dot(a, tl.trans(scaled.to(a.dtype)), total)
    at = (split.to(tl.int64) * M + row)[:, None] * N + column[None, :]
    inside = (row < M)[:, None] & (column < N)[None, :]
    tl.store(out_ptr + at, total.to(out_ptr.dtype.element_ty), mask=inside)


@planned()
def pack_int4(weight: Any, group: int = 128) -> tuple[Any, Any]:
    """Return the weights in 4 bits, N x K / 2 of uint8, and their scales, N x K / group of float32.

    weight: N x K, float16, bfloat16 or float32, with contiguous rows. group: 32, 64, 128 or 256,
    which divides K.
    """
    call = Call("pack_int4")
    source = call.array("weight", weight, dtypes=FLOATS, rank=2)
    rows = source.rows()
    call.choice("group", group, GROUPS)
    if rows.length % group:
        raise ArgumentValueError(
            f"pack_int4: the rows of `weight` have {rows.length} elements; they must be a multiple "
            f"of `group`, {group}"
        )
    packed = call.new((rows.count, rows.length // 2), U8)
    scales = call.new((rows.count, rows.length // group), F32)
    if packed.size:
        launch(pack_int4_kernel, scales.shape)(
            *(weight, packed.value, scales.value, rows.stride, rows.length), GROUP=group
        )
    return packed.value, scales.value


@planned()
def int4_matmul(
    a: Any, packed: Any, scales: Any, *, splits: int | None = None, out: Any = None
) -> Any:
    """Return the matmul of `a` and the transpose of packed weights, in the type of `a`.

    a: M x K, float16, bfloat16 or float32, with contiguous rows. packed, scales: results of
    `pack_int4`. splits: as in `matmul`.
    """
    call = Call("int4_matmul")
    left = call.array("a", a, dtypes=FLOATS, rank=2)
    rows = left.rows()
    m, k = left.shape
    weights = call.array("packed", packed, dtypes=(U8,), rank=2).contiguous()
    n = weights.shape[0]
    call.array("packed", packed, dtypes=(U8,), shape=(n, k // 2))
    scaling = call.array("scales", scales, dtypes=(F32,), rank=2).contiguous()
    group = k // max(1, scaling.shape[1])
    if scaling.shape[0] != n or (k and (group not in GROUPS or k % group)):
        raise ArgumentValueError(
            f"int4_matmul: `scales` has shape {scaling.shape}; it must be {n} x K / group, where K "
            f"is {k} and group 32, 64, 128 or 256"
        )
    result = call.output("out", out, (m, n), left.dtype).contiguous()
    if result.size:
        config = dict(TABLE.select(call.backend, m))
        config["BLOCK_K"] = min(config["BLOCK_K"], group or GROUPS[0])
        count = tile.cdiv(m, config["BLOCK_M"]) * tile.cdiv(n, config["BLOCK_N"])
        steps = tile.cdiv(k, config["BLOCK_K"])
        splits = splits_of(call, splits, count, steps)
        span = max(1, tile.cdiv(steps, splits)) * config["BLOCK_K"]
        parts = result if splits == 1 else call.new((splits, m, n), F32)
        launch(int4_matmul_kernel, (count, splits))(
            *(a, packed, scales, parts.value, m, n, k, rows.stride, span),
            WEIGHTS=group or GROUPS[0],
            **config,
        )
        if splits > 1:
            block = min(1024, tile.next_power_of_2(n))
            launch(add_splits_kernel, (m, tile.cdiv(n, block)))(
                *(parts.value, None, result.value, m, n, 1, splits, 0, n, 1),
                ACTIVATION=None,
                BLOCK=block,
            )
    return result.value


def pack_int4_reference(weight: Array, group: int = 128) -> tuple[Array, Array]:
    """Return the packed weights and scales, by float32 operations, which decide ties."""
    n, k = weight.shape
    groups = weight.astype(np.float32).reshape(n, k // group, group)
    scales = np.abs(groups).max(axis=-1, initial=0) / np.float32(7)
    inverse = np.divide(np.float32(1), scales, out=np.zeros_like(scales), where=scales > 0)
    q = np.rint(np.clip(groups * inverse[..., None], -7, 7)).reshape(n, k).astype(np.int32) + 8
    return (q[:, ::2] | q[:, 1::2] << 4).astype(np.uint8), scales


def int4_matmul_reference(
    a: Array, packed: Array, scales: Array, splits: int | None = None
) -> Array:
    """Return the result in float64, of weights rounded to the type of `a`."""
    n, k = packed.shape[0], 2 * packed.shape[1]
    q = np.stack([packed & 15, packed >> 4], axis=-1).reshape(n, k).astype(np.float32) - 8
    w = q * np.repeat(scales, k // max(1, scales.shape[1]), axis=1)
    a_wide, w_wide = wide(a, w.astype(a.dtype))
    result: Array = a_wide @ w_wide.T
    return result
