"""Casts to and from the 8-bit floats that no machine converts, by integer operations.

Formats, as `tile/ir/semantics/cast.py` defines them:

    f8e4m3b15   bias 15; neither infinity nor NaN (Triton's float8e4b15)
    f8e4m3fnuz  bias 8; the only NaN is 0x80, and there is no -0 (float8e4b8)
    f8e5m2fnuz  bias 16; likewise (float8e5b16)

A cast from one of them goes through f32, or f16 if that has the same exponents, which is exact. A
cast to one of them rounds an f32 that equals the operand, or that is as far beyond the range of the
result, or that is the operand rounded to odd.
"""

from __future__ import annotations

from tile.ir.builder import Builder
from tile.ir.core import Operation, Value
from tile.ir.ops import arith
from tile.ir.ops.arith import Predicate, Rounding
from tile.ir.types import F8E4M3B15, F8E4M3FNUZ, F8E5M2FNUZ, F16, F32, F64, U8, U16, U32, Scalar
from tile.transforms.expressions import Encoding, Expression

SIGN = 0x80
BEYOND = 1 << 16  # more than the largest number of any of these formats, and exact in f32
ENCODINGS: dict[Scalar, Encoding] = {
    F8E4M3B15: Encoding(3, 15, saturated=0x7E, nan=0x7E, ties_away=True),
    F8E4M3FNUZ: Encoding(3, 8, saturated=0x7F, nan=SIGN),
    F8E5M2FNUZ: Encoding(2, 16, saturated=0x7F, nan=SIGN),
}


def is_emulated(op: Operation) -> bool:
    """Return True for a cast to or from a format of this module."""
    if op.defn is not arith.cast:
        return False
    return op.inputs[0].type.element in ENCODINGS or op["to"] in ENCODINGS


def expand_cast(build: Builder, op: Operation) -> Value:
    """Return the value of a cast for which `is_emulated` holds, computed by other operations."""
    x, to, rounding = Expression(build, op.inputs[0]), op["to"], op["rounding"]
    if x.element is to:
        return x.value
    if x.element in ENCODINGS:
        x = _decode(x, ENCODINGS[x.element])
    if to not in ENCODINGS:
        return x.cast(to).value
    return ENCODINGS[to].encode(_to_f32(x, rounding), rounding).cast(U8).view(to).value


def _decode(x: Expression, encoding: Encoding) -> Expression:
    """Return the numbers as f16 if that has the exponents of the format, else as f32."""
    code = x.view(U8)
    if encoding.bias != F16.exponent_bias:
        return encoding.decode(code.cast(U32))
    code = code.cast(U16)
    magnitude = (code & (SIGN - 1)) << (F16.fp_mantissa_width - encoding.mantissa)
    return (magnitude | ((code & SIGN) << 8)).view(F16)


def _to_f32(x: Expression, rounding: Rounding) -> Expression:
    """Return an f32 that rounds to the same 8-bit float as `x` does."""
    if x.element is F64:
        return _odd_f32(x, rounding)
    if x.element.is_int() and x.bits >= 32:
        x = x.minimum(BEYOND)
        x = x.maximum(-BEYOND) if x.is_signed else x
    return x.cast(F32)


def _odd_f32(x: Expression, rounding: Rounding) -> Expression:
    """Round f64 to f32: truncated, and with a last bit of 1 if that lost bits (round to odd).

    Rounding the result to a narrower float then equals rounding `x` itself.
    """
    cut = x.cast(F32, Rounding.RTZ)
    if rounding is Rounding.RTZ:
        return cut
    inexact = cut.cast(F64).is_(Predicate.NE, x)
    return (cut.view(U32) | inexact.cast(U32)).view(F32)
