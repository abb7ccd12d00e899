"""Future iterations of a `for` loop: their induction variables, and whether they exist."""

from __future__ import annotations

from functools import cache

from tile.ir.builder import Builder
from tile.ir.core import Operation, Value
from tile.ir.effects import constant_of, iterations
from tile.ir.expressions import Expression, is_before
from tile.ir.ops import arith
from tile.ir.types import I1, I64, Scalar


class TripCount:
    """Induction variables and bounds of a loop's iterations. Invariants are computed outside.

    Values near the ends of the induction variable's type do not overflow. With a constant step,
    the induction variable is compared with a limit that lies `distance` steps before `upper` (or
    at the end of the type); with any other step, the comparison is done in 64 bits.
    """

    def __init__(self, loop: Operation) -> None:
        self.loop = loop
        self.lower, self.upper, self.step = loop.inputs[:3]
        assert isinstance(self.lower.type, Scalar)
        self.type: Scalar = self.lower.type
        self.constant_step = _integer(self.step)
        self.trips = iterations(loop)
        self.before = Builder.before(loop)
        self.limit, self.stride = cache(self._limit), cache(self._stride)

    @staticmethod
    def is_computable(loop: Operation, distance: int) -> bool:
        """Return True if every iteration can compute whether one `distance` later exists."""
        ty, step = loop.inputs[2].type, _integer(loop.inputs[2])
        assert isinstance(ty, Scalar)
        if step is None:
            return ty.bits < 64
        return step != 0 and ty.min_value <= distance * step <= ty.max_value

    def index_after(self, build: Builder, index: Value, distance: int) -> Value:
        """Return the induction variable `distance` iterations after `index`.

        The iteration need not exist.
        """
        if distance == 0:
            return index
        later = self._constant_index(index, distance)
        if later is not None:
            return build.constant(later, self.type)
        return build(arith.add, index, self.stride(distance))

    def _constant_index(self, index: Value, distance: int) -> int | None:
        """Return the induction variable `distance` iterations after a constant one, else None."""
        start = _integer(index)
        if start is None or self.constant_step is None:
            return None
        later = start + distance * self.constant_step
        return later if self.type.min_value <= later <= self.type.max_value else None

    def exists(self, build: Builder, index: Value, distance: int) -> Value | None:
        """Return, as a scalar i1, whether an iteration `distance` after `index` exists.

        None if it always does. `index` is the loop's induction variable, or `lower` where the trip
        count may be 0.
        """
        if self.trips is not None and distance >= len(self.trips):
            return build.constant(False, I1)
        if self.constant_step is None:
            return self._exists_by_step(build, index, distance)
        if self._constant_index(index, distance) is not None:  # compared with the bound itself
            index, distance = self.index_after(build, index, distance), 0
        limit = self.limit(distance)
        start, end = _integer(index), _integer(limit)
        if start is None or end is None:
            number, last, step = (Expression(build, x) for x in (index, limit, self.step))
            return is_before(number, last, step).value
        exists = start < end if self.constant_step > 0 else start > end
        return None if exists else build.constant(False, I1)

    def _limit(self, distance: int) -> Value:
        """Return the limit before which an iteration is followed by `distance` others."""
        assert self.constant_step is not None
        stride = distance * self.constant_step
        if stride == 0:
            return self.upper
        up = stride > 0
        nearest = (self.type.min_value if up else self.type.max_value) + stride
        bound = _integer(self.upper)
        if bound is not None:
            clamped_bound = max(bound, nearest) if up else min(bound, nearest)
            return self.before.constant(clamped_bound - stride, self.type)
        clamp = arith.max_ if up else arith.min_
        clamped = self.before(clamp, self.upper, self._constant(nearest))
        return self.before(arith.sub, clamped, self._constant(stride))

    def _exists_by_step(self, build: Builder, index: Value, distance: int) -> Value:
        """Compute `exists` for a step whose sign is only known at run time."""
        start, end, step = (
            Expression(build, value).cast(I64) for value in (index, self.upper, self.step)
        )
        return is_before(start + step * distance, end, step).value

    def _stride(self, distance: int) -> Value:
        """Return the change of the induction variable over `distance` iterations."""
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
