"""Counts of async operations in flight at waits, where a schedule has moved what they wait for."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from tile.ir.core import Operation, Value
from tile.ir.op_definition import OpDef


@dataclass(frozen=True)
class Issue:
    """An operation of a loop's body, done for the iteration that is `iteration` later.

    number: its position in the body before the schedule was expanded.
    """

    op: Operation
    number: int
    iteration: int


@dataclass
class IssueOrder:
    """The order in which the operations of an expanded loop run.

    before: those in front of the loop, in order.
    in_loop: those of the new body, by operation.
    """

    before: list[Issue] = field(default_factory=list)
    in_loop: dict[Operation, Issue] = field(default_factory=dict)

    def pending(self, wait: Operation, completes: OpDef, body: Iterable[Operation]) -> int:
        """Return how many younger operations a wait leaves in flight in the new order.

        The wait is complete with the same operations, at least, as before the expansion: then it
        left the last `pending` ones of its own iteration and all earlier ones. How many nested
        operations run is unknown: the wait leaves none of them, and counts none as younger.
        """
        ops = [op for op in body if op is wait or _completes(op, completes)]
        nested = {op for op in ops if op is not wait and op.defn is not completes}
        left = 0 if nested else wait["pending"]
        # The iteration and number of what was issued, and if it is one operation.
        done = [
            (each.iteration, each.number, True) for each in self.before if each.op.defn is completes
        ]
        farthest = max((each.iteration for each in self.in_loop.values()), default=0)
        counts: list[int] = []
        for iteration in range(farthest + 2):
            for op in ops:
                issue = self.in_loop[op]
                at = iteration + issue.iteration, issue.number
                if op is not wait:
                    done.append((*at, op not in nested))
                    continue
                awaited = sorted(other for other in done if other[:2] < at)
                awaited = awaited[: len(awaited) - left]
                if awaited:
                    last = max(map(done.index, awaited))
                    counts.append(sum(counted for *_, counted in done[last + 1 :]))
        return min(counts, default=left)


def _completes(op: Operation, completes: OpDef) -> bool:
    """Return True if an operation, or one nested in it, is of a definition."""
    return any(each.defn is completes for each in op.walk())


def count_issued_since(wait: Operation, value: Value, issue: OpDef) -> int:
    """Return how many operations are issued between that of a value and a wait for it.

    The value is the result of an operation of the block of the wait, or a value that its loop
    carries from the iteration before. Any count is right for others, which are complete.
    """
    block = value.block
    if block is not wait.block:
        return int(wait["pending"])
    ops = list(block)
    end = ops.index(wait)
    if value.op is not None:
        return sum(op.defn is issue for op in ops[ops.index(value.op) + 1 : end])
    source = block.yielded[value.index - 1].op
    before = sum(op.defn is issue for op in ops[:end])
    if source is None or source.block is not block:
        return before
    return before + sum(op.defn is issue for op in ops[ops.index(source) + 1 :])
