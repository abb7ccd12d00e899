"""What is known of a value along each axis: divisibility, contiguity, constancy.

For axis k of an integer or pointer tile, with extents powers of two:

    contiguous[k]  in every aligned run of that many elements each is one more than the one before
                   (for pointers: one element further)
    divisible[k]   the first of every such run is a multiple of this power of two (for pointers: of
                   this many bytes)
    constant[k]    every aligned run of that many elements is of equal elements

A scalar has one axis, of extent 1. `value` is the number that every element has, where it is known.

    %o = arange {start = 0, end = 128}   // contiguous 128, divisible 2**30
    %s = splat %pid {shape = (128)}      // constant 128
    %m = cmp lt (%pid * 128 + %o), %n    // constant 16, if %n is a multiple of 16

So a mask's constancy and a pointer's contiguity and divisibility say how wide an access may be.

**Overflow.** Integers wrap at their width, and whatever folds or replaces values keeps to that.
Axis information alone does not: signed `add`, `sub`, `mul`, `neg` and `shl` are taken to stay
within their type. The language makes it an error if they wrap on the way to an address, or to the
mask of an access; so nothing but the width of such accesses may depend on this. A program's first
offset is thus never negative, nor are what is added to it and its remainders:

    %b = mul %pid, %c64                  // 0 to 2**31 - 1, as the program id is not negative
    %o = add %b, arange 0 to 64          // divisible 64, contiguous 64
    %k = rem %o, %n                      // contiguous 16, if %n is a multiple of 16

Division rounds towards zero, so runs below zero say nothing of it: where the sign of a dividend
cannot be seen, as behind a division by an argument, `assume` tells it. On unsigned values runs may
wrap around, at multiples of their length.

**Conditions.** Behind `assume` and in the arms of an `if`, a remainder of zero makes a multiple of
what it is taken of, which what is computed of that there knows:

    assume (%n % 8 == 0)
    %r = mul %row, %n                    // divisible 8
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from tile.analysis.axis_rules import RULES
from tile.analysis.axis_value import AxisInfo, divisor, uniform, unknown
from tile.analysis.conditions import Conditional, compared
from tile.analysis.ranges import Ranges, ranges
from tile.ir.core import Function, Operation, Value
from tile.ir.opdef import OpDef
from tile.ir.ops import arith
from tile.ir.ops.arith import Predicate
from tile.ir.types import Scalar, Type

# Of what divides x if one of these is zero, the greatest power of two: of `x % number`, and of
# `x & number`, whose low bits are ones.
POWERS: dict[OpDef, Callable[[int], int]] = {
    arith.rem: divisor,
    arith.and_: lambda number: divisor(number + 1),
}


@dataclass(frozen=True)
class AxisInfoResult:
    """The axis information of a function's values."""

    facts: Mapping[Value, AxisInfo]

    def of(self, value: Value) -> AxisInfo:
        """What is known of a value, wherever it is used."""
        return self.facts[value]


def axis_info(function: Function) -> AxisInfoResult:
    """The axis information of every value of a function."""
    return AxisInfoResult(_AxisInfo(ranges(function, wraps=False)).run(function))


class _AxisInfo(Conditional[AxisInfo]):
    def __init__(self, known: Ranges) -> None:
        super().__init__()
        self.known = known

    def argument(self, function: Function, index: int) -> AxisInfo:
        ty = function.args[index].type
        everywhere = divisor(function.arguments[index].divisible)
        start = unknown(ty)
        return AxisInfo((everywhere,) * len(start.divisible), start.contiguous, start.constant)

    def unknown(self, ty: Type) -> AxisInfo:
        return unknown(ty)

    def join(self, x: AxisInfo, y: AxisInfo) -> AxisInfo:
        return x.join(y)

    def learn(self, condition: Value, holds: bool) -> None:
        """Of a remainder that is zero, the dividend is a multiple."""
        found = compared(condition, holds)
        if found is None or found[2] is not Predicate.EQ:
            return
        x, y, _ = found
        for rest, zero in ((x, y), (y, x)):
            if rest.op is not None and self.facts[zero].value == 0:
                self.no_rest(rest.op)

    def no_rest(self, op: Operation) -> None:
        """An operation gives zero: a multiple is what a remainder, or low bits, are taken of."""
        power = POWERS.get(op.defn)
        if power is None:
            return
        x, y = op.inputs
        for value, other in ((x, y), (y, x))[: 1 if op.defn is arith.rem else 2]:
            number = self.facts[other].value
            if isinstance(number, int) and number > 0:
                self.know(value, power(number))

    def know(self, value: Value, multiple: int) -> None:
        """A value is a multiple of a power of two, and so is what it was cast from."""
        fact, element = self.facts[value], value.type.element
        assert isinstance(element, Scalar)
        multiple = min(multiple, 1 << element.bits - 1)
        divisible = tuple(max(known, multiple) for known in fact.divisible)
        self.replace(value, replace(fact, divisible=divisible))
        op = value.op
        if op is not None and op.defn is arith.cast:
            source = op.inputs[0].type.element
            if isinstance(source, Scalar) and source.is_int() and not source.is_bool():
                self.know(op.inputs[0], multiple)

    def index(self, op: Operation) -> AxisInfo:
        lower, step = self.fact(op, 0), self.fact(op, 2)
        return AxisInfo((min(lower.divisible[0], step.divisible[0]),), (1,), (1,))

    def widen(self, ty: Type, old: AxisInfo, new: AxisInfo) -> AxisInfo:
        """Give up the numbers that fall; those that stand still are kept."""
        return AxisInfo(
            _kept(old.divisible, new.divisible),
            _kept(old.contiguous, new.contiguous),
            _kept(old.constant, new.constant),
        )

    def transfer(self, op: Operation) -> Sequence[AxisInfo]:
        rule = RULES.get(op.defn)
        if rule is None:
            return [unknown(value.type) for value in op.results]
        interval = self.known.of(op.results[0])
        if interval is not None and interval.number is not None and op.defn is not arith.const:
            fact = uniform(op.results[0].type, divisor(interval.number), interval.number)
        else:
            fact = rule(op, self.operands(op), self.known)
        return [fact] * len(op.results)


def _kept(old: Sequence[int], new: Sequence[int]) -> tuple[int, ...]:
    return tuple(x if x == y else 1 for x, y in zip(old, new, strict=True))
