"""Axis info analysis: divisibility, contiguity and constancy of values along each axis.

For axis k of an integer or pointer tile, whose extents are powers of two:

    contiguous[k]  in every aligned run of this many elements, each is one more than the one before
                   (for pointers: one element further)
    divisible[k]   the first element of every such run is a multiple of this power of two (for
                   pointers: of this many bytes)
    constant[k]    the elements of every aligned run of this many are equal

A scalar has one axis, of extent 1. `value` is the number that all elements have, if it is constant.

    %o = arange {start = 0, end = 128}   // contiguous 128, divisible 2**30
    %s = splat %pid {shape = (128)}      // constant 128
    %m = cmp lt (%pid * 128 + %o), %n    // constant 16, if %n is a multiple of 16

The constancy of a mask and the contiguity and divisibility of a pointer determine the width of
vector accesses.

**Overflow.** Integers wrap at their width, and all folding respects that. Axis info does not: it
assumes that signed `add`, `sub`, `mul`, `neg` and `shl` do not overflow. In the language it is an
error if they wrap on the way to an address or to the mask of an access, so only the width of such
accesses may depend on axis info. What a kernel computes may depend on it with `wraps=True` alone,
which is exact for all values. The first offset of a program is never negative, nor are sums with it
and their remainders:

    %b = mul %pid, %c64                  // 0 to 2**31 - 1, as the program id is not negative
    %o = add %b, arange 0 to 64          // divisible 64, contiguous 64
    %k = rem %o, %n                      // contiguous 16, if %n is a multiple of 16

Division truncates toward zero, so nothing follows from runs of negative dividends. If the analysis
cannot infer the sign of a dividend, as after a division by an argument, `assume` can state it. Runs
of unsigned values may wrap around, at multiples of their length.

**Conditions.** After `assume` and in the branches of an `if`, a remainder of zero implies that the
dividend is a multiple of the divisor:

    assume (%n % 8 == 0)
    %r = mul %row, %n                    // divisible 8
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from tile.analysis.axis_lattice import AxisInfo, divisor, uniform, unknown
from tile.analysis.axis_rules import rule_of
from tile.analysis.dataflow import Conditional, compared
from tile.analysis.memo import memoized
from tile.analysis.ranges import Ranges, compute_ranges
from tile.ir.core import Function, Operation, Value
from tile.ir.op_definition import OpDef
from tile.ir.ops import arith, memory, shape
from tile.ir.ops.arith import Predicate
from tile.ir.types import Scalar, Type, number_of

# The greatest power of two that divides x if the result of the operation is zero: for `x % number`,
# and for `x & number`, if the low bits of the number are ones.
POWERS: dict[OpDef, Callable[[int], int]] = {
    arith.rem: divisor,
    arith.and_: lambda number: divisor(number + 1),
}


@dataclass(frozen=True)
class AxisInfoResult:
    """The axis info of a function's values, and the intervals from which it is computed."""

    facts: Mapping[Value, AxisInfo]
    ranges: Ranges

    def of(self, value: Value) -> AxisInfo:
        """Return the axis info of a value, which holds at all of its uses."""
        return self.facts[value]


def axis_info(function: Function, *, wraps: bool = False) -> AxisInfoResult:
    """Return the axis info of every value of a function.

    With `wraps=True`, signed arithmetic may overflow, and a run counts up modulo 2**bits.
    """

    def compute() -> AxisInfoResult:
        intervals = compute_ranges(function, wraps=wraps)
        return AxisInfoResult(_AxisInfo(intervals).run(function), intervals)

    return memoized(function, ("axis_info", wraps), compute)


class _AxisInfo(Conditional[AxisInfo]):
    def __init__(self, value_ranges: Ranges) -> None:
        super().__init__()
        self.ranges = value_ranges

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
        """Learn from a comparison of a remainder with zero that the dividend is a multiple."""
        comparison = compared(condition, holds)
        if comparison is None or comparison[2] is not Predicate.EQ:
            return
        x, y, _ = comparison
        for remainder, zero in ((x, y), (y, x)):
            if remainder.op is not None and self.facts[zero].value == 0:
                self.learn_zero(remainder.op)

    def learn_zero(self, op: Operation) -> None:
        """Learn from a remainder, or masked low bits, of zero that the operand is a multiple."""
        power = POWERS.get(op.defn)
        if power is None:
            return
        x, y = op.inputs
        for value, other in ((x, y), (y, x))[: 1 if op.defn is arith.rem else 2]:
            number = self.facts[other].value
            if isinstance(number, int) and number > 0:
                self.learn_multiple(value, power(number))

    def learn_multiple(self, value: Value, multiple: int) -> None:
        """Record that a value, and the value it was cast from, are multiples of a power of two."""
        fact, element = self.facts[value], number_of(value.type)
        multiple = min(multiple, 1 << element.bits - 1)
        divisible = tuple(max(divisor, multiple) for divisor in fact.divisible)
        self.replace(value, replace(fact, divisible=divisible))
        op = value.op
        if op is not None and op.defn is arith.cast:
            source = op.inputs[0].type.element
            if isinstance(source, Scalar) and source.is_int() and not source.is_bool():
                self.learn_multiple(op.inputs[0], multiple)

    def index(self, op: Operation) -> AxisInfo:
        lower, step = self.fact(op, 0), self.fact(op, 2)
        return AxisInfo((min(lower.divisible[0], step.divisible[0]),), (1,), (1,))

    def widen(self, ty: Type, old: AxisInfo, new: AxisInfo) -> AxisInfo:
        """Set the numbers that changed to 1."""
        return AxisInfo(
            _unchanged(old.divisible, new.divisible),
            _unchanged(old.contiguous, new.contiguous),
            _unchanged(old.constant, new.constant),
        )

    def transfer(self, op: Operation) -> Sequence[AxisInfo]:
        source, rule = self.source(op), rule_of(op.defn)
        if source is not None:
            return [source]
        if rule is None:
            return [unknown(value.type) for value in op.results]
        interval = self.ranges.of(op.results[0])
        if interval is not None and interval.number is not None and op.defn is not arith.const:
            fact = uniform(op.results[0].type, divisor(interval.number), interval.number)
        else:
            fact = rule(op, self.operands(op), self.ranges)
        return [fact] * len(op.results)


def _unchanged(old: Sequence[int], new: Sequence[int]) -> tuple[int, ...]:
    return tuple(x if x == y else 1 for x, y in zip(old, new, strict=True))


def contiguous_axis(value: Value, axes: AxisInfoResult) -> int | None:
    """Return the axis, counted from the right, along which a tile is contiguous in memory.

    None for a tile that is not a relabeled load, and where no axis is more contiguous than others.
    """
    op = value.op
    if op is None:
        return None
    if op.defn is shape.trans:
        axis = contiguous_axis(op.inputs[0], axes)
        order = op["order"]
        return None if axis is None else order.index(len(order) + axis) - len(order)
    if op.defn is shape.reshape:
        axis, source = contiguous_axis(op.inputs[0], axes), op.inputs[0].type.shape
        # What follows the axis has the same extents.
        same = axis is not None and source[axis:][1:] == value.type.shape[axis:][1:]
        return axis if same else None
    if op.defn is not memory.load or not value.type.rank:
        return None
    runs = axes.of(op["ptr"]).contiguous
    longest = max(runs)
    return runs.index(longest) - len(runs) if runs.count(longest) == 1 else None
