"""Floats of 8 and 16 bits to and from f32, the format they are computed in."""

from __future__ import annotations

from tile.backends.nvptx.emit.assembler import assemble
from tile.backends.nvptx.emit.body import Body
from tile.backends.nvptx.emit.types import llvm_type
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
    if element is F8E5M2:
        bits = body.new(f"shl i16 {body.new(f'zext i8 {x} to i16')}, 8")
        return body.new(f"fpext half {body.new(f'bitcast i16 {bits} to half')} to float")
    if not body.module.arch.fp8:
        name = "@tile.from.f8e4m3"
        body.module.declare("@llvm.fabs.f32", "declare float @llvm.fabs.f32(float)")
        body.module.declare(name, _FROM_E4M3)
        return body.call(name, "float", ("i8", x))
    both = body.new(f"zext i8 {x} to i16")
    (pair,) = assemble(body, "cvt.rn.f16x2.e4m3x2 $0, $1;", ["i32"], [("i16", both)])
    half = body.new(f"bitcast i16 {body.new(f'trunc i32 {pair} to i16')} to half")
    return body.new(f"fpext half {half} to float")


def _to_fp8_code(name: str, most: int, least: int, dropped: int, offset: int, magic: str) -> str:
    """A function that rounds an f32 to an 8-bit float.

    `most` and `least` are the bits of the largest and of the smallest normal number, `dropped` is
    how many bits of the significand go, and `offset` is the exponent's change. Adding `magic`
    rounds a subnormal number at the right bit.
    """
    half = (1 << (dropped - 1)) - 1
    return f"""define internal i8 @tile.to.{name}(float %x) {{
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

# As the bits of an f16, whose exponent counts from 8 more; subnormal numbers are the same there.
_FROM_E4M3 = """define internal float @tile.from.f8e4m3(i8 %x) {
  %bits = zext i8 %x to i16
  %size = and i16 %bits, 127
  %sign = and i16 %bits, 128
  %low = shl i16 %size, 7
  %high = shl i16 %sign, 8
  %both = or i16 %low, %high
  %half = bitcast i16 %both to half
  %scaled = fpext half %half to float
  %number = fmul float %scaled, 0x4070000000000000
  %missing = icmp eq i16 %size, 127
  %result = select i1 %missing, float 0x7FF8000000000000, float %number
  ret float %result
}"""

WIDE = (F16, BF16, *FP8)
