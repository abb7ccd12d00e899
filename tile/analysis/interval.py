"""Interval arithmetic on integers."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from tile.ir.descriptor_type import Descriptor
from tile.ir.ops.arith import Predicate
from tile.ir.types import Scalar, Type


@dataclass(frozen=True, slots=True)
class Interval:
    """The integers from `low` to `high`, both included; booleans count as 0 and 1."""

    low: int
    high: int

    @property
    def number(self) -> int | None:
        """The integer of a single-element interval, else None."""
        return self.low if self.low == self.high else None

    def __contains__(self, number: int) -> bool:
        return self.low <= number <= self.high

    def hull(self, other: Interval) -> Interval:
        """Return the least interval that contains both."""
        return Interval(min(self.low, other.low), max(self.high, other.high))

    def meet(self, other: Interval) -> Interval | None:
        """Return the intersection, or None if it is empty."""
        low, high = max(self.low, other.low), min(self.high, other.high)
        return Interval(low, high) if low <= high else None

    def __str__(self) -> str:
        return str(self.low) if self.low == self.high else f"{self.low} to {self.high}"


BOOL = Interval(0, 1)


def full(ty: Type) -> Interval | None:
    """Return the interval of all values of an integer or boolean type; None for other types."""
    element = None if isinstance(ty, Descriptor) else ty.element
    return _values(element) if isinstance(element, Scalar) else None


@functools.cache
def _values(element: Scalar) -> Interval | None:
    if element.is_floating():
        return None
    return BOOL if element.is_bool() else Interval(element.min_value, element.max_value)


def spanning(numbers: Iterable[int]) -> Interval:
    """Return the least interval that contains these numbers, at least one."""
    values = list(numbers)
    return Interval(min(values), max(values))


def truncated(x: int, y: int) -> int:
    """Return the quotient truncated toward zero."""
    quotient = abs(x) // abs(y)
    return quotient if (x < 0) == (y < 0) else -quotient


def corners(x: Interval, y: Interval, apply: Callable[[int, int], int]) -> Interval:
    """Return the range of a function that is monotone in each operand."""
    return spanning(apply(a, b) for a in (x.low, x.high) for b in (y.low, y.high))


def add(x: Interval, y: Interval) -> Interval:
    return Interval(x.low + y.low, x.high + y.high)


def sub(x: Interval, y: Interval) -> Interval:
    return Interval(x.low - y.high, x.high - y.low)


def mul(x: Interval, y: Interval) -> Interval:
    return corners(x, y, lambda a, b: a * b)


def neg(x: Interval) -> Interval:
    return Interval(-x.high, -x.low)


def magnitude(x: Interval) -> Interval:
    least = 0 if 0 in x else min(abs(x.low), abs(x.high))
    return Interval(least, max(abs(x.low), abs(x.high)))


def least(x: Interval, y: Interval) -> Interval:
    return Interval(min(x.low, y.low), min(x.high, y.high))


def greatest(x: Interval, y: Interval) -> Interval:
    return Interval(max(x.low, y.low), max(x.high, y.high))


def div(x: Interval, y: Interval) -> Interval:
    """Return the quotients truncated toward zero. Division by zero is undefined; it counts as 0."""
    if 0 not in y:
        return corners(x, y, truncated)
    quotients = Interval(0, 0)
    for divisors in (Interval(y.low, -1), Interval(1, y.high)):
        if divisors.low <= divisors.high:
            quotients = quotients.hull(corners(x, divisors, truncated))
    return quotients


def rem(x: Interval, y: Interval) -> Interval:
    """Return the remainders of `div`, which have the sign of `x` for any sign of `y`."""
    divisor = magnitude(y)
    if magnitude(x).high < divisor.low:
        return x
    most = max(divisor.high - 1, 0)
    return Interval(max(min(x.low, 0), -most), min(max(x.high, 0), most))


def and_(x: Interval, y: Interval) -> Interval | None:
    bounds = [side.high for side in (x, y) if side.low >= 0]
    return Interval(0, min(bounds)) if bounds else None


def or_(x: Interval, y: Interval) -> Interval | None:
    if x.low < 0 or y.low < 0:
        return None
    return Interval(max(x.low, y.low), _ones(x, y))


def xor(x: Interval, y: Interval) -> Interval | None:
    return Interval(0, _ones(x, y)) if x.low >= 0 and y.low >= 0 else None


def _ones(x: Interval, y: Interval) -> int:
    return (1 << max(x.high, y.high).bit_length()) - 1


def shl(x: Interval, y: Interval, bits: int) -> Interval | None:
    if y.low < 0 or y.high >= bits:
        return None
    return corners(x, y, lambda a, b: a << b)


def shr(x: Interval, y: Interval, bits: int) -> Interval | None:
    if y.low < 0 or y.high >= bits:
        return None
    return corners(x, y, lambda a, b: a >> b)


def cmp(predicate: Predicate, x: Interval, y: Interval) -> Interval:
    """Return 1 if the comparison always holds, 0 if it never does, else 0 to 1."""
    if _ALWAYS[predicate](x, y):
        return Interval(1, 1)
    if _ALWAYS[predicate.negated](x, y):
        return Interval(0, 0)
    return BOOL


_ALWAYS: dict[Predicate, Callable[[Interval, Interval], bool]] = {
    Predicate.LT: lambda x, y: x.high < y.low,
    Predicate.LE: lambda x, y: x.high <= y.low,
    Predicate.GT: lambda x, y: x.low > y.high,
    Predicate.GE: lambda x, y: x.low >= y.high,
    Predicate.EQ: lambda x, y: x.number is not None and x.number == y.number,
    Predicate.NE: lambda x, y: x.meet(y) is None,
}


def restricted(predicate: Predicate, x: Interval, y: Interval) -> Interval:
    """Return the values of `x` for which `x predicate y` may hold; `x` itself if there are none."""
    bound = _BOUNDS[predicate](x, y)
    values = x.meet(bound) if bound is not None else x
    return x if values is None else values


def _without(x: Interval, y: Interval) -> Interval | None:
    hole = y.number
    if hole is None or x.number is not None:
        return None
    if hole == x.low:
        return Interval(x.low + 1, x.high)
    return Interval(x.low, x.high - 1) if hole == x.high else None


_BOUNDS: dict[Predicate, Callable[[Interval, Interval], Interval | None]] = {
    Predicate.LT: lambda x, y: Interval(min(x.low, y.high - 1), y.high - 1),
    Predicate.LE: lambda x, y: Interval(min(x.low, y.high), y.high),
    Predicate.GT: lambda x, y: Interval(y.low + 1, max(x.high, y.low + 1)),
    Predicate.GE: lambda x, y: Interval(y.low, max(x.high, y.low)),
    Predicate.EQ: lambda x, y: y,
    Predicate.NE: _without,
}
