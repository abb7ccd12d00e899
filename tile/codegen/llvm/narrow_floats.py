"""8-bit and 16-bit floats to and from f32, the format in which they are computed.

LLVM has no 8-bit floats. They are converted by integer arithmetic, in functions that are inlined.
"""

from __future__ import annotations

from tile.codegen.llvm.function_builder import FunctionBuilder
from tile.codegen.llvm.types import llvm_type
from tile.ir.types import F8E4M3, F8E5M2, F32, F64, Pointer, Scalar


def wide(builder: FunctionBuilder, element: Scalar | Pointer, x: str) -> str:
    """Convert a float to f32, exactly; f32 and f64 stay as they are."""
    if element in (F32, F64):
        return x
    if not element.is_fp8():
        return builder.new(f"fpext {llvm_type(element)} {x} to float")
    high_byte = builder.new(f"shl i32 {builder.new(f'zext i8 {x} to i32')}, 8")
    return first_of_f16x2(builder, f16x2(builder, element, high_byte))


def narrow(builder: FunctionBuilder, element: Scalar | Pointer, x: str) -> str:
    """Round an f32 to nearest even in a narrower float; f32 and f64 stay as they are.

    What is too large for 8 bits becomes the largest finite number.
    """
    if element in (F32, F64):
        return x
    if not element.is_fp8():
        return builder.new(f"fptrunc float {x} to {llvm_type(element)}")
    assert isinstance(element, Scalar)
    name = f"@tile.to.{element.ir_name}"
    builder.module.declare(name, _TO_FP8[element])
    return builder.call(name, "i8", ("float", x))


def first_of_f16x2(builder: FunctionBuilder, pair: str) -> str:
    """Return the first of two f16, which are in an i32, as f32."""
    f16 = builder.new(f"bitcast i16 {builder.new(f'trunc i32 {pair} to i16')} to half")
    return builder.new(f"fpext half {f16} to float")


def f16x2(builder: FunctionBuilder, element: Scalar | Pointer, x: str) -> str:
    """Convert two 8-bit floats, in the upper bytes of 16-bit halves, to two f16."""
    if element is F8E5M2:
        return x
    builder.module.declare(_E4M3_AS_F16, _FROM_E4M3)
    return builder.call(_E4M3_AS_F16, "i32", ("i32", x))


def _repeat_16(half: int) -> int:
    """Return a number with the same 16 bits in both halves of its 32."""
    return half << 16 | half


def _to_fp8_code(name: str, most: int, least: int, dropped: int, offset: int, magic: str) -> str:
    """Return the text of a function that rounds an f32 to an 8-bit float.

    `most` and `least` are the bits of the largest number and of the smallest normal one, `dropped`
    is how many bits of the significand go, and `offset` is the change of the exponent. Adding
    `magic` rounds a subnormal number at the right bit.
    """
    half = (1 << (dropped - 1)) - 1
    return f"""define internal i8 @tile.to.{name}(float %x) alwaysinline {{
  %bits = bitcast float %x to i32
  %high = lshr i32 %bits, 24
  %sign = and i32 %high, 128
  %size = and i32 %bits, 2147483647
  %is_nan = icmp ugt i32 %size, 2139095040
  %over = icmp ugt i32 %size, {most}
  %clipped = select i1 %over, i32 {most}, i32 %size
  %shifted = lshr i32 %clipped, {dropped}
  %odd = and i32 %shifted, 1
  %up = add i32 %clipped, {half}
  %even = add i32 %up, %odd
  %cut = lshr i32 %even, {dropped}
  %normal = sub i32 %cut, {offset}
  %clipped_float = bitcast i32 %clipped to float
  %sum = fadd float %clipped_float, {magic}
  %sumbits = bitcast float %sum to i32
  %magicbits = bitcast float {magic} to i32
  %subnormal = sub i32 %sumbits, %magicbits
  %small = icmp ult i32 %clipped, {least}
  %value = select i1 %small, i32 %subnormal, i32 %normal
  %either = select i1 %is_nan, i32 127, i32 %value
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

# The exponent bias of f16 is 8 more; the subnormal numbers are the same. The only NaN pattern, all
# ones, gets the exponent of a NaN.
_E4M3_AS_F16 = "@tile.f16.from.f8e4m3"
_FROM_E4M3 = f"""define internal i32 {_E4M3_AS_F16}(i32 %x) alwaysinline {{
  %sign = and i32 %x, {_repeat_16(0x8000)}
  %bits = and i32 %x, {_repeat_16(0x7F00)}
  %size = lshr i32 %bits, 1
  %above = add i32 %size, {_repeat_16(0x0080)}
  %is_nan = and i32 %above, {_repeat_16(0x4000)}
  %number = or i32 %sign, %size
  %either = or i32 %number, %is_nan
  %scaled = bitcast i32 %either to <2 x half>
  %numbers = fmul <2 x half> %scaled, <half 0xH5C00, half 0xH5C00>
  %result = bitcast <2 x half> %numbers to i32
  ret i32 %result
}}"""
