"""The schedule of a loop while passes decide it: operations and where they are inserted."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass

from tile.ir.core import Operation


class Rank(enum.IntEnum):
    """The order of operations that are inserted before the same operation."""

    REGISTER_LOADS = 0
    SHARED_LOADS = 1
    WAITS = 2
    LEADING = 3
    DEFERRED_WAITS = 4
    DEFERRED_DOTS = 5
    COPIES = 6
    REST = 7  # what follows anyway


@dataclass(frozen=True)
class Point:
    """A point of a body: in front of an operation that stays in the loop, or after it.

    None stands for the start of the body.
    """

    op: Operation | None = None
    after: bool = False

    @property
    def following(self) -> Operation | None:
        """The operation that follows in the body."""
        return self.op.next if self.after and self.op is not None else self.op


@dataclass(frozen=True)
class _Insertion:
    """Operations of one stage that run at a point of the body."""

    point: Point
    rank: Rank
    stage: int
    ops: tuple[Operation, ...]


class LoopSchedule:
    """The insertions of a loop; `assign` turns them into stages and orders."""

    def __init__(self, loop: Operation) -> None:
        self.loop = loop
        self.insertions: list[_Insertion] = []

    def add(self, point: Point, rank: Rank, stage: int, ops: Sequence[Operation]) -> None:
        """Schedule operations of a stage at a point."""
        self.insertions.append(_Insertion(point, rank, stage, tuple(ops)))

    def assign(self) -> None:
        """Give each operation of the loop its stage and order.

        Other operations stay where they are, with order 0 in front of the first insertion that is
        not at the start of the body.
        """
        (body,) = self.loop.regions
        numbers = {op: 2 * number for number, op in enumerate(body)}
        start = -1

        def key(insertion: _Insertion) -> tuple[int, int]:
            op, after = insertion.point.op, insertion.point.after
            return start if op is None else numbers[op] + after, insertion.rank

        points = sorted({key(insertion) for insertion in self.insertions})
        first = sum(number == start for number, _ in points)
        orders = {point: index - max(0, first - 1) for index, point in enumerate(points)}
        if not first:
            orders = {point: order + 1 for point, order in orders.items()}
        for insertion in self.insertions:
            for op in insertion.ops:
                op.schedule = insertion.stage, orders[key(insertion)]
        for op in body:
            before = [orders[point] for point in points if start < point[0] <= numbers[op]]
            if op.schedule is None and before and not op.defn.terminator:
                op.schedule = 0, max(before)
