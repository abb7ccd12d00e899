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
    COPIES = 3


@dataclass(frozen=True)
class _Insertion:
    """Operations of one stage in front of `before`; None is the start of the body."""

    before: Operation | None
    rank: Rank
    stage: int
    ops: tuple[Operation, ...]


class LoopSchedule:
    """The insertions of a loop; `assign` turns them into stages and orders."""

    def __init__(self, loop: Operation) -> None:
        self.loop = loop
        self.insertions: list[_Insertion] = []

    def add(
        self, before: Operation | None, rank: Rank, stage: int, ops: Sequence[Operation]
    ) -> None:
        """Schedule operations in front of `before`, which stays in the loop."""
        self.insertions.append(_Insertion(before, rank, stage, tuple(ops)))

    def assign(self) -> None:
        """Give each operation of the loop its stage and order.

        Other operations stay where they are, with order 0 in front of the first insertion that is
        not at the start of the body.
        """
        (body,) = self.loop.regions
        numbers = {op: number for number, op in enumerate(body)}
        start = -1

        def key(insertion: _Insertion) -> tuple[int, int]:
            return start if insertion.before is None else numbers[insertion.before], insertion.rank

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
