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

from dataclasses import dataclass

from tile.ir.builder import Builder
from tile.ir.core import Operation, Value
from tile.ir.op_definition import OpDef
from tile.ir.ops import arith
from tile.ir.ops.arith import Predicate, Rounding
from tile.ir.types import (
    F8E4M3B15,
    F8E4M3FNUZ,
    F8E5M2FNUZ,
    F16,
    F32,
    F64,
    U8,
    U16,
    U32,
    Scalar,
    Type,
    with_element,
)

SIGN = 0x80
F32_BIAS, F32_MANTISSA = 127, 23
F32_INFINITY, F32_NAN = 0x7F800000, 0x7FC00000
BEYOND = 1 << 16  # more than the largest number of any of these formats, and exact in f32


@dataclass(frozen=True)
class Encoding:
    """The bits of a format. `saturated` are those of the number to which casts saturate."""

    mantissa: int
    bias: int
    saturated: int
    nan: int  # the bits that a NaN becomes
    ties_away: bool = False  # a cast rounds to nearest with ties away from zero, else to even

    @property
    def is_fnuz(self) -> bool:
        """Return True if the bits of a negative zero are a NaN."""
        return self.nan == SIGN

    @property
    def least(self) -> int:
        """The exponent field that the least normal number has as an f32."""
        return F32_BIAS + 1 - self.bias


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
    (x,), to, rounding = op.inputs, op["to"], op["rounding"]
    source = x.type.element
    if source is to:
        return x
    if source in ENCODINGS:
        x = _decode(build, x)
    if to not in ENCODINGS:
        return x if x.type.element is to else build(arith.cast, x, to=to)
    return _encode(build, _to_f32(build, x, rounding), to, rounding)


class _Integers:
    """Emits operations on integers of one type; Python integers become constants."""

    def __init__(self, build: Builder, like: Type, element: Scalar) -> None:
        self.build = build
        self.type = with_element(like, element)

    def value(self, x: Value | int) -> Value:
        return self.build.constant(x, self.type) if isinstance(x, int) else x

    def __call__(self, defn: OpDef, x: Value | int, y: Value | int) -> Value:
        return self.build(defn, self.value(x), self.value(y))

    def select(
        self, x: Value, predicate: Predicate, y: int, then: Value | int, otherwise: Value | int
    ) -> Value:
        """Return `then` where the comparison of `x` and `y` holds, else `otherwise`."""
        holds = self.build(arith.cmp, x, self.value(y), predicate=predicate)
        return self.build(arith.select, holds, self.value(then), self.value(otherwise))

    def shifted_bits(self, x: Value, mask: int, count: int) -> Value:
        """Return `(x & mask) << count`."""
        return self(arith.shl, self(arith.and_, x, mask), count)


def _decode(build: Builder, x: Value) -> Value:
    """Return the numbers as f16 if that has the exponents of the format, else as f32."""
    element = x.type.element
    assert isinstance(element, Scalar)
    encoding = ENCODINGS[element]
    code = build(arith.bitcast, x, to=U8)
    if encoding.bias == F16.exponent_bias:
        integers = _Integers(build, x.type, U16)
        code = build(arith.cast, code, to=U16)
        cut = F16.fp_mantissa_width - encoding.mantissa
        magnitude = integers.shifted_bits(code, 0x7F, cut)
        bits = integers(arith.or_, magnitude, integers.shifted_bits(code, SIGN, 8))
        return build(arith.bitcast, bits, to=F16)
    integers = _Integers(build, x.type, U32)
    code = build(arith.cast, code, to=U32)
    number = integers(
        arith.or_, _magnitude_of(integers, code, encoding), integers.shifted_bits(code, SIGN, 24)
    )
    if encoding.is_fnuz:
        number = integers.select(code, Predicate.EQ, SIGN, F32_NAN, number)
    return build(arith.bitcast, number, to=F32)


def _magnitude_of(integers: _Integers, code: Value, encoding: Encoding) -> Value:
    """Return the bits of the magnitude as f32: the fields moved, or a subnormal number scaled."""
    build, mantissa = integers.build, encoding.mantissa
    magnitude = integers(arith.and_, code, 0x7F)
    moved = integers(arith.shl, magnitude, F32_MANTISSA - mantissa)
    normal = integers(arith.add, moved, (F32_BIAS - encoding.bias) << F32_MANTISSA)
    steps = build(arith.cast, magnitude, to=F32)
    step = build.constant(2.0 ** (1 - encoding.bias - mantissa), steps.type)
    subnormal = build(arith.bitcast, build(arith.mul, steps, step), to=U32)
    return integers.select(magnitude, Predicate.LT, 1 << mantissa, subnormal, normal)


def _to_f32(build: Builder, x: Value, rounding: Rounding) -> Value:
    """Return an f32 that rounds to the same 8-bit float as `x` does."""
    source = x.type.element
    assert isinstance(source, Scalar)
    if source is F64:
        return _odd_f32(build, x, rounding)
    if source.is_int() and source.bits >= 32:
        x = build(arith.min_, x, build.constant(BEYOND, x.type))
        if source.is_int_signed():
            x = build(arith.max_, x, build.constant(-BEYOND, x.type))
    return x if source is F32 else build(arith.cast, x, to=F32)


def _odd_f32(build: Builder, x: Value, rounding: Rounding) -> Value:
    """Round f64 to f32: truncated, and with a last bit of 1 if that lost bits (round to odd).

    Rounding the result to a narrower float then equals rounding `x` itself.
    """
    cut = build(arith.cast, x, to=F32, rounding=Rounding.RTZ)
    if rounding is Rounding.RTZ:
        return cut
    inexact = build(arith.cmp, build(arith.cast, cut, to=F64), x, predicate=Predicate.NE)
    bits, sticky = build(arith.bitcast, cut, to=U32), build(arith.cast, inexact, to=U32)
    return build(arith.bitcast, build(arith.or_, bits, sticky), to=F32)


def _encode(build: Builder, x: Value, to: Scalar, rounding: Rounding) -> Value:
    """Round f32 to an 8-bit float."""
    encoding, integers = ENCODINGS[to], _Integers(build, x.type, U32)
    bits = build(arith.bitcast, x, to=U32)
    magnitude = integers(arith.and_, bits, 0x7FFFFFFF)
    number = _rounded(integers, magnitude, encoding, rounding)
    number = integers(arith.min_, number, encoding.saturated)
    sign = integers(arith.and_, integers(arith.shr, bits, 24), SIGN)
    signed = integers(arith.or_, number, sign)
    if encoding.is_fnuz:
        signed = integers.select(number, Predicate.EQ, 0, 0, signed)
    code = integers.select(magnitude, Predicate.GT, F32_INFINITY, encoding.nan, signed)
    return build(arith.bitcast, build(arith.cast, code, to=U8), to=to)


def _rounded(
    integers: _Integers, magnitude: Value, encoding: Encoding, rounding: Rounding
) -> Value:
    """Return the magnitude of an f32 in steps of the format, which count through all exponents.

    Shifting the significand, with its leading one, gives the mantissa. What is below the least
    normal number is shifted further, until the exponent is that of the subnormal numbers. A
    subnormal f32 becomes 0 whatever its leading bit: the shift is 31.
    """
    exponent = integers(arith.shr, magnitude, F32_MANTISSA)
    fraction = integers(arith.and_, magnitude, (1 << F32_MANTISSA) - 1)
    significand = integers(arith.or_, fraction, 1 << F32_MANTISSA)
    raised = integers(arith.max_, exponent, encoding.least)
    below = integers(arith.sub, raised, exponent)
    shift = integers(arith.add, below, F32_MANTISSA - encoding.mantissa)
    shift = integers(arith.min_, shift, 31)
    if rounding is not Rounding.RTZ:
        half = integers(arith.shl, 1, integers(arith.sub, shift, 1))
        if not encoding.ties_away:
            is_odd = integers(arith.and_, integers(arith.shr, significand, shift), 1)
            half = integers(arith.add, integers(arith.sub, half, 1), is_odd)
        significand = integers(arith.add, significand, half)
    steps = integers(arith.shr, significand, shift)
    binades = integers(arith.sub, raised, encoding.least)
    return integers(arith.add, integers(arith.shl, binades, encoding.mantissa), steps)
