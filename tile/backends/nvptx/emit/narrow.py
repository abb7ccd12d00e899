"""Floats of 8 and 16 bits to and from f32, the format they are computed in."""

from __future__ import annotations

from tile.backends.nvptx.emit.assembler import assemble
from tile.backends.nvptx.emit.body import Body, Registers
from tile.backends.nvptx.emit.types import llvm_type
from tile.backends.nvptx.emit.words import pack
from tile.ir.types import BF16, F8E4M3, F8E5M2, F16, F32, F64, FP8, Pointer, Scalar

_PTX = {F8E4M3: "e4m3x2", F8E5M2: "e5m2x2"}


def wide(body: Body, element: Scalar | Pointer, x: str) -> str:
    """A float as f32, exactly; f32 and f64 as they are."""
    if element in (F32, F64):
        return x
    if element in FP8:
        return _from_fp8(body, element, x)
    return body.new(f"fpext {llvm_type(element)} {x} to float")


def narrow(body: Body, element: Scalar | Pointer, x: str) -> str:
    """An f32 as another float of at most its size, to nearest even; f32 and f64 as they are."""
    if element in (F32, F64):
        return x
    if element in FP8:
        return _to_fp8(body, element, x)
    return body.new(f"fptrunc float {x} to {llvm_type(element)}")


# -- floats of 8 bits


def _to_fp8(body: Body, element: Scalar | Pointer, x: str) -> str:
    """To nearest even; what is too large becomes the largest finite number."""
    assert isinstance(element, Scalar)
    if not body.module.arch.fp8:
        name = f"@tile.to.{element.name}"
        body.module.declare(name, _TO_FP8[element])
        return body.call(name, "i8", ("float", x))
    text = f"cvt.rn.satfinite.{_PTX[element]}.f32 $0, $1, $2;"
    zero = "0x0000000000000000"
    (both,) = assemble(body, text, ["i16"], [("float", zero), ("float", x)])
    return body.new(f"trunc i16 {both} to i8")


def _from_fp8(body: Body, element: Scalar | Pointer, x: str) -> str:
    if element is F8E4M3 and body.module.arch.fp8:
        both = body.new(f"zext i8 {x} to i16")
        (halves,) = assemble(body, "cvt.rn.f16x2.e4m3x2 $0, $1;", ["i32"], [("i16", both)])
    else:
        halves = _halves(body, element, body.new(f"shl i32 {body.new(f'zext i8 {x} to i32')}, 8"))
    half = body.new(f"bitcast i16 {body.new(f'trunc i32 {halves} to i16')} to half")
    return body.new(f"fpext half {half} to float")


def fp8_as_f16(body: Body, element: Scalar | Pointer, registers: Registers) -> Registers:
    """8-bit floats as f16, which holds them all, two in a word."""
    together = 2 if element is F8E4M3 and body.module.arch.fp8 else 4
    words = []
    for ty, word in pack(body, element, registers, 8 * together):
        if together == 2:
            words += assemble(body, "cvt.rn.f16x2.e4m3x2 $0, $1;", ["i32"], [(ty, word)])
            continue
        for spread in _SPREAD:
            operands = ((ty, word), ("i32", "0"), ("i32", str(spread)))
            words.append(_halves(body, element, body.call("@llvm.nvvm.prmt", "i32", *operands)))
    return words


# Which bytes of a word and of zeros, from 4 on, are put together: a zero below each of the first
# two of the word, and of the last two.
_SPREAD = (0x1404, 0x3424)


def _halves(body: Body, element: Scalar | Pointer, x: str) -> str:
    """Two 8-bit floats, in the upper bytes of the halves of a word, as f16."""
    if element is F8E5M2:
        return x
    body.module.declare(_E4M3_AS_F16, _FROM_E4M3)
    return body.call(_E4M3_AS_F16, "i32", ("i32", x))


def _both(half: int) -> int:
    """A number in both halves of a word."""
    return half << 16 | half


def _to_fp8_code(name: str, most: int, least: int, dropped: int, offset: int, magic: str) -> str:
    """A function that rounds an f32 to an 8-bit float.

    `most` and `least` are the bits of the largest and of the smallest normal number, `dropped` is
    how many bits of the significand go, and `offset` is the exponent's change. Adding `magic`
    rounds a subnormal number at the right bit.
    """
    half = (1 << (dropped - 1)) - 1
    return f"""define internal i8 @tile.to.{name}(float %x) alwaysinline {{
  %bits = bitcast float %x to i32
  %high = lshr i32 %bits, 24
  %sign = and i32 %high, 128
  %size = and i32 %bits, 2147483647
  %missing = icmp ugt i32 %size, 2139095040
  %over = icmp ugt i32 %size, {most}
  %clipped = select i1 %over, i32 {most}, i32 %size
  %shifted = lshr i32 %clipped, {dropped}
  %odd = and i32 %shifted, 1
  %up = add i32 %clipped, {half}
  %even = add i32 %up, %odd
  %cut = lshr i32 %even, {dropped}
  %normal = sub i32 %cut, {offset}
  %number = bitcast i32 %clipped to float
  %sum = fadd float %number, {magic}
  %sumbits = bitcast float %sum to i32
  %magicbits = bitcast float {magic} to i32
  %subnormal = sub i32 %sumbits, %magicbits
  %small = icmp ult i32 %clipped, {least}
  %value = select i1 %small, i32 %subnormal, i32 %normal
  %either = select i1 %missing, i32 127, i32 %value
  %signed = or i32 %either, %sign
  %result = trunc i32 %signed to i8
  ret i8 %result
}}"""


_TO_FP8 = {
    # 448, 2^-6, and 2^14: subnormal numbers are multiples of 2^-9.
    F8E4M3: _to_fp8_code("f8e4m3", 0x43E00000, 0x3C800000, 20, 120 << 3, "0x40D0000000000000"),
    # 57344, 2^-14, and 2^7: multiples of 2^-16.
    F8E5M2: _to_fp8_code("f8e5m2", 0x47600000, 0x38800000, 21, 112 << 2, "0x4060000000000000"),
}

# The exponent of an f16 counts from 8 more; subnormal numbers are the same there. The one pattern
# that is no number, all ones, gets the exponent that says so.
_E4M3_AS_F16 = "@tile.f16.from.f8e4m3"
_FROM_E4M3 = f"""define internal i32 {_E4M3_AS_F16}(i32 %x) alwaysinline {{
  %sign = and i32 %x, {_both(0x8000)}
  %bits = and i32 %x, {_both(0x7F00)}
  %size = lshr i32 %bits, 1
  %above = add i32 %size, {_both(0x0080)}
  %missing = and i32 %above, {_both(0x4000)}
  %known = or i32 %sign, %size
  %either = or i32 %known, %missing
  %halves = bitcast i32 %either to <2 x half>
  %numbers = fmul <2 x half> %halves, <half 0xH5C00, half 0xH5C00>
  %result = bitcast <2 x half> %numbers to i32
  ret i32 %result
}}"""

WIDE = (F16, BF16, *FP8)
