"""Liveness analysis: the live range of each value, as one interval of operation numbers.

Operations are numbered in program order. An operation with regions has two numbers: its start, and
its end, after all operations nested in it. A live range extends from the definition to the last
use. A value from outside a loop that is used in it is live until the loop ends, since the next
iteration uses it again. A value that is used in one branch of an `if` counts as live through the
branch before it, unless an empty branch only passes it on: then nothing else runs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tile.ir.core import Block, Function, Operation, Value
from tile.ir.op_definition import Trait
from tile.ir.ops import control


@dataclass(frozen=True, slots=True, order=True)
class LiveRange:
    """Defined at `start` and last used at `end`; the same number if never used."""

    start: int
    end: int

    def overlaps(self, other: LiveRange) -> bool:
        """Return True if two values are live at the same time.

        A range does not overlap one that starts where it ends. A value without uses is live at its
        definition, so two such values defined by one operation overlap.
        """
        return self.start < max(other.end, other.start + 1) and other.start < max(
            self.end, self.start + 1
        )

    def __str__(self) -> str:
        return f"{self.start}-{self.end}"


@dataclass(frozen=True)
class Liveness:
    """The numbering of a function's operations and the live ranges of its values."""

    starts: Mapping[Operation, int]
    ends: Mapping[Operation, int]
    ranges: Mapping[Value, LiveRange]

    def of(self, value: Value) -> LiveRange:
        return self.ranges[value]

    def start(self, op: Operation) -> int:
        """Return the number of an operation, at which it reads its operands."""
        return self.starts[op]

    def end(self, op: Operation) -> int:
        """Return the number at which an operation's results are defined."""
        return self.ends[op]

    def sweep(self) -> Iterator[tuple[int, list[Value]]]:
        """Yield each number with the values that are live after it, in order of definition."""
        remaining = iter(sorted(self.ranges, key=lambda value: self.ranges[value]))
        live: dict[Value, None] = {}
        following = next(remaining, None)
        for number in range(max(self.ends.values(), default=0) + 1):
            while following is not None and self.ranges[following].start <= number:
                live[following] = None
                following = next(remaining, None)
            live = {value: None for value in live if self.ranges[value].end > number}
            yield number, list(live)


def liveness(function: Function) -> Liveness:
    """Return the live ranges of all values.

    Parameters are defined at 0; the first operation has number 1.
    """
    numbers = Numbers(function)
    starts, ends = numbers.starts, numbers.ends
    defined = dict.fromkeys(function.args, 0)
    for op, start in starts.items():
        for region in op.regions:
            defined.update(dict.fromkeys(region.args, start))
    for op, end in ends.items():
        defined.update(dict.fromkeys(op.results, end))
    last = {value: _last_use(value, start, starts, ends) for value, start in defined.items()}
    ranges = {value: LiveRange(start, last[value]) for value, start in defined.items()}
    return Liveness(starts, ends, ranges)


class Numbers:
    """The numbers of a function's operations, from 1 to `last`."""

    def __init__(self, function: Function) -> None:
        self.starts: dict[Operation, int] = {}
        self.ends: dict[Operation, int] = {}
        self.last = 0
        self._block(function.body)

    def _block(self, block: Block) -> None:
        for op in block:
            self.last += 1
            self.starts[op] = self.last
            for region in op.regions:
                self._block(region)
            self.last += bool(op.regions)
            self.ends[op] = self.last


def _last_use(
    value: Value, start: int, starts: Mapping[Operation, int], ends: Mapping[Operation, int]
) -> int:
    last = start
    for op, position in value.uses:
        at = _passes_on(op) or op
        last = max(last, ends[op] if _used_throughout(op, position) else starts[at])
        for outer in op.ancestors():
            if outer is value.block.parent:
                break
            if outer.has_trait(Trait.LOOP):
                last = max(last, ends[outer])
    return max(last, _passed_on(value, starts))


def _passes_on(op: Operation) -> Operation | None:
    """Return the `if` of which an operation is an empty branch; else None."""
    outer = op.parent
    if outer is None or outer.defn is not control.if_ or op.defn is not control.yield_:
        return None
    return outer if any(region.first is op for region in outer.regions) else None


def _used_throughout(op: Operation, position: int) -> bool:
    """Return True if an operand is live until the operation ends.

    A loop reads its bound and step in each iteration, and a combine region runs while elements are
    left.
    """
    return op.defn.isolated or (op.defn is control.for_ and position in (1, 2))


def _passed_on(value: Value, starts: Mapping[Operation, int]) -> int:
    """Return the number at which a carried value of a `while` passes from the test to the body."""
    loop = value.block.parent
    if loop is None or loop.defn is not control.while_ or value.op is not None:
        return -1
    test = loop.regions[0]
    return starts[test.end] if value.block is test else -1
