"""Conversions of values and of bits."""

from __future__ import annotations

from collections.abc import Callable

from tile.backends.opencl.emit.arith import Element, element_of
from tile.backends.opencl.emit.body import Body, Rule, each
from tile.backends.opencl.emit.floats import narrow, wide
from tile.backends.opencl.emit.types import (
    constant,
    is_bits,
    is_integer,
    is_literal,
    is_signed,
    natural,
    stored,
    unsigned,
    value_of,
)
from tile.ir.core import Operation
from tile.ir.opdef import OpDef
from tile.ir.ops import arith
from tile.ir.ops.arith import Rounding
from tile.ir.types import F16, F32, F64, I1, Pointer, Scalar

_ODD = {8: "int", 16: "int", 32: "int", 64: "long"}


def cast(body: Body, op: Operation) -> None:
    """Each pair of types has one way; see `tile/ir/numerics/cast.py` for what it must give."""
    source, to = element_of(op), op["to"]
    body.source.check(to)
    if source == to:
        body.set(op, body.of(op.inputs[0]))
        return
    convert = _conversion(body, source, to, op["rounding"])
    each(body, op, convert)


def _conversion(body: Body, source: Element, to: Scalar, rounding: Rounding) -> Callable[..., str]:
    if to is I1:
        return lambda x: _truth(body, source, x)
    if to.is_floating():
        if source is I1:
            return lambda x: narrow(body, to, f"(float){x}") if to is not F64 else f"(double){x}"
        if is_integer(source):
            return lambda x: _float_of_integer(body, source, to, x)
        return lambda x: _float_of_float(body, source, to, x, rounding)
    if source is I1:
        return lambda x: f"({unsigned(to.bits)}){x}"
    if is_integer(source):
        return lambda x: f"({unsigned(to.bits)}){natural(source, x)}"
    return lambda x: _integer_of_float(to, wide(body, source, x))


def _integer_of_float(to: Scalar, x: str) -> str:
    """Saturated, and 0 of a NaN, which the standard recommends and no runtime gives throughout."""
    return f"(isnan({x}) ? 0 : convert_{stored(to, True)}_sat({x}))"


def _truth(body: Body, source: Element, x: str) -> str:
    if is_bits(source, body.source.device.fp16):
        return f"({x} & 0x{(1 << (source.bits - 1)) - 1:x}) != 0"
    return f"{x} != 0"


def _float_of_integer(body: Body, source: Element, to: Scalar, x: str) -> str:
    """Rounded once: to narrow floats from the f32 that is rounded to odd."""
    if to is F32 or to is F64:
        kind = "float" if to is F32 else "double"
        return f"({kind}){natural(source, x)}"
    if source.bits <= 16:
        return narrow(body, to, f"(float){natural(source, x)}")
    kind = ("" if is_signed(source) else "u") + _ODD[source.bits]
    return narrow(body, to, f"{body.use(f'{kind}_to_odd')}({natural(source, x)})")


def _float_of_float(body: Body, source: Element, to: Scalar, x: str, rounding: Rounding) -> str:
    zero = rounding is Rounding.RTZ
    if to is F64:
        return f"(double)({wide(body, source, x)})"
    if to is F32:
        if source is not F64:
            return wide(body, source, x)
        return f"convert_float_rtz({x})" if zero else f"(float){x}"
    if source is F64:
        x = f"convert_float_rtz({x})" if zero else f"{body.use('f64_to_odd')}({x})"
    else:
        x = wide(body, source, x)
    if not zero:
        return narrow(body, to, x)
    if to is F16 and not is_bits(to, body.source.device.fp16):
        return f"convert_half_rtz({x})"
    return f"{body.use(f'f32_to_{to}_rtz')}({x})"


# -- bits


def bitcast(body: Body, op: Operation) -> None:
    """The same bits; pointers as integers of 64."""
    source, to = element_of(op), op["to"]
    held, wanted = body.source.carrier(source), body.source.carrier(to)
    if is_integer(source) and is_integer(to):
        if body.rolled(op.result):
            each(body, op, lambda x: _reread(x, to))
        else:
            body.set(op, [_reread(x, to) for x in body.of(op.inputs[0])])
    elif held == wanted:
        body.set(op, body.of(op.inputs[0]))
    elif isinstance(source, Pointer) or isinstance(to, Pointer):
        each(body, op, lambda x: _pointer_cast(body, source, wanted, x))
    elif source is I1 or to is I1:
        each(body, op, lambda x: f"({wanted}){x}")
    else:
        each(body, op, lambda x: f"as_{wanted}(({held}){x})")


def _reread(x: str, to: Scalar) -> str:
    """A literal has the sign of its type."""
    if not is_literal(x):
        return x
    number = value_of(x) & ((1 << to.bits) - 1)
    return constant(number - (1 << to.bits) if number > to.max_value else number, to, True)


def _pointer_cast(body: Body, source: Element, wanted: str, x: str) -> str:
    if source is F64:
        return f"({wanted})as_ulong({x})"
    if wanted == "double":
        return f"as_double((ulong){x})"
    return f"({wanted}){x}"


RULES: dict[OpDef, Rule] = {arith.cast: cast, arith.bitcast: bitcast}
