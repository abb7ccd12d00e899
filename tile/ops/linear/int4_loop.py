"""The loop of a matmul that expands weights of 4 bits for the next one.

An iteration converts some weights between its dot and the next one, while the tensor cores are
busy: as many bits of bytes as a dot has steps along K, so that it stores once and needs no barrier.
"""

from __future__ import annotations

import tile
import tile.language as tl
from tile.ops.linear.int4_weights import SHIFT

# Groups that the L2 cache fetches ahead: 8192 x 8192 with 2048 rows takes 377 us with 2, 4 or 8,
# 385 if loads of weights go to memory (H200, 2026-11-30).
AHEAD = tl.constexpr(2)


def part_conversion(kind: str, exponent: int, one: int, offset: int) -> str:
    """Return the PTX that converts four bits of bytes, from bit $3 on, to $0 and $1, times $7, $8.

    int4_conversion.py says how.
    """
    return f"""
    {{
        .reg .b32 bits, exponent, one, offset, zero;
        mov.b32 exponent, {exponent * 0x01010101:#x};
        mov.b32 one, {one * 0x00010001:#x};
        mov.b32 zero, 0x80008000;  // -0.0
        mov.b32 offset, {offset * 0x00010001:#x};
        shr.u32 bits, $2, $3;
        and.b32 bits, bits, 0x0F0F0F0F;
        prmt.b32 $0, bits, exponent, 0x4140;
        prmt.b32 $1, bits, exponent, 0x4342;
        fma.rn.{kind} $0, $0, one, offset;
        fma.rn.{kind} $1, $1, one, offset;
        fma.rn.{kind} $0, $0, $7, zero;
        fma.rn.{kind} $1, $1, $8, zero;
    }}"""


PART_F16 = tl.constexpr(part_conversion("f16x2", 0x64, 0x3C00, 0xE408))
PART_BF16 = tl.constexpr(part_conversion("bf16x2", 0x43, 0x3F80, 0xC308))


@tile.jit
def part_of_weights(packed, shift, multiplier, ELEMENT: tl.constexpr):
    """Return (q - 8) * multiplier of the four bits of each byte from bit `shift` on, 0 or 4."""
    if tl.float32 == ELEMENT:
        return ((packed >> shift & 15).to(tl.float32) - 8.0) * multiplier
    CONVERSION: tl.constexpr = PART_F16 if tl.float16 == ELEMENT else PART_BF16
    return tl.inline_asm_elementwise(
        CONVERSION,
        *("=r,=r,r,r,r,r,r,r,r", [packed, shift, multiplier.to(ELEMENT)]),
        dtype=ELEMENT,
        is_pure=True,
        pack=4,
    )


@tile.jit
def multiply_and_expand(
    a_tile,
    b_tile,
    total,
    K,
    next_ptr,
    packed_ptr,
    scale_ptr,
    first,
    count,
    weight_row,
    weight_group,
    scale_row,
    scale_group,
    WEIGHTS: tl.constexpr,
    ROWS: tl.constexpr,
    CONTIGUOUS: tl.constexpr,
    BLOCK_K: tl.constexpr,
):
    """Return `total` plus the dots of tiles of a and b, and expand rows of weights meanwhile.

    This program expands `ROWS` rows of the `count` from `first` on; an iteration takes `BLOCK_K`
    weights of each, which are in the low or in the high bits of bytes.
    """
    HALF: tl.constexpr = WEIGHTS // 2
    first_row = tl.program_id(0) * ROWS
    row = (first_row + tl.arange(0, ROWS))[:, None]
    inside = row < count
    at = tl.arange(0, BLOCK_K)[None, :]
    source = (first + tl.minimum(row, count - 1)).to(tl.int64)
    packed, scales = packed_ptr + source * weight_row + at, scale_ptr + source * scale_row
    out = next_ptr + row.to(tl.int64) * K + at
    fetched = (first + tl.minimum(first_row, count - 1)).to(tl.int64)
    rows = tl.maximum(tl.minimum(ROWS, count - first_row), 0)
    for k in range(0, K, BLOCK_K):
        group = tl.cast(k // WEIGHTS, tl.int64)
        if CONTIGUOUS:
            ahead = tl.where((group + AHEAD) * WEIGHTS < K, group + AHEAD, 0)
            weights = packed_ptr + fetched * weight_row + ahead * weight_group
            tl.extra.cuda.prefetch(weights, rows * HALF)
            tl.extra.cuda.prefetch(scale_ptr + fetched * scale_row + ahead * scale_group, rows)
        # They arrive while the dot of the iteration before ends.
        part = tl.load(packed + (group * weight_group + k % HALF))
        scale = tl.load(scales + group * scale_group)
        a, b = tl.load(a_tile), tl.load(b_tile)
        total = tl.dot(a, b, total)
        a_tile += BLOCK_K
        b_tile += BLOCK_K
        shift = k % WEIGHTS // HALF * 4
        value = part_of_weights(part, shift, scale * SHIFT, next_ptr.dtype.element_ty)
        tl.store(out + k, value, mask=inside)
    return total
