"""From where to where each value is needed, on a line through the function.

Operations are numbered in program order. One with regions has two numbers: where it starts, and
where it ends, behind all inside it. A value's range is one interval of that line: from where it
is defined to its last use. A value from outside that a loop uses is needed until the loop ends,
since the next round uses it again; and a value that an `if` uses in one arm counts as live
through the arm before it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tile.ir.core import Block, Function, Operation, Value
from tile.ir.ops import control

LOOPS = frozenset({control.for_, control.while_})


@dataclass(frozen=True, slots=True, order=True)
class LiveRange:
    """Defined at `start` and last used at `end`; the same number if never used."""

    start: int
    end: int

    def overlaps(self, other: LiveRange) -> bool:
        """Whether two values are there at one time.

        What ends where another starts makes room for it. A value that nobody uses is there where
        it is defined: two that are defined at once overlap.
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
        """The number of an operation, where it takes its operands."""
        return self.starts[op]

    def end(self, op: Operation) -> int:
        """The number at which its results are there."""
        return self.ends[op]

    def sweep(self) -> Iterator[tuple[int, list[Value]]]:
        """Each number, with the values that are live behind it in the order of their definition."""
        order = sorted(self.ranges, key=lambda value: self.ranges[value])
        live: dict[Value, None] = {}
        waiting = iter(order)
        following = next(waiting, None)
        for number in range(max(self.ends.values(), default=0) + 1):
            while following is not None and self.ranges[following].start <= number:
                live[following] = None
                following = next(waiting, None)
            live = {value: None for value in live if self.ranges[value].end > number}
            yield number, list(live)


def liveness(function: Function) -> Liveness:
    """The live ranges of all values.

    Parameters are defined at 0, the first operation is number 1.
    """
    starts: dict[Operation, int] = {}
    ends: dict[Operation, int] = {}
    defined: dict[Value, int] = dict.fromkeys(function.args, 0)
    _number(function.body, 1, starts, ends, defined)
    last = {value: _last_use(value, start, starts, ends) for value, start in defined.items()}
    ranges = {value: LiveRange(start, last[value]) for value, start in defined.items()}
    return Liveness(starts, ends, ranges)


def _number(
    block: Block,
    following: int,
    starts: dict[Operation, int],
    ends: dict[Operation, int],
    defined: dict[Value, int],
) -> int:
    """Number a block's operations from `following` on; the number after them."""
    for op in block:
        starts[op] = following
        following += 1
        for region in op.regions:
            defined.update(dict.fromkeys(region.args, starts[op]))
            following = _number(region, following, starts, ends, defined)
        ends[op] = following if op.regions else starts[op]
        following += bool(op.regions)
        defined.update(dict.fromkeys(op.results, ends[op]))
    return following


def _last_use(
    value: Value, start: int, starts: Mapping[Operation, int], ends: Mapping[Operation, int]
) -> int:
    last = start
    for op, position in value.uses:
        last = max(last, ends[op] if _throughout(op, position) else starts[op])
        for outer in op.ancestors():
            if outer is value.block.parent:
                break
            if outer.defn in LOOPS:
                last = max(last, ends[outer])
    return max(last, _passed_on(value, starts))


def _throughout(op: Operation, position: int) -> bool:
    """Whether an operand is needed until the operation ends.

    A loop compares with its bound each round, and a combining region runs while elements are left.
    """
    return op.defn.isolated or (op.defn is control.for_ and position in (1, 2))


def _passed_on(value: Value, starts: Mapping[Operation, int]) -> int:
    """What a `while` carries goes from its test to its body, and out of the loop."""
    loop = value.block.parent
    if loop is None or loop.defn is not control.while_ or value.op is not None:
        return -1
    test = loop.regions[0]
    assert test.last is not None
    return starts[test.last] if value.block is test else -1
