"""Conversions, as the table at the top of `tile/ir/semantics/cast.py` defines them.

8-bit floats are converted by instructions where the architecture has them.
"""

from __future__ import annotations

from tile.backends.nvptx.emit.function_builder import FunctionBuilder
from tile.backends.nvptx.emit.inline_asm import assemble
from tile.backends.nvptx.emit.vectors import pack, unpack, words_of
from tile.codegen.llvm import convert as llvm
from tile.codegen.llvm.convert import (
    Convert,
    between_floats,
    between_integers,
    to_bool,
    to_float,
)
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
    return to_float if to.kind is Kind.FLOAT else between_integers


# -- between floats


def _between_floats(builder: FunctionBuilder, source: Scalar, to: Scalar, x: str) -> str:
    if source is to:
        return x
    if F64 in (source, to):
        return between_floats(builder, source, to, x)
    return narrow(builder, to, wide(builder, source, x))


def _toward_zero(builder: FunctionBuilder, source: Scalar, to: Scalar, x: str) -> str:
    """Round f64 to f32, or f32 to f16."""
    if to is F32:
        return builder.call("@llvm.nvvm.d2f.rz", "float", ("double", x))
    (bits,) = assemble(builder, "cvt.rz.f16.f32 $0, $1;", ["i16"], [("float", x)])
    return builder.new(f"bitcast i16 {bits} to half")


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
