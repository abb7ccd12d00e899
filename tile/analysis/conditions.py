"""Refinement of facts by conditions: in branches of an `if`, after an `assume`, in a loop's body.

There, more is known about a value than at its definition. A conditional analysis replaces the
value's fact for the extent of that region.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tile.analysis.dataflow import F, Forward
from tile.ir.core import Block, Operation, Value
from tile.ir.ops import arith, debug
from tile.ir.ops.arith import Predicate


def implied(condition: Value, holds: bool) -> Iterator[tuple[Value, bool]]:
    """Yield a scalar condition and those that it implies: if an `and` holds, both sides hold."""
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
    """Return the operands of a comparison and the predicate that holds for them.

    None if the condition is not a comparison.
    """
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
        # Facts of definitions that a condition currently replaces, oldest first.
        self.replaced: list[tuple[Value, F]] = []

    def learn(self, condition: Value, holds: bool) -> None:
        """Refine, by `replace`, the facts of values about which one condition implies something."""
        raise NotImplementedError

    def replace(self, value: Value, fact: F) -> None:
        """Replace the fact of a value until the block ends."""
        if fact != self.facts[value]:
            self.replaced.append((value, self.facts[value]))
            self.facts[value] = fact

    def block(self, block: Block) -> list[F]:
        depth = len(self.replaced)
        facts = super().block(block)
        self._restore(depth)
        return facts

    def observe(self, op: Operation) -> None:
        self.present(op)
        if op.defn is debug.assume:
            self._refine(op.inputs[0], True)

    @contextmanager
    def assuming(self, condition: Value, holds: bool) -> Iterator[None]:
        depth = len(self.replaced)
        self._refine(condition, holds)
        yield
        self._restore(depth)

    def _refine(self, condition: Value, holds: bool) -> None:
        for value, value_holds in implied(condition, holds):
            self.learn(value, value_holds)

    def _restore(self, depth: int) -> None:
        while len(self.replaced) > depth:
            value, fact = self.replaced.pop()
            self.facts[value] = fact
