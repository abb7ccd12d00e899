"""Matrix multiplication by weights of 4 bits, which are converted in registers.

    w[n, k] = (q[n, k] - 8) * scale[n, k // group]        out = a @ w.T

With few rows of a, as in decoding, the limit is reading the weights: with 4 bits each they take a
quarter of the time of 16. `pack_int4` rounds each group of weights along k to multiples of a
seventh of its greatest magnitude. Byte i of a group has its elements i, in the low bits, and
i + group / 2: so the low bits of a block of bytes are contiguous weights, and the high bits, too.
One 32-bit operation converts two weights, a permutation of bytes that puts them into the mantissas
of 16-bit floats; q - 8 is exact there. With few rows of a, the sums of a group are scaled in
float32. With many, that would wait for the matmul of each group: weights are scaled in the type of
a, times 2 ** 4 (for float16, scales are 2 ** -18 to 2 ** 8). Programs share the inner axis where a
result has few tiles (splits.py).
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
from tile.ops.linear.matmul_tiles import tile_position
from tile.ops.linear.splits import add_contiguous_splits, check_splits, splits_of

U8 = np.dtype(np.uint8)
FLOATS = (F16, BF16, F32)
GROUPS = (32, 64, 128, 256)
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
SHIFT = tl.constexpr(16.0)  # small weights would be subnormal numbers of float16
RESIDENT = 4  # programs with few rows that one multiprocessor runs at a time


def conversion(kind: str, exponent: int, one: int, offset: int, multiplier: bool = False) -> str:
    """Return the PTX that converts four bytes: low bits to $0 and $1, high bits to $2 and $3.

    The bits 0x6400 | q are the float16 1024 + q, and 0x4300 | q the bfloat16 128 + q. With a
    multiplier, two more arguments, $5 and $6, multiply the weights.
    """
    scaling = (
        [f"fma.rn.{kind} ${at}, ${at}, ${5 + at % 2}, zero;" for at in range(4)]
        if multiplier
        else []
    )
    return f"""
    {{
        .reg .b32 low, high, exponent, one, offset, zero;
        mov.b32 exponent, {exponent * 0x01010101:#x};
        mov.b32 one, {one * 0x00010001:#x};
        mov.b32 zero, 0x80008000;  // -0.0
        mov.b32 offset, {offset * 0x00010001:#x};
        and.b32 low, $4, 0x0F0F0F0F;
        shr.u32 high, $4, 4;
        and.b32 high, high, 0x0F0F0F0F;
        prmt.b32 $0, low, exponent, 0x4140;
        prmt.b32 $1, low, exponent, 0x4342;
        prmt.b32 $2, high, exponent, 0x4140;
        prmt.b32 $3, high, exponent, 0x4342;
        fma.rn.{kind} $0, $0, one, offset;
        fma.rn.{kind} $1, $1, one, offset;
        fma.rn.{kind} $2, $2, one, offset;
        fma.rn.{kind} $3, $3, one, offset;
        {" ".join(scaling)}
    }}"""


TO_F16 = tl.constexpr(conversion("f16x2", 0x64, 0x3C00, 0xE408))  # 1.0, -1032.0
TO_BF16 = tl.constexpr(conversion("bf16x2", 0x43, 0x3F80, 0xC308))  # 1.0, -136.0
SCALED_F16 = tl.constexpr(conversion("f16x2", 0x64, 0x3C00, 0xE408, multiplier=True))
SCALED_BF16 = tl.constexpr(conversion("bf16x2", 0x43, 0x3F80, 0xC308, multiplier=True))


@tile.jit
def weights_of(packed, multiplier, ELEMENT: tl.constexpr):
    """Return (q - 8) * multiplier, None for 1, of the low and of the high bits of bytes."""
    if tl.float32 == ELEMENT:
        low, high = (packed & 15).to(tl.float32) - 8.0, (packed >> 4).to(tl.float32) - 8.0
        if multiplier is not None:
            low, high = low * multiplier, high * multiplier
        return low, high
    if multiplier is None:
        CONVERSION: tl.constexpr = TO_F16 if tl.float16 == ELEMENT else TO_BF16
        return tl.inline_asm_elementwise(
            CONVERSION,
            *("=r,=r,=r,=r,r", [packed]),
            dtype=(ELEMENT, ELEMENT),
            is_pure=True,
            pack=4,
        )
    SCALED: tl.constexpr = SCALED_F16 if tl.float16 == ELEMENT else SCALED_BF16
    return tl.inline_asm_elementwise(
        SCALED,
        *("=r,=r,=r,=r,r,r,r", [packed, multiplier.to(ELEMENT)]),
        dtype=(ELEMENT, ELEMENT),
        is_pure=True,
        pack=4,
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
    low, high = tl.split(tl.trans(q.reshape(2, GROUP // 2)))
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
    WEIGHTS_LEFT: tl.constexpr,
    SCALE_SUMS: tl.constexpr,
):
    tile_row, tile_column = tile_position(M, N, BLOCK_M, BLOCK_N, GROUP)
    split = tl.program_id(1)
    row = tile_row * BLOCK_M + tl.arange(0, BLOCK_M)
    column = tile_column * BLOCK_N + tl.arange(0, BLOCK_N)
    byte = tl.arange(0, BLOCK_K // 2)
    a_rows = a_ptr + (row % M).to(tl.int64)[:, None] * a_row + byte[None, :]
    weights = packed_ptr + (column % N).to(tl.int64)[:, None] * (K // 2) + byte[None, :]
    scales = scale_ptr + (column % N).to(tl.int64) * (K // WEIGHTS)
    total = tl.zeros(
        (BLOCK_N if WEIGHTS_LEFT else BLOCK_M, BLOCK_M if WEIGHTS_LEFT else BLOCK_N),
        dtype=tl.float32,
    )
    for k in range(split * span, min(K, (split + 1) * span), BLOCK_K):
        scale = tl.load(scales + k // WEIGHTS)
        multiplier = None if SCALE_SUMS else (scale * SHIFT)[:, None]
        low, high = weights_of(tl.load(weights + k // 2), multiplier, a_ptr.dtype.element_ty)
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
    groups = scaling.shape[1]
    group = k // max(1, groups)
    if scaling.shape[0] != n or groups * group != k or (k and group not in GROUPS):
        raise ArgumentValueError(
            f"int4_matmul: `scales` has shape {scaling.shape}; it must be {n} x K / group, where K "
            f"is {k} and group 32, 64, 128 or 256"
        )
    check_splits(call, splits)
    result = call.output("out", out, (m, n), left.dtype).contiguous()
    if result.size:
        config = dict(TABLE.select(call.backend, m))
        config["BLOCK_K"] = min(config["BLOCK_K"], group or GROUPS[0])
        count = tile.cdiv(m, config["BLOCK_M"]) * tile.cdiv(n, config["BLOCK_N"])
        steps = tile.cdiv(k, config["BLOCK_K"])
        resident = RESIDENT if config["BLOCK_M"] <= 64 else 1
        splits = splits_of(call, splits, tile.cdiv(count, resident), steps)
        span = max(1, tile.cdiv(steps, splits)) * config["BLOCK_K"]
        parts = result if splits == 1 else call.new((splits, m, n), F32)
        launch(int4_matmul_kernel, (count, splits))(
            *(a, packed, scales, parts.value, m, n, k, rows.stride, span),
            WEIGHTS=group or GROUPS[0],
            **config,
        )
        if splits > 1:
            add_contiguous_splits(parts, result)
    return result.value


def pack_int4_reference(weight: Array, group: int = 128) -> tuple[Array, Array]:
    """Return the packed weights and scales, by float32 operations, which decide ties."""
    n, k = weight.shape
    groups = weight.astype(np.float32).reshape(n, k // group, group)
    scales = np.abs(groups).max(axis=-1, initial=0) / np.float32(7)
    inverse = np.divide(np.float32(1), scales, out=np.zeros_like(scales), where=scales > 0)
    q = np.rint(np.clip(groups * inverse[..., None], -7, 7)).reshape(n, k).astype(np.int32) + 8
    low, high = q.reshape(n, k // group, 2, group // 2).swapaxes(0, 2).swapaxes(1, 2)
    return (low | high << 4).astype(np.uint8).reshape(n, k // 2), scales


def int4_matmul_reference(
    a: Array, packed: Array, scales: Array, splits: int | None = None
) -> Array:
    """Return the result in float64."""
    n, k = packed.shape[0], 2 * packed.shape[1]
    groups = packed.reshape(n, scales.shape[1], 1, k // 2 // max(1, scales.shape[1]))
    q = np.concatenate([groups & 15, groups >> 4], axis=2).reshape(n, k).astype(np.float64) - 8
    w = q * np.repeat(scales.astype(np.float64), k // max(1, scales.shape[1]), axis=1)
    result: Array = wide(a)[0] @ w.T
    return result
