"""8-bit floats by instructions; `tile/codegen/llvm/narrow_floats.py` has what needs none."""

from __future__ import annotations

from tile.backends.nvptx.emit.function_builder import FunctionBuilder
from tile.backends.nvptx.emit.inline_asm import assemble
from tile.backends.nvptx.emit.vectors import pack
from tile.codegen.llvm import narrow_floats as llvm
from tile.codegen.llvm.function_builder import Registers
from tile.ir.types import F8E4M3, F8E5M2, Pointer, Scalar

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
    """Round an f32 to nearest even in a narrower float; see `codegen/llvm/narrow_floats.py`."""
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
