"""Rounds of a `for` loop that are still to come: their counts, and whether there are such."""

from __future__ import annotations

from tile.ir.builder import Builder
from tile.ir.core import Operation, Value
from tile.ir.effects import constant_of
from tile.ir.ops import arith
from tile.ir.ops.arith import Predicate
from tile.ir.types import I1, I64, Scalar


class Rounds:
    """The counts of a loop's rounds. What is the same in all rounds is computed before the loop.

    Counts near the ends of their type do not overflow: with a constant step, the count is compared
    with a limit that lies as many steps before `upper` (or at the end of the type); with another
    step, in 64 bits.
    """

    def __init__(self, loop: Operation) -> None:
        self.loop = loop
        self.lower, self.upper, self.step = loop.inputs[:3]
        assert isinstance(self.lower.type, Scalar)
        self.type: Scalar = self.lower.type
        self.constant_step = _integer(self.step)
        self.before = Builder.before(loop)
        self.limits: dict[int, Value] = {}
        self.strides: dict[int, Value] = {}

    @staticmethod
    def can_tell(loop: Operation, distance: int) -> bool:
        """Whether it can be told, of each round of a loop, if there is one so many rounds later."""
        ty, step = loop.inputs[2].type, _integer(loop.inputs[2])
        assert isinstance(ty, Scalar)
        if step is None:
            return ty.bits < 64
        return step != 0 and ty.min_value <= distance * step <= ty.max_value

    def count(self, build: Builder, index: Value, distance: int) -> Value:
        """The count of the round `distance` rounds after that of `index`, should there be one."""
        if distance == 0:
            return index
        start = _integer(index)
        if start is not None and self.constant_step is not None:
            count = start + distance * self.constant_step
            if self.type.min_value <= count <= self.type.max_value:
                return build.constant(count, self.type)
        return build(arith.add, index, self._stride(distance))

    def exists(self, build: Builder, index: Value, distance: int) -> Value | None:
        """Whether there is a round `distance` rounds after that of `index`, as a scalar i1.

        None if there surely is. `index` is a count of the loop, or `lower` where nothing is known
        of how often the loop goes around.
        """
        if self.constant_step is None:
            return self._exists_by_step(build, index, distance)
        limit = self._limit(distance)
        predicate = Predicate.LT if self.constant_step > 0 else Predicate.GT
        start, end = _integer(index), _integer(limit)
        if start is None or end is None:
            return build(arith.cmp, index, limit, predicate=predicate)
        known = start < end if self.constant_step > 0 else start > end
        return None if known else build.constant(False, I1)

    def _limit(self, distance: int) -> Value:
        """Rounds with a count before this one are followed by `distance` others."""
        if distance not in self.limits:
            self.limits[distance] = self._new_limit(distance)
        return self.limits[distance]

    def _new_limit(self, distance: int) -> Value:
        assert self.constant_step is not None
        way = distance * self.constant_step
        if way == 0:
            return self.upper
        up = way > 0
        nearest = (self.type.min_value if up else self.type.max_value) + way
        bound = _integer(self.upper)
        if bound is not None:
            kept = max(bound, nearest) if up else min(bound, nearest)
            return self.before.constant(kept - way, self.type)
        clamp = arith.max_ if up else arith.min_
        kept_at_run_time = self.before(clamp, self.upper, self._constant(nearest))
        return self.before(arith.sub, kept_at_run_time, self._constant(way))

    def _exists_by_step(self, build: Builder, index: Value, distance: int) -> Value:
        """A step whose sign is known only when the program runs."""
        wide = [build(arith.cast, value, to=I64) for value in (index, self.step)]
        upper = build(arith.cast, self.upper, to=I64)
        way = build(arith.mul, wide[1], build.constant(distance, I64))
        count = build(arith.add, wide[0], way)
        up = build(arith.cmp, wide[1], build.constant(0, I64), predicate=Predicate.GT)
        below, above = (
            build(arith.cmp, count, upper, predicate=predicate)
            for predicate in (Predicate.LT, Predicate.GT)
        )
        return build(arith.select, up, below, above)

    def _stride(self, distance: int) -> Value:
        """How much the count changes in so many rounds."""
        if distance not in self.strides:
            self.strides[distance] = self._new_stride(distance)
        return self.strides[distance]

    def _new_stride(self, distance: int) -> Value:
        if distance == 1:
            return self.step
        if self.constant_step is not None:
            return self._constant(distance * self.constant_step)
        return self.before(arith.mul, self.step, self._constant(distance))

    def _constant(self, number: int) -> Value:
        return self.before.constant(number, self.type)


def _integer(value: Value) -> int | None:
    number = constant_of(value)
    return None if number is None else int(number)
