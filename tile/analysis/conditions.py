"""What conditions tell: in the arms of an `if`, behind an `assume`, in a loop that goes on.

There a value is known better than where it was defined. An analysis that makes something of it
replaces the fact of the value for so long.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tile.analysis.dataflow import F, Forward
from tile.ir.core import Block, Operation, Value
from tile.ir.ops import arith, debug
from tile.ir.ops.arith import Predicate


def implied(condition: Value, holds: bool) -> Iterator[tuple[Value, bool]]:
    """A scalar condition and those that it decides: of an `and` that holds, both sides hold."""
    yield condition, holds
    op = condition.op
    if op is None:
        return
    if op.defn is (arith.and_ if holds else arith.or_):
        for side in op.inputs:
            yield from implied(side, holds)
    elif op.defn is arith.not_:
        yield from implied(op.inputs[0], not holds)


def compared(condition: Value, holds: bool) -> tuple[Value, Value, Predicate] | None:
    """What a condition that holds, or does not, says of two values; None if it is no comparison."""
    op = condition.op
    if op is None or op.defn is not arith.cmp:
        return None
    x, y = op.inputs
    predicate: Predicate = op["predicate"]
    return x, y, predicate if holds else predicate.negated


class Conditional(Forward[F]):
    """A forward analysis that learns from conditions; a subclass defines `learn`."""

    def __init__(self) -> None:
        super().__init__()
        # Facts at a definition that a condition has replaced for now, oldest first.
        self.replaced: list[tuple[Value, F]] = []

    def learn(self, condition: Value, holds: bool) -> None:
        """Replace the facts of values that one condition tells of, with `replace`."""
        raise NotImplementedError

    def replace(self, value: Value, fact: F) -> None:
        """Know a value better until the block ends."""
        if fact != self.facts[value]:
            self.replaced.append((value, self.facts[value]))
            self.facts[value] = fact

    def block(self, block: Block) -> list[F]:
        mark = len(self.replaced)
        facts = super().block(block)
        self._restore(mark)
        return facts

    def observe(self, op: Operation) -> None:
        self.present(op)
        if op.defn is debug.assume:
            self._refine(op.inputs[0], True)

    @contextmanager
    def given(self, condition: Value, holds: bool) -> Iterator[None]:
        mark = len(self.replaced)
        self._refine(condition, holds)
        yield
        self._restore(mark)

    def _refine(self, condition: Value, holds: bool) -> None:
        for value, so in implied(condition, holds):
            self.learn(value, so)

    def _restore(self, mark: int) -> None:
        while len(self.replaced) > mark:
            value, fact = self.replaced.pop()
            self.facts[value] = fact
