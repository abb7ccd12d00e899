"""Weights of 4 bits as floats, in registers.

One 32-bit operation converts two weights, a permutation of bytes that puts them into the mantissas
of 16-bit floats; q - 8 is exact there.
"""

from __future__ import annotations

import tile
import tile.language as tl


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


def half_conversion(first: str, kind: str, mask: int, one: int, offset: int, high: int) -> str:
    """Return the PTX that converts the low or high bits of four bytes to $0 and $1.

    `first` puts the bytes of $2 into $0 and $1, below `high`, the exponent; then bits outside of
    `mask` are cleared, and the floats multiplied by `one` and added to `offset`.
    """
    return f"""
    {{
        .reg .b32 bytes, exponent, one, offset;
        mov.b32 exponent, {high * 0x01010101:#x};
        mov.b32 one, {one * 0x00010001:#x};
        mov.b32 offset, {offset * 0x00010001:#x};
        {first}
        prmt.b32 $0, bytes, exponent, 0x4140;
        prmt.b32 $1, bytes, exponent, 0x4342;
        and.b32 $0, $0, {mask * 0x00010001:#x};
        and.b32 $1, $1, {mask * 0x00010001:#x};
        fma.rn.{kind} $0, $0, one, offset;
        fma.rn.{kind} $1, $1, one, offset;
    }}"""


# Both of float16 take the same permutation of bytes: 1024 + q, and 1024 + 16 * q, times 1 / 16.
# The mantissa of bfloat16 has 7 bits.
WHOLE, HIGHER = "mov.b32 bytes, $2;", "shr.u32 bytes, $2, 4;"
LOW_F16 = tl.constexpr(half_conversion(WHOLE, "f16x2", 0x640F, 0x3C00, 0xE408, 0x64))
HIGH_F16 = tl.constexpr(half_conversion(WHOLE, "f16x2", 0x64F0, 0x2C00, 0xD480, 0x64))
LOW_BF16 = tl.constexpr(half_conversion(WHOLE, "bf16x2", 0x430F, 0x3F80, 0xC308, 0x43))
HIGH_BF16 = tl.constexpr(half_conversion(HIGHER, "bf16x2", 0x430F, 0x3F80, 0xC308, 0x43))


@tile.jit
def low_weights(packed, ELEMENT: tl.constexpr):
    """Return q - 8 of the low bits of bytes, for 16-bit types."""
    CONVERSION: tl.constexpr = LOW_F16 if tl.float16 == ELEMENT else LOW_BF16
    return tl.inline_asm_elementwise(
        CONVERSION, "=r,=r,r", [packed], dtype=ELEMENT, is_pure=True, pack=4
    )


@tile.jit
def high_weights(packed, ELEMENT: tl.constexpr):
    """Return q - 8 of the high bits of bytes, for 16-bit types."""
    CONVERSION: tl.constexpr = HIGH_F16 if tl.float16 == ELEMENT else HIGH_BF16
    return tl.inline_asm_elementwise(
        CONVERSION, "=r,=r,r", [packed], dtype=ELEMENT, is_pure=True, pack=4
    )
