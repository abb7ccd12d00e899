"""Expressions that build operations: `(x + y) >> 1` on IR values of one element type.

Integer operators wrap only on unsigned elements: on signed ones the interpreter reports overflow.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tile.ir.builder import Builder
from tile.ir.core import Operation, Value
from tile.ir.op_definition import OpDef
from tile.ir.ops import arith, extern, math
from tile.ir.ops.arith import Predicate, Rounding
from tile.ir.types import I1, SIGNED, UNSIGNED, Pointer, Scalar, with_element

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
        element = self.value.type.element
        assert isinstance(element, Scalar)
        return element

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
