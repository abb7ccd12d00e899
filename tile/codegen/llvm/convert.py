"""Conversions, as the table at the top of `tile/ir/semantics/cast.py` defines them.

The pass `legalize` has removed conversions that would round twice. LLVM has no instructions for
rounding toward zero, which is refused, and none for 8-bit floats. These are converted by integer
arithmetic, in functions that are inlined, to and from f32, the format in which they are computed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tile.codegen.llvm.arith import as_sum, each, suffix
from tile.codegen.llvm.function_builder import FunctionBuilder, Rule
from tile.codegen.llvm.types import is_integer, literal, llvm_type
from tile.errors import UnsupportedError
from tile.ir.core import Operation
from tile.ir.op_definition import OpDef
from tile.ir.ops import arith
from tile.ir.ops.arith import Rounding
from tile.ir.types import BF16, F8E4M3, F8E5M2, F32, F64, I1, Kind, Pointer, Scalar, number_of


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


Convert = Callable[[Any, Scalar, Scalar, str], str]  # of a target's `FunctionBuilder`
Choose = Callable[[Scalar, Scalar, Rounding], Convert]


def cast(builder: FunctionBuilder, op: Operation, choose: Choose | None = None) -> None:
    """Convert values to another type; `choose` returns the conversion for two types."""
    source, to = number_of(op.inputs[0].type), op["to"]
    if source == to:
        builder.set(op, builder.of(op.inputs[0]))
        return
    convert = (choose or _conversion)(source, to, op["rounding"])
    each(builder, op, lambda x: convert(builder, source, to, x))


def _conversion(source: Scalar, to: Scalar, rounding: Rounding) -> Convert:
    if rounding is Rounding.RTZ:
        raise UnsupportedError(f"LLVM has no conversion of {source} to {to} {rounding}")
    if to is I1:
        return to_bool
    if source.kind is Kind.FLOAT:
        return between_floats if to.kind is Kind.FLOAT else _to_integer
    return to_float if to.kind is Kind.FLOAT else between_integers


def between_floats(builder: FunctionBuilder, source: Scalar, to: Scalar, x: str) -> str:
    """Round to nearest even, or extend."""
    if F64 not in (source, to):
        return narrow(builder, to, wide(builder, source, x))
    kind = "fptrunc" if source is F64 else "fpext"
    return builder.new(f"{kind} {llvm_type(source)} {x} to {llvm_type(to)}")


def _to_integer(builder: FunctionBuilder, source: Scalar, to: Scalar, x: str) -> str:
    """Truncate toward zero and saturate; a NaN gives 0."""
    before, after = llvm_type(source), llvm_type(to)
    name = f"@llvm.fpto{'s' if to.is_int_signed() else 'u'}i.sat.{after}.{suffix(source)}"
    return builder.call(name, after, (before, x))


def to_float(builder: FunctionBuilder, source: Scalar, to: Scalar, x: str) -> str:
    """Convert an integer, with one rounding."""
    kind = "sitofp" if source.is_int_signed() else "uitofp"
    return builder.new(f"{kind} {llvm_type(source)} {x} to {llvm_type(to)}")


def to_bool(builder: FunctionBuilder, source: Scalar, to: Scalar, x: str) -> str:
    """Return True for anything but zero; a NaN is True."""
    ty = llvm_type(source)
    if source is BF16:
        bits = builder.new(f"bitcast bfloat {x} to i16")
        x, ty = builder.new(f"and i16 {bits}, 32767"), "i16"
    elif not is_integer(source):
        return builder.new(f"fcmp une {ty} {x}, {literal(0, source)}")
    return builder.new(f"icmp ne {ty} {x}, 0")


def between_integers(builder: FunctionBuilder, source: Scalar, to: Scalar, x: str) -> str:
    """Truncate, or extend by the signedness of the source."""
    before, after = llvm_type(source), llvm_type(to)
    if source.bits == to.bits:
        return x
    if source.bits > to.bits:
        return builder.new(f"trunc {before} {x} to {after}")
    text = f"{'sext' if source.is_int_signed() else 'zext'} {before} {x} to {after}"
    name = builder.new(text)
    builder.extensions.setdefault(name, (builder.block, text))
    base, number = as_sum(builder, x)
    if number and source.is_int_signed():
        builder.sums[name] = builder.new(f"sext {before} {base} to {after}"), number
    return name


# -- bits


def bitcast(builder: FunctionBuilder, op: Operation) -> None:
    """Reinterpret the bits as another type."""
    source: Scalar | Pointer = op.inputs[0].type.element
    before, after = llvm_type(source), llvm_type(op["to"])
    if before == after:
        builder.set(op, builder.of(op.inputs[0]))
        return
    each(builder, op, lambda x: builder.new(f"bitcast {before} {x} to {after}"))


RULES: dict[OpDef, Rule] = {arith.cast: cast, arith.bitcast: bitcast}
