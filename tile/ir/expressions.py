"""Expressions that build operations: `(x + y) >> 1` on IR values of one element type.

Integer operators wrap only on unsigned elements: on signed ones the interpreter reports overflow.

Floats of at most 8 bits are converted to and from f32 by such expressions. All formats have a sign
and subnormal numbers. A number beyond the largest one becomes that.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tile.ir.builder import Builder
from tile.ir.core import Operation, Value
from tile.ir.effects import constant_of
from tile.ir.op_definition import OpDef
from tile.ir.ops import arith, extern, math
from tile.ir.ops.arith import Predicate, Rounding
from tile.ir.types import F32, I1, SIGNED, U32, UNSIGNED, Pointer, Scalar, number_of, with_element

_UNSIGNED = {ty.bits: ty for ty in UNSIGNED}
_SIGNED = {ty.bits: ty for ty in SIGNED}


def unsigned(bits: int) -> Scalar:
    """Return the unsigned integer of a width."""
    return _UNSIGNED[bits]


def signed(bits: int) -> Scalar:
    """Return the signed integer of a width."""
    return _SIGNED[bits]


@dataclass(frozen=True, eq=False)
class Expression:
    """An IR value and the builder of what is computed from it.

    The other operand of an operator is an expression of the same type, or a number.
    """

    build: Builder
    value: Value

    @property
    def element(self) -> Scalar:
        return number_of(self.value.type)

    @property
    def bits(self) -> int:
        return self.value.type.element.bits

    @property
    def is_signed(self) -> bool:
        return self.element.is_int_signed()

    @property
    def is_float(self) -> bool:
        return self.element.is_floating()

    def constant(self, number: bool | int | float, element: Scalar | None = None) -> Expression:
        """Return a number in the shape of this value; an integer wraps to its type."""
        element = element or self.element
        if element.is_int() and not element.is_bool():
            number = wrap(int(number), element)
        ty = with_element(self.value.type, element)
        return Expression(self.build, self.build.constant(number, ty))

    def apply(self, defn: OpDef, *others: Operand, **attributes: Any) -> Expression:
        """Return the result of an operation on this value and others."""
        values = [self.value, *(self._operand(other).value for other in others)]
        return Expression(self.build, self.build(defn, *values, **attributes))

    def _operand(self, other: Operand) -> Expression:
        return other if isinstance(other, Expression) else self.constant(other)

    def __add__(self, other: Operand) -> Expression:
        return self.apply(arith.add, other)

    def __sub__(self, other: Operand) -> Expression:
        return self.apply(arith.sub, other)

    def __mul__(self, other: Operand) -> Expression:
        return self.apply(arith.mul, other)

    def __and__(self, other: Operand) -> Expression:
        return self.apply(arith.and_, other)

    def __or__(self, other: Operand) -> Expression:
        return self.apply(arith.or_, other)

    def __xor__(self, other: Operand) -> Expression:
        return self.apply(arith.xor, other)

    def __lshift__(self, other: Operand) -> Expression:
        return self.apply(arith.shl, other)

    def __rshift__(self, other: Operand) -> Expression:
        return self.apply(arith.shr, other)

    def __invert__(self) -> Expression:
        return self.apply(arith.not_)

    def is_(self, predicate: Predicate, other: Operand) -> Expression:
        """Return the comparison with another value, an i1."""
        return self.apply(arith.cmp, other, predicate=predicate)

    def __lt__(self, other: Operand) -> Expression:
        return self.is_(Predicate.LT, other)

    def __gt__(self, other: Operand) -> Expression:
        return self.is_(Predicate.GT, other)

    def __ge__(self, other: Operand) -> Expression:
        return self.is_(Predicate.GE, other)

    def equals(self, other: Operand) -> Expression:
        """Return whether both are equal, an i1."""
        return self.is_(Predicate.EQ, other)

    def select(self, x: Expression, y: Operand) -> Expression:
        """Return `x` where this i1 is true, else `y`."""
        return self.apply(arith.select, x, x._operand(y))

    def minimum(self, other: Operand, *, propagate_nan: bool = False) -> Expression:
        return self.apply(arith.min_, other, propagate_nan=propagate_nan)

    def maximum(self, other: Operand, *, propagate_nan: bool = False) -> Expression:
        return self.apply(arith.max_, other, propagate_nan=propagate_nan)

    def absolute(self) -> Expression:
        """Return the absolute value of a float."""
        return self.apply(math.abs_)

    def cast(self, to: Scalar, rounding: Rounding = Rounding.RTNE) -> Expression:
        """Return the value converted to another type."""
        return self if to is self.element else self.apply(arith.cast, to=to, rounding=rounding)

    def view(self, to: Scalar | Pointer) -> Expression:
        """Return the bits as another type of the same width; an i1 stays one."""
        if to == self.value.type.element:
            return self
        if to is I1:
            return self.cast(I1)
        earlier = self.value.op
        if earlier is not None and earlier.defn is arith.bitcast:
            (source,) = earlier.inputs
            pointers = isinstance(to, Pointer) and isinstance(source.type.element, Pointer)
            if source.type.element == to or pointers:
                return Expression(self.build, source).view(to)
        return self.apply(arith.bitcast, to=to)

    def unsigned(self) -> Expression:
        """Return the bits as an unsigned integer."""
        return self.view(unsigned(self.bits))

    def signed(self) -> Expression:
        """Return the bits as a signed integer."""
        return self.view(signed(self.bits))

    def call(self, symbol: str, *others: Operand) -> Expression:
        """Return the result of a function of libdevice."""
        return self.apply(extern.extern_elementwise, *others, symbol=f"__nv_{symbol}")


Operand = Expression | bool | int | float


def operands(op: Operation) -> list[Expression]:
    """Return the inputs of an operation, from which is computed before it."""
    build = Builder.before(op)
    return [Expression(build, value) for value in op.inputs]


def wrap(number: int, element: Scalar) -> int:
    """Return the number of an integer type that is congruent modulo 2 to its width."""
    number &= (1 << element.bits) - 1
    return number - (1 << element.bits) if number > element.max_value else number


def is_before(index: Expression, end: Expression, step: Expression) -> Expression:
    """Return whether an index is before the end of a loop, an i1; the step may have either sign."""
    sign = constant_of(step.value)
    if sign is None:
        return (step > 0).select(index < end, index > end)
    return index < end if sign > 0 else index > end


def total(terms: Sequence[Expression]) -> Expression:
    """Return the sum."""
    result = terms[0]
    for term in terms[1:]:
        result = result + term
    return result


def fields(whole: Expression, element: Scalar | Pointer, count: int) -> list[Expression]:
    """Return the elements in an unsigned integer; the first is in the lowest bits."""
    bits = element.bits
    shifted = [whole >> (at * bits) if at else whole for at in range(count)]
    if element is I1:
        return [(x & 1).cast(I1) for x in shifted]
    return [x.cast(unsigned(bits)).view(element) for x in shifted]


def joined(elements: Sequence[Expression], width: int = 0) -> Expression:
    """Return an unsigned integer of their bits, or more, with these elements; see `fields`."""
    bits = elements[0].bits
    to = unsigned(width or bits * len(elements))
    wide = [(x if x.element is I1 else x.unsigned()).cast(to) for x in elements]
    return total([x << (at * bits) if at else x for at, x in enumerate(wide)])


F32_BIAS, F32_MANTISSA = 127, 23
F32_INFINITY, F32_NAN = 0x7F800000, 0x7FC00000


@dataclass(frozen=True)
class Encoding:
    """The bits of a format. `saturated` are those of the number to which casts saturate."""

    mantissa: int
    bias: int
    saturated: int
    nan: int  # the bits that a NaN becomes
    ties_away: bool = False  # a cast rounds to nearest with ties away from zero, else to even
    bits: int = 8

    @property
    def sign(self) -> int:
        """The bit of the sign."""
        return 1 << (self.bits - 1)

    @property
    def is_fnuz(self) -> bool:
        """True if the bits of a negative zero are a NaN."""
        return self.nan == self.sign

    def decode(self, code: Expression) -> Expression:
        """Return the f32 with these bits, a u32: the fields moved, or a subnormal number scaled."""
        magnitude, sign = code & (self.sign - 1), (code & self.sign) << (32 - self.bits)
        moved = magnitude << (F32_MANTISSA - self.mantissa)
        normal = moved + ((F32_BIAS - self.bias) << F32_MANTISSA)
        subnormal = magnitude.cast(F32) * 2.0 ** (1 - self.bias - self.mantissa)
        number = (magnitude < (1 << self.mantissa)).select(subnormal.view(U32), normal) | sign
        if self.is_fnuz:
            number = code.equals(self.sign).select(code.constant(F32_NAN), number)
        return number.view(F32)

    def encode(self, x: Expression, rounding: Rounding = Rounding.RTNE) -> Expression:
        """Round an f32; return the bits as u32."""
        bits = x.view(U32)
        magnitude = bits & 0x7FFFFFFF
        number = self._rounded(magnitude, rounding).minimum(self.saturated)
        signed = number | ((bits >> (32 - self.bits)) & self.sign)
        if self.is_fnuz:
            signed = number.equals(0).select(number.constant(0), signed)
        is_nan = magnitude > F32_INFINITY
        return is_nan.select(number.constant(self.nan), signed)

    def _rounded(self, magnitude: Expression, rounding: Rounding) -> Expression:
        """Return the magnitude of an f32 in steps of the format, which count through all exponents.

        Shifting the significand, with its leading one, gives the mantissa. What is below the least
        normal number is shifted further, until the exponent is that of the subnormal numbers. A
        subnormal f32 becomes 0 whatever its leading bit: the shift is 31.
        """
        least = F32_BIAS + 1 - self.bias  # the exponent of the least normal number
        exponent = magnitude >> F32_MANTISSA
        significand = (magnitude & ((1 << F32_MANTISSA) - 1)) | (1 << F32_MANTISSA)
        raised = exponent.maximum(least)
        shift = ((raised - exponent) + (F32_MANTISSA - self.mantissa)).minimum(31)
        if rounding is not Rounding.RTZ:
            half = shift.constant(1) << (shift - 1)
            if not self.ties_away:
                half = (half - 1) + ((significand >> shift) & 1)
            significand = significand + half
        return ((raised - least) << self.mantissa) + (significand >> shift)
