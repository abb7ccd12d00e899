"""Conversions, as the table at the top of `tile/ir/semantics/cast.py` defines them.

8-bit floats are converted by instructions where the architecture has them.
"""

from __future__ import annotations

from tile.backends.nvptx.emit.function_builder import FunctionBuilder
from tile.backends.nvptx.emit.inline_asm import assemble
from tile.backends.nvptx.emit.vectors import pack, unpack, words_of
from tile.codegen.llvm import convert as llvm
from tile.codegen.llvm.convert import Convert, between_integers, to_bool
from tile.codegen.llvm.function_builder import Registers, Rule
from tile.codegen.llvm.types import llvm_type
from tile.ir.core import Operation
from tile.ir.op_definition import OpDef
from tile.ir.ops import arith
from tile.ir.ops.arith import Rounding
from tile.ir.types import BF16, F8E4M3, F8E5M2, F16, F32, F64, I1, Kind, Pointer, Scalar

# The floats that hold all numbers of f8e4m3, as f16 does.
_FROM_F16 = (F16, BF16, F32)


def cast(builder: FunctionBuilder, op: Operation) -> None:
    """Convert values to another type; 8-bit floats from whole 32-bit registers."""
    (x,) = op.inputs
    registers, source, to = builder.of(x), x.type.element, op["to"]
    if has_fp8_conversion(builder, source) and to in _FROM_F16 and len(registers) % 4 == 0:
        numbers = unpack(builder, F16, fp8_as_f16(builder, source, registers))
        builder.set(op, [_between_floats(builder, F16, to, number) for number in numbers])
        return
    words = words_of(builder, "bfloat", registers) if (source, to) == (BF16, F32) else None
    if words is not None:
        builder.set(op, [number for word in words for number in _bf16_pair_as_f32(builder, word)])
        return
    llvm.cast(builder, op, _conversion)


def _bf16_pair_as_f32(builder: FunctionBuilder, word: str) -> tuple[str, str]:
    """Convert two bf16 in an i32: each is the upper half of an f32.

    Of a single bf16, ptxas moves the upper half of its register down, and up again.
    """
    bits = builder.new(f"shl i32 {word}, 16"), builder.new(f"and i32 {word}, {0xFFFF0000}")
    low, high = (builder.new(f"bitcast i32 {half} to float") for half in bits)
    return low, high


def _conversion(source: Scalar, to: Scalar, rounding: Rounding) -> Convert:
    if rounding is Rounding.RTZ:
        return _toward_zero
    if to is I1:
        return to_bool
    if source.kind is Kind.FLOAT:
        return _between_floats if to.kind is Kind.FLOAT else _to_integer
    return _to_float if to.kind is Kind.FLOAT else between_integers


# -- between floats


def _between_floats(builder: FunctionBuilder, source: Scalar, to: Scalar, x: str) -> str:
    """Round once; from f64 to fewer than 16 bits of significand through f32, rounded to odd."""
    if source is F64 and (to is BF16 or to.is_fp8()):
        return narrow(builder, to, _round_to_odd(builder, x))
    if F64 in (source, to):
        if source.is_fp8():
            source, x = F32, wide(builder, source, x)
        kind = "fptrunc" if source is F64 else "fpext"
        return builder.new(f"{kind} {llvm_type(source)} {x} to {llvm_type(to)}")
    if source is to:
        return x
    return narrow(builder, to, wide(builder, source, x))


def _round_to_odd(builder: FunctionBuilder, x: str) -> str:
    """Round an f64 to f32: an inexact one to the adjacent number whose last bit is 1.

    Rounding the result to a narrower float then gives what rounding the f64 directly would.
    """
    rounded = builder.call("@llvm.nvvm.d2f.rz", "float", ("double", x))
    back = builder.new(f"fpext float {rounded} to double")
    inexact = builder.new(f"fcmp une double {back}, {x}")
    return _set_last_bit(builder, rounded, inexact)


def _set_last_bit(builder: FunctionBuilder, x: str, condition: str) -> str:
    bits = builder.new(f"bitcast float {x} to i32")
    bits = builder.new(f"or i32 {bits}, {builder.new(f'zext i1 {condition} to i32')}")
    return builder.new(f"bitcast i32 {bits} to float")


def _toward_zero(builder: FunctionBuilder, source: Scalar, to: Scalar, x: str) -> str:
    if to.is_fp8():
        return _fp8_toward_zero(builder, source, to, x)
    if source is F64 and to is not F16:
        x = builder.call("@llvm.nvvm.d2f.rz", "float", ("double", x))
        if to is F32:
            return x
    if to is BF16:
        return _truncate_to_bf16(builder, x)
    ty = "double" if source is F64 else "float"
    kind = "f64" if source is F64 else "f32"
    (bits,) = assemble(builder, f"cvt.rz.f16.{kind} $0, $1;", ["i16"], [(ty, x)])
    return builder.new(f"bitcast i16 {bits} to half")


def _truncate_to_bf16(builder: FunctionBuilder, x: str) -> str:
    """Return the upper half of an f32 as bf16; a NaN stays a NaN."""
    bits = builder.new(f"bitcast float {x} to i32")
    high = builder.new(f"trunc i32 {builder.new(f'lshr i32 {bits}, 16')} to i16")
    is_nan = builder.new(f"fcmp uno float {x}, {x}")
    bits = builder.new(f"select i1 {is_nan}, i16 32704, i16 {high}")
    return builder.new(f"bitcast i16 {bits} to bfloat")


def _fp8_toward_zero(builder: FunctionBuilder, source: Scalar, to: Scalar, x: str) -> str:
    """Round to nearest, and step down by one where the magnitude grew."""
    if source is F64:
        x = builder.call("@llvm.nvvm.d2f.rz", "float", ("double", x))
    else:
        x = wide(builder, source, x)
    nearest = narrow(builder, to, x)
    rounded, exact = (
        builder.call("@llvm.fabs.f32", "float", ("float", value))
        for value in (wide(builder, to, nearest), x)
    )
    grew = builder.new(f"fcmp ogt float {rounded}, {exact}")
    return builder.new(f"sub i8 {nearest}, {builder.new(f'zext i1 {grew} to i8')}")


# -- from floats to integers

# By (bits of the float, bits of the integer, signed). All of these truncate and saturate.
_TRUNCATE = {
    (32, 32, True): "f2i",
    (32, 32, False): "f2ui",
    (32, 64, True): "f2ll",
    (32, 64, False): "f2ull",
    (64, 32, True): "d2i",
    (64, 32, False): "d2ui",
    (64, 64, True): "d2ll",
    (64, 64, False): "d2ull",
}


def _to_integer(builder: FunctionBuilder, source: Scalar, to: Scalar, x: str) -> str:
    """Truncate toward zero and saturate; a NaN gives 0."""
    x = wide(builder, source, x)
    ty = "double" if source is F64 else "float"
    bits, signed = max(32, to.bits), to.is_int_signed()
    name = f"@llvm.nvvm.{_TRUNCATE[64 if source is F64 else 32, bits, signed]}.rz"
    wide_ty = f"i{bits}"
    result = builder.call(name, wide_ty, (ty, x))
    # The instruction gives 0 for a NaN only where neither type has 64 bits.
    if source is F64 or bits == 64:
        is_nan = builder.new(f"fcmp uno {ty} {x}, {x}")
        result = builder.new(f"select i1 {is_nan}, {wide_ty} 0, {wide_ty} {result}")
    if to.bits == bits:
        return result
    sign = "s" if signed else "u"
    if signed:
        low = (wide_ty, str(to.min_value))
        result = builder.call(f"@llvm.smax.{wide_ty}", wide_ty, (wide_ty, result), low)
    high = (wide_ty, str(to.max_value))
    result = builder.call(f"@llvm.{sign}min.{wide_ty}", wide_ty, (wide_ty, result), high)
    return builder.new(f"trunc {wide_ty} {result} to {llvm_type(to)}")


# -- from integers to floats


def _to_float(builder: FunctionBuilder, source: Scalar, to: Scalar, x: str) -> str:
    """Round once; to bf16 and fp8 through an f32 that is exact or rounded to odd."""
    ty = llvm_type(source)
    kind = "sitofp" if source.is_int_signed() else "uitofp"
    if to in (F16, F32, F64):
        return builder.new(f"{kind} {ty} {x} to {llvm_type(to)}")
    if source.bits <= 16:
        return narrow(builder, to, builder.new(f"{kind} {ty} {x} to float"))
    return narrow(builder, to, _integer_to_odd(builder, source, x))


_TO_F32_RZ = {(32, True): "i2f", (32, False): "ui2f", (64, True): "ll2f", (64, False): "ull2f"}


def _integer_to_odd(builder: FunctionBuilder, source: Scalar, x: str) -> str:
    """Round an integer to f32: truncated, with a last bit of 1 if that lost bits."""
    ty = llvm_type(source)
    signed = source.is_int_signed()
    truncated = builder.call(f"@llvm.nvvm.{_TO_F32_RZ[source.bits, signed]}.rz", "float", (ty, x))
    back = builder.new(f"{'fptosi' if signed else 'fptoui'} float {truncated} to {ty}")
    return _set_last_bit(builder, truncated, builder.new(f"icmp ne {ty} {back}, {x}"))


RULES: dict[OpDef, Rule] = {**llvm.RULES, arith.cast: cast}


_PTX = {F8E4M3: "e4m3x2", F8E5M2: "e5m2x2"}


def has_fp8_conversion(builder: FunctionBuilder, element: Scalar | Pointer) -> bool:
    """Return True if an instruction converts two 8-bit floats of an element to f16."""
    return element is F8E4M3 and builder.module.arch.fp8


def wide(builder: FunctionBuilder, element: Scalar | Pointer, x: str) -> str:
    """Convert a float to f32, exactly; f32 and f64 stay as they are."""
    if not has_fp8_conversion(builder, element):
        return llvm.wide(builder, element, x)
    pair = builder.new(f"zext i8 {x} to i16")
    (f16x2,) = assemble(builder, "cvt.rn.f16x2.e4m3x2 $0, $1;", ["i32"], [("i16", pair)])
    return llvm.first_of_f16x2(builder, f16x2)


def narrow(builder: FunctionBuilder, element: Scalar | Pointer, x: str) -> str:
    """Round an f32 to nearest even in a narrower float; see `codegen/llvm/convert.py`."""
    if not element.is_fp8() or not builder.module.arch.fp8:
        return llvm.narrow(builder, element, x)
    assert isinstance(element, Scalar)
    text = f"cvt.rn.satfinite.{_PTX[element]}.f32 $0, $1, $2;"
    zero = "0x0000000000000000"
    (pair,) = assemble(builder, text, ["i16"], [("float", zero), ("float", x)])
    return builder.new(f"trunc i16 {pair} to i8")


def fp8_as_f16(
    builder: FunctionBuilder, element: Scalar | Pointer, registers: Registers
) -> Registers:
    """Convert 8-bit floats to f16, exactly, two to a 32-bit register.

    Their number is a multiple of 4: of two bytes in a register of 16 bits, LLVM would compute the
    register from each byte, although both halves of a 32-bit register can be converted as they are.
    """
    results = []
    for ty, register in pack(builder, element, registers):
        if has_fp8_conversion(builder, element):
            results += assemble(builder, _CONVERT_WORD, ["i32"] * 2, [(ty, register)])
            continue
        for selector in _HIGH_BYTES:
            operands = ((ty, register), ("i32", "0"), ("i32", str(selector)))
            spread = builder.call("@llvm.nvvm.prmt", "i32", *operands)
            results.append(llvm.f16x2(builder, element, spread))
    return results


_CONVERT_WORD = (
    "{ .reg .b16 low, high; mov.b32 {low, high}, $2; "
    "cvt.rn.f16x2.e4m3x2 $0, low; cvt.rn.f16x2.e4m3x2 $1, high; }"
)
# Selectors of `prmt` for a register and zero (bytes 4 to 7): the first two bytes of the register,
# and the last two, each above a zero byte.
_HIGH_BYTES = (0x1404, 0x3424)
