"""Integer range analysis: an interval for each value, over all elements of a tile.

Facts come from types, constants, program ids and loop bounds, and from conditions: in a branch of
an `if`, after an `assume` and in the body of a `while`, comparisons narrow the compared values. The
result therefore has an interval for each value (`of`) and for each operand at its use (`operand`).

    %i = for 0 to %n step 4      // %i: 0 to 2147483643

A transfer rule computes the exact interval of an operation's result from the intervals of its
operands. It is called if every operand is an integer or boolean with an interval. It may return an
interval beyond the result's type, which then counts as wrapped, or None for an unknown interval.
The rule of an operation with several results returns a tuple.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from tile.analysis import interval
from tile.analysis.dataflow import Conditional, compared
from tile.analysis.interval import BOOL, Interval, full
from tile.analysis.memo import memoized
from tile.ir.core import Function, Operation, Value
from tile.ir.op_definition import OpDef
from tile.ir.ops import arith, indexing, program, reduce, shape
from tile.ir.ops import math as math_ops
from tile.ir.ops.reduce import ReduceKind
from tile.ir.types import I32, Scalar, Type, number_of

Fact = Interval | None
Rule = Callable[[Operation, Sequence[Interval]], Fact | tuple[Fact, ...]]

# A grid has up to 2**31 - 1 programs along an axis.
MOST_PROGRAMS = I32.max_value


def _number(op: Operation, _: Sequence[Interval]) -> Fact:
    value = op["value"]
    return None if isinstance(value, float) else Interval(int(value), int(value))


def _first(_: Operation, facts: Sequence[Interval]) -> Fact:
    return facts[0]


def _element(op: Operation) -> Scalar:
    """Return the element type of the first result."""
    return number_of(op.results[0].type)


def _plain(apply: Callable[..., Fact]) -> Rule:
    """Return the rule of integer arithmetic; it is None for booleans, which wrap modulo 2."""

    def rule(op: Operation, facts: Sequence[Interval]) -> Fact:
        return None if _element(op).is_bool() else apply(*facts)

    return rule


def _bits(apply: Callable[..., Fact]) -> Rule:
    return lambda op, facts: apply(*facts)


def _shift(apply: Callable[[Interval, Interval, int], Fact]) -> Rule:
    return lambda op, facts: apply(facts[0], facts[1], _element(op).bits)


def _not(op: Operation, facts: Sequence[Interval]) -> Fact:
    element = _element(op)
    ones = -1 if element.is_int_signed() else (1 << element.bits) - 1
    return Interval(ones - facts[0].high, ones - facts[0].low)


def _cmp(op: Operation, facts: Sequence[Interval]) -> Fact:
    return interval.cmp(op["predicate"], facts[0], facts[1])


def _select(_: Operation, facts: Sequence[Interval]) -> Fact:
    condition, x, y = facts
    if condition.number is not None:
        return x if condition.number else y
    return x.hull(y)


def _cast(op: Operation, facts: Sequence[Interval]) -> Fact:
    (x,) = facts
    if not _element(op).is_bool():
        return x
    if 0 not in x:
        return Interval(1, 1)
    return x if x.number == 0 else BOOL


def _reduce(op: Operation, facts: Sequence[Interval]) -> Fact:
    (x,) = facts
    count = op.inputs[0].type.shape[op["axis"]]
    if op["kind"] is ReduceKind.SUM:
        return None if _element(op).is_bool() else Interval(x.low * count, x.high * count)
    return x if op["kind"] in (ReduceKind.MAX, ReduceKind.MIN) else None


def _scan(op: Operation, facts: Sequence[Interval]) -> Fact:
    whole = _reduce(op, facts)
    return None if whole is None else whole.hull(facts[0])


def _arg_reduce(op: Operation, facts: Sequence[Interval]) -> tuple[Fact, ...]:
    count = op.inputs[0].type.shape[op["axis"]]
    return facts[0], Interval(0, count - 1)


RULES: dict[OpDef, Rule] = {
    arith.const: _number,
    arith.add: _plain(interval.add),
    arith.sub: _plain(interval.sub),
    arith.mul: _plain(interval.mul),
    arith.neg: _plain(interval.neg),
    arith.div: _plain(interval.div),
    arith.rem: _plain(interval.rem),
    arith.min_: _plain(interval.least),
    arith.max_: _plain(interval.greatest),
    arith.and_: _bits(interval.and_),
    arith.or_: _bits(interval.or_),
    arith.xor: _bits(interval.xor),
    arith.not_: _not,
    arith.shl: _shift(interval.shl),
    arith.shr: _shift(interval.shr),
    arith.cmp: _cmp,
    arith.select: _select,
    arith.cast: _cast,
    arith.bitcast: _first,
    arith.hint: _first,
    math_ops.abs_: _plain(interval.magnitude),
    program.multiprocessor_id: lambda op, _: Interval(0, MOST_PROGRAMS - 1),
    program.program_id: lambda op, _: Interval(0, MOST_PROGRAMS - 1),
    program.num_programs: lambda op, _: Interval(1, MOST_PROGRAMS),
    shape.arange: lambda op, _: Interval(op["start"], op["end"] - 1),
    shape.splat: _first,
    shape.broadcast: _first,
    shape.expand_dims: _first,
    shape.reshape: _first,
    shape.trans: _first,
    shape.flip: _first,
    shape.join: lambda op, facts: facts[0].hull(facts[1]),
    shape.split: lambda op, facts: (facts[0], facts[0]),
    indexing.gather: _first,
    indexing.scatter: _first,
    indexing.sort: _first,
    indexing.histogram: lambda op, _: Interval(0, math.prod(op.inputs[0].type.shape)),
    indexing.rank: lambda op, _: Interval(0, op.result.type.shape[0] - 1),
    reduce.reduce: _reduce,
    reduce.scan: _scan,
    reduce.arg_reduce: _arg_reduce,
}

# Signed arithmetic that does not overflow in a correct program.
NO_WRAP = frozenset({arith.add, arith.sub, arith.mul, arith.neg, arith.shl})


@dataclass(frozen=True)
class Ranges:
    """The intervals of a function's values; None for values other than integers.

    wraps: as in `ranges`.
    """

    facts: Mapping[Value, Fact]
    refined: Mapping[tuple[Operation, int], Interval]
    wraps: bool = True

    def of(self, value: Value) -> Fact:
        """Return the interval of a value, which holds at all of its uses."""
        return self.facts[value]

    def operand(self, op: Operation, index: int) -> Fact:
        """Return the interval of an operand at `op`, narrowed by the conditions around it."""
        value = op.operands[index]
        assert value is not None, f"{op.name} has no operand {index}"
        return self.refined.get((op, index), self.facts[value])


def ranges(function: Function, *, wraps: bool = True) -> Ranges:
    """Return the intervals of all values.

    With `wraps=False`, signed arithmetic is assumed not to overflow, which holds for the address
    arithmetic of a correct program.
    """
    return memoized(function, ("ranges", wraps), lambda: compute_ranges(function, wraps=wraps))


def compute_ranges(function: Function, *, wraps: bool) -> Ranges:
    """Return what `ranges` returns, without looking for the latest result."""
    walk = _Ranges(wraps)
    facts = walk.run(function)
    return Ranges(facts, walk.refined, wraps)


class _Ranges(Conditional[Fact]):
    def __init__(self, wraps: bool) -> None:
        super().__init__()
        self.wraps = wraps
        self.refined: dict[tuple[Operation, int], Interval] = {}

    def argument(self, function: Function, index: int) -> Fact:
        return full(function.args[index].type)

    def unknown(self, ty: Type) -> Fact:
        return full(ty)

    def join(self, x: Fact, y: Fact) -> Fact:
        return None if x is None or y is None else x.hull(y)

    def widen(self, ty: Type, old: Fact, new: Fact) -> Fact:
        """Widen a bound that changes to zero first, then to the bound of the type."""
        whole = full(ty)
        if whole is None or old is None or new is None:
            return None
        low, high = old.low, old.high
        if new.low < low:
            low = 0 if new.low >= 0 else whole.low
        if new.high > high:
            high = 0 if new.high <= 0 else whole.high
        return Interval(low, high)

    def fact(self, op: Operation, index: int) -> Fact:
        fact = super().fact(op, index)
        if self.replaced and fact is not None:
            self.refined[op, index] = fact
        elif self.refined:  # an entry of an earlier walk over a loop no longer holds
            self.refined.pop((op, index), None)
        return fact

    def transfer(self, op: Operation) -> Sequence[Fact]:
        source, rule = self.source(op), RULES.get(op.defn)
        if source is not None:
            return [source]
        facts = self.present(op)
        intervals = [fact for fact in facts if fact is not None]
        if rule is None or len(intervals) < len(facts):
            return [self.unknown(value.type) for value in op.results]
        exact = rule(op, intervals)
        results = exact if isinstance(exact, tuple) else (exact,)
        return [
            self.fit(op, value.type, fact) for value, fact in zip(op.results, results, strict=True)
        ]

    def fit(self, op: Operation, ty: Type, exact: Fact) -> Fact:
        """Fit an exact result to the type; a result that does not fit may wrap to any value."""
        whole = full(ty)
        if exact is None or whole is None:
            return whole
        if whole.low <= exact.low and exact.high <= whole.high:
            return exact
        signed = isinstance(ty.element, Scalar) and ty.element.is_int_signed()
        clipped = not self.wraps and op.defn in NO_WRAP and signed
        return (clipped and exact.meet(whole)) or whole

    # -- loops

    def index(self, op: Operation) -> Fact:
        lower, upper, step = self.bounds(op)
        up = Interval(lower.low, max(lower.low, _last(lower, upper, step)))
        down = Interval(min(lower.high, upper.low + 1), lower.high)
        if step.low > 0:
            return up
        return down if step.high < 0 else up.hull(down)

    def bounds(self, op: Operation) -> tuple[Interval, Interval, Interval]:
        lower, upper, step = (self.fact(op, index) for index in range(3))
        assert lower is not None and upper is not None and step is not None
        return lower, upper, step

    def narrow_carried(
        self, op: Operation, inits: Sequence[Fact], carried: list[Fact], following: list[Fact]
    ) -> list[Fact]:
        """Narrow widened facts: one more iteration from valid facts yields valid facts.

        A carried value with a bounded increment in a loop of bounded trip count is bounded by both.
        """
        narrowed = []
        for index, (init, old, new) in enumerate(zip(inits, carried, following, strict=True)):
            once = _meet(old, self.join(init, new))
            narrowed.append(_meet(once, self.induction_range(op, index, init)))
        return narrowed

    def induction_range(self, op: Operation, index: int, init: Fact) -> Fact:
        """Return the interval of a carried value to which each iteration of a `for` adds a step.

        None if the carried value has another form or the interval would wrap.
        """
        if op.name != "for" or init is None:
            return None
        (body,) = op.regions
        add = body.yielded[index].op
        if add is None or add.defn is not arith.add or body.args[1 + index] not in add.inputs:
            return None
        position = 1 - add.operands.index(body.args[1 + index])
        step = self.fact(add, position)
        trip_count = _max_trip_count(*self.bounds(op))
        whole = full(op.results[index].type)
        if step is None or whole is None:
            return None
        low = init.low + min(0, step.low) * trip_count
        high = init.high + max(0, step.high) * trip_count
        if low < whole.low or high > whole.high:  # the last iteration might wrap
            return None
        before = max(0, trip_count - 1)
        return Interval(
            init.low + min(0, step.low) * before, init.high + max(0, step.high) * before
        )

    # -- conditions

    def learn(self, condition: Value, holds: bool) -> None:
        """Narrow the condition itself and the operands of a comparison."""
        self.replace(condition, Interval(int(holds), int(holds)))
        comparison = compared(condition, holds)
        if comparison is None:
            return
        x, y, predicate = comparison
        left, right = self.facts[x], self.facts[y]
        if left is not None and right is not None:
            self.narrow(x, interval.restricted(predicate, left, right))
            self.narrow(y, interval.restricted(predicate.swapped, right, left))

    def narrow(self, value: Value, fact: Interval) -> None:
        """Narrow a value, and the value from which it was cast without loss."""
        self.replace(value, fact)
        op = value.op
        if op is None or op.defn is not arith.cast:
            return
        (source,) = op.inputs
        before, whole, wide = self.facts[source], full(source.type), full(value.type)
        if before is not None and whole is not None and wide is not None:
            left = before.meet(fact)
            if whole.meet(wide) == whole and left is not None:
                self.narrow(source, left)


def _meet(x: Fact, y: Fact) -> Fact:
    if x is None or y is None:
        return x
    return x.meet(y) or x


def _last(lower: Interval, upper: Interval, step: Interval) -> int:
    """Return the greatest induction variable of a loop that counts up."""
    start, stride = lower.number, step.number
    if start is None or stride is None or stride <= 0 or upper.high <= start:
        return upper.high - 1
    return start + (upper.high - 1 - start) // stride * stride


def _max_trip_count(lower: Interval, upper: Interval, step: Interval) -> int:
    """Return an upper bound of the trip count of a `for`."""
    if step.low > 0:
        return max(0, -((lower.low - upper.high) // step.low))
    if step.high < 0:
        return max(0, -((upper.low - lower.high) // -step.high))
    return max(abs(upper.high - lower.low), abs(lower.high - upper.low))
