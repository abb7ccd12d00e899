"""Casts and bitcasts."""

from __future__ import annotations

from collections.abc import Callable

from tile.backends.opencl.emit.arith import Element, bits_of, element_of, narrow, wide
from tile.backends.opencl.emit.function_builder import FunctionBuilder, Rule, each
from tile.backends.opencl.emit.types import (
    constant,
    is_bits,
    is_integer,
    is_literal,
    natural,
    stored,
    unsigned,
    value_of,
)
from tile.ir.core import Operation
from tile.ir.op_definition import OpDef
from tile.ir.ops import arith
from tile.ir.ops.arith import Rounding
from tile.ir.types import F32, F64, I1, Pointer, Scalar


def cast(builder: FunctionBuilder, op: Operation) -> None:
    """Emit a cast, whose reference semantics is in `tile/ir/semantics/cast.py`."""
    source, to = element_of(op), op["to"]
    builder.source.check(to)
    if source == to:
        builder.set(op, builder.of(op.inputs[0]))
        return
    convert = _conversion(builder, source, to, op["rounding"])
    each(builder, op, convert)


def _conversion(
    builder: FunctionBuilder, source: Element, to: Scalar, rounding: Rounding
) -> Callable[..., str]:
    if to is I1:
        return lambda x: _is_nonzero(builder, source, x)
    if to.is_floating():
        if not source.is_floating():
            kind = "float" if to is F32 else "double"
            return lambda x: f"({kind}){natural(source, x)}"
        return lambda x: _float_of_float(builder, source, to, x, rounding)
    if source is I1:
        return lambda x: f"({unsigned(to.bits)}){x}"
    if is_integer(source):
        return lambda x: f"({unsigned(to.bits)}){natural(source, x)}"
    return lambda x: _integer_of_float(to, wide(builder, source, x))


def _integer_of_float(to: Scalar, x: str) -> str:
    """Saturate, and convert a NaN to 0.

    The OpenCL specification recommends 0 for NaN, but no runtime does it for all types.
    """
    return f"(isnan({x}) ? 0 : convert_{stored(to, True)}_sat({x}))"


def _is_nonzero(builder: FunctionBuilder, source: Element, x: str) -> str:
    if is_bits(source, builder.source.device.fp16):
        return f"({x} & 0x{(1 << (source.bits - 1)) - 1:x}) != 0"
    return f"{x} != 0"


def _float_of_float(
    builder: FunctionBuilder, source: Element, to: Scalar, x: str, rounding: Rounding
) -> str:
    """Convert with one rounding; the pass `legalize` has removed casts that would need two."""
    if to is F64:
        return f"(double)({wide(builder, source, x)})"
    zero = rounding is Rounding.RTZ
    if source is F64:
        return f"convert_float_rtz({x})" if zero else f"(float){x}"
    if not zero:
        return narrow(builder, to, wide(builder, source, x))
    if is_bits(to, builder.source.device.fp16):
        return f"{builder.use('f32_to_f16_rtz')}({x})"
    return f"convert_half_rtz({x})"


# -- bits


def bitcast(builder: FunctionBuilder, op: Operation) -> None:
    """Emit a bitcast; a pointer is a 64-bit integer."""
    source, to = element_of(op), op["to"]
    source_type, result_type = builder.source.carrier(source), builder.source.carrier(to)
    if is_integer(source) and is_integer(to):
        if builder.is_array(op.result):
            each(builder, op, lambda x: _reread(x, to))
        else:
            builder.set(op, [_reread(x, to) for x in builder.of(op.inputs[0])])
    elif source_type == result_type:
        builder.set(op, builder.of(op.inputs[0]))
    elif isinstance(source, Pointer) or isinstance(to, Pointer):
        each(builder, op, lambda x: _pointer_cast(source, result_type, x))
    elif source is I1 or to is I1:
        each(builder, op, lambda x: f"({result_type}){x}")
    elif source.is_floating() and not is_bits(source, builder.source.device.fp16):
        each(builder, op, lambda x: bits_of(builder, source, x))
    else:
        each(builder, op, lambda x: f"as_{result_type}(({source_type}){x})")


def _reread(x: str, to: Scalar) -> str:
    """Return an integer operand as another type of its width: a literal has its type's sign."""
    if not is_literal(x):
        return x
    number = value_of(x) & ((1 << to.bits) - 1)
    return constant(number - (1 << to.bits) if number > to.max_value else number, to, True)


def _pointer_cast(source: Element, result_type: str, x: str) -> str:
    if source is F64:
        return f"({result_type})as_ulong({x})"
    if result_type == "double":
        return f"as_double((ulong){x})"
    return f"({result_type}){x}"


RULES: dict[OpDef, Rule] = {arith.cast: cast, arith.bitcast: bitcast}
