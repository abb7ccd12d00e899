"""Which integers a value may be: an interval to each value, over all elements of a tile.

Facts come from types, constants, program ids, loop bounds, and from conditions: inside an arm of
an `if`, behind an `assume` and in a loop that goes on while a comparison holds, the compared
values are known better than where they were defined. So the result answers for a value (`of`) and
for an operand where it is used (`operand`).

    %i = for 0 to %n step 4      // %i: 0 to 2147483643
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tile.analysis import interval
from tile.analysis.conditions import Conditional, compared
from tile.analysis.interval import Interval, full
from tile.analysis.range_rules import NO_WRAP, RULES
from tile.ir.core import Function, Operation, Value
from tile.ir.ops import arith
from tile.ir.types import Scalar, Type

Fact = Interval | None


@dataclass(frozen=True)
class Ranges:
    """The intervals of a function's values; None for what is no integer."""

    facts: Mapping[Value, Fact]
    refined: Mapping[tuple[Operation, int], Interval]

    def of(self, value: Value) -> Fact:
        """The interval of a value wherever it is used."""
        return self.facts[value]

    def operand(self, op: Operation, index: int) -> Fact:
        """The interval of an operand where `op` stands, conditions around it considered."""
        value = op.operands[index]
        assert value is not None, f"{op.name} has no operand {index}"
        return self.refined.get((op, index), self.facts[value])


def ranges(function: Function, *, wraps: bool = True) -> Ranges:
    """The intervals of all values.

    With `wraps=False`, arithmetic on signed integers is taken not to overflow: what address
    arithmetic of a right program does.
    """
    walk = _Ranges(wraps)
    facts = walk.run(function)
    return Ranges(facts, walk.refined)


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
        """Let a bound that moves go to zero first, then to the end of the type."""
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
        else:  # what an earlier round over a loop wrote here holds no more
            self.refined.pop((op, index), None)
        return fact

    def transfer(self, op: Operation) -> Sequence[Fact]:
        rule = RULES.get(op.defn)
        known = [fact for fact in self.present(op) if fact is not None]
        if rule is None or len(known) < len(op.inputs):
            return [self.unknown(value.type) for value in op.results]
        exact = rule(op, known)
        facts = exact if isinstance(exact, tuple) else (exact,)
        return [
            self.fit(op, value.type, fact) for value, fact in zip(op.results, facts, strict=True)
        ]

    def fit(self, op: Operation, ty: Type, exact: Fact) -> Fact:
        """An exact result as one of the type: what does not fit wraps around to anything."""
        whole = full(ty)
        if exact is None or whole is None:
            return whole
        inside = exact.meet(whole)
        if inside == exact:
            return exact
        signed = isinstance(ty.element, Scalar) and ty.element.is_int_signed()
        clipped = not self.wraps and op.defn in NO_WRAP and signed
        return inside if clipped and inside is not None else whole

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

    def settle(
        self, op: Operation, inits: Sequence[Fact], carried: list[Fact], following: list[Fact]
    ) -> list[Fact]:
        """Take back what widening gave away: a turn from a fact that holds gives one that holds.

        A carried value that grows by a bounded step in a loop of bounded count is bounded by both.
        """
        better = []
        for index, (init, old, new) in enumerate(zip(inits, carried, following, strict=True)):
            once = _meet(old, self.join(init, new))
            better.append(_meet(once, self.counted(op, index, init)))
        return better

    def counted(self, op: Operation, index: int, init: Fact) -> Fact:
        """The bound of a carried value that each round of a `for` adds to.

        None if there is none.
        """
        if op.name != "for" or init is None:
            return None
        (body,) = op.regions
        assert body.last is not None
        grown = body.last.inputs[index].op
        if grown is None or grown.defn is not arith.add or body.args[1 + index] not in grown.inputs:
            return None
        position = 1 - grown.operands.index(body.args[1 + index])
        step = self.fact(grown, position)
        rounds = _rounds(*self.bounds(op))
        whole = full(op.results[index].type)
        if step is None or whole is None:
            return None
        low = init.low + min(0, step.low) * rounds
        high = init.high + max(0, step.high) * rounds
        if low < whole.low or high > whole.high:  # the last round of all might wrap
            return None
        before = max(0, rounds - 1)
        return Interval(
            init.low + min(0, step.low) * before, init.high + max(0, step.high) * before
        )

    # -- conditions

    def learn(self, condition: Value, holds: bool) -> None:
        """Narrow the condition itself, and what it compares."""
        self.replace(condition, Interval(int(holds), int(holds)))
        found = compared(condition, holds)
        if found is None:
            return
        x, y, predicate = found
        left, right = self.facts[x], self.facts[y]
        if left is not None and right is not None:
            self.narrow(x, interval.limited(predicate, left, right))
            self.narrow(y, interval.limited(predicate.swapped, right, left))

    def narrow(self, value: Value, fact: Interval) -> None:
        """Know a value better, and what it was cast from without loss."""
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
    """The greatest count of a loop that counts up."""
    start, stride = lower.number, step.number
    if start is None or stride is None or stride <= 0 or upper.high <= start:
        return upper.high - 1
    return start + (upper.high - 1 - start) // stride * stride


def _rounds(lower: Interval, upper: Interval, step: Interval) -> int:
    """The most rounds that a `for` goes."""
    if step.low > 0:
        return max(0, -((lower.low - upper.high) // step.low))
    if step.high < 0:
        return max(0, -((upper.low - lower.high) // -step.high))
    return max(abs(upper.high - lower.low), abs(lower.high - upper.low))
