"""Conversions, as the table at the top of `tile/ir/semantics/cast.py` defines them.

LLVM has no instructions for rounding toward zero, and none for 8-bit floats: a conversion to these
that would need rounding twice is refused.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tile.codegen.llvm.arith import each, suffix
from tile.codegen.llvm.function_builder import FunctionBuilder, Rule
from tile.codegen.llvm.narrow_floats import narrow, wide
from tile.codegen.llvm.types import is_integer, literal, llvm_type, number_of
from tile.errors import UnsupportedError
from tile.ir.core import Operation
from tile.ir.op_definition import OpDef
from tile.ir.ops import arith
from tile.ir.ops.arith import Rounding
from tile.ir.types import BF16, F32, F64, I1, Kind, Pointer, Scalar

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
    needs_odd_rounding = to.is_fp8() and (source is F64 or source.kind is not Kind.FLOAT)
    if rounding is Rounding.RTZ or needs_odd_rounding:
        raise UnsupportedError(f"LLVM has no conversion of {source} to {to} {rounding}")
    if to is I1:
        return to_bool
    if source.kind is Kind.FLOAT:
        return _between_floats if to.kind is Kind.FLOAT else _to_integer
    return _to_float if to.kind is Kind.FLOAT else between_integers


def _between_floats(builder: FunctionBuilder, source: Scalar, to: Scalar, x: str) -> str:
    if F64 not in (source, to):
        return narrow(builder, to, wide(builder, source, x))
    if source.is_fp8():
        source, x = F32, wide(builder, source, x)
    kind = "fptrunc" if source is F64 else "fpext"
    return builder.new(f"{kind} {llvm_type(source)} {x} to {llvm_type(to)}")


def _to_integer(builder: FunctionBuilder, source: Scalar, to: Scalar, x: str) -> str:
    """Truncate toward zero and saturate; a NaN gives 0."""
    if source.is_fp8():
        source, x = F32, wide(builder, source, x)
    before, after = llvm_type(source), llvm_type(to)
    name = f"@llvm.fpto{'s' if to.is_int_signed() else 'u'}i.sat.{after}.{suffix(source)}"
    return builder.call(name, after, (before, x))


def _to_float(builder: FunctionBuilder, source: Scalar, to: Scalar, x: str) -> str:
    kind = "sitofp" if source.is_int_signed() else "uitofp"
    return builder.new(f"{kind} {llvm_type(source)} {x} to {llvm_type(to)}")


def to_bool(builder: FunctionBuilder, source: Scalar, to: Scalar, x: str) -> str:
    """Return True for anything but zero; a NaN is True."""
    ty = llvm_type(source)
    if source.is_fp8():
        x = builder.new(f"and i8 {x}, 127")
    elif source is BF16:
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
    return builder.new(f"{'sext' if source.is_int_signed() else 'zext'} {before} {x} to {after}")


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
