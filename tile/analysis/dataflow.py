"""Sparse forward dataflow analysis over structured control flow.

An analysis is a subclass of the driver. It computes a *fact* for every value and defines the facts
of arguments, the transfer function of operations, and the join of two facts. The driver walks the
function in program order, joins both branches of an `if`, and walks a loop until its carried facts
reach a fixpoint. Facts that keep changing are widened, so every walk terminates.

    class Sign(Forward[int]): ...
    facts = Sign().run(function)

A *conditional* analysis also refines facts by conditions. In a branch of an `if`, after an `assume`
and in the body of a loop, more is known about a value than at its definition. The refined fact
replaces the value's fact for the extent of that region.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Generic, TypeVar

from tile.ir.core import Block, Function, Operation, Value
from tile.ir.op_definition import OpDef
from tile.ir.ops import arith, control, debug
from tile.ir.ops.arith import Predicate
from tile.ir.types import Type

F = TypeVar("F")


class Forward(Generic[F]):
    """The driver of a forward analysis.

    A subclass defines the first four methods, and overrides others as needed.
    """

    # Walks over a loop before facts that still change are widened.
    widening_delay = 3

    def __init__(self) -> None:
        self.facts: dict[Value, F] = {}
        # The carried facts at each loop's fixpoint, with which the next walk of an enclosing loop
        # starts.
        self.fixpoints: dict[Operation, list[F]] = {}
        self.widened: set[Operation] = set()

    # -- the analysis

    def argument(self, function: Function, index: int) -> F:
        """Return the fact of a parameter."""
        raise NotImplementedError

    def unknown(self, ty: Type) -> F:
        """Return the top of the lattice, which states nothing about a value of this type."""
        raise NotImplementedError

    def transfer(self, op: Operation) -> Sequence[F]:
        """Return the facts of the results of an operation other than control flow; see `fact`."""
        raise NotImplementedError

    def join(self, x: F, y: F) -> F:
        """Return the least fact that is implied by `x` and by `y`."""
        raise NotImplementedError

    def widen(self, ty: Type, old: F, new: F) -> F:
        """Return a fact that `old` and `new` imply, such that repeated widening terminates."""
        return self.unknown(ty)

    def index(self, op: Operation) -> F:
        """Return the fact of a `for` loop's induction variable."""
        return self.unknown(op.regions[0].args[0].type)

    def merge(self, op: Operation, index: int, then: F, orelse: F) -> F:
        """Return the fact of a result of an `if`."""
        return self.join(then, orelse)

    def loop_result(self, op: Operation, index: int, fact: F) -> F:
        """Return the fact of a loop's result, from that of the last carried value."""
        return fact

    def narrow_carried(
        self, op: Operation, inits: Sequence[F], carried: list[F], following: list[F]
    ) -> list[F]:
        """Return better facts for the carried values of a widened loop.

        An iteration that starts with `carried` yields `following`.
        """
        return carried

    @contextmanager
    def assuming(self, condition: Value, holds: bool) -> Iterator[None]:
        """Assume that a condition is true or false inside the `with` block."""
        yield

    # -- the driver

    def run(self, function: Function) -> dict[Value, F]:
        """Walk a function and return the fact of each of its values."""
        for index, value in enumerate(function.args):
            self.facts[value] = self.argument(function, index)
        self.block(function.body)
        return self.facts

    def fact(self, op: Operation, index: int) -> F:
        """Return the fact of an operand at the operation."""
        value = op.operands[index]
        assert value is not None
        return self.facts[value]

    def operands(self, op: Operation) -> list[F | None]:
        """Return the facts of all operands, None for an absent one."""
        return [None if v is None else self.fact(op, i) for i, v in enumerate(op.operands)]

    def present(self, op: Operation) -> list[F]:
        """Return the facts of the operands that are present."""
        return [self.fact(op, i) for i, v in enumerate(op.operands) if v is not None]

    def block(self, block: Block) -> list[F]:
        """Walk a block and return the facts of its terminator's operands."""
        for op in block:
            structured = _STRUCTURED.get(op.defn)
            if structured is not None:
                facts = structured(self, op)
            elif op.results:
                for region in op.regions:
                    self.isolated(region)
                facts = self.transfer(op)
            else:
                for region in op.regions:  # those of another partition
                    self.isolated(region)
                self.observe(op)
                continue
            for value, fact in zip(op.results, facts, strict=True):
                self.facts[value] = fact
        return self.present(block.end)

    def isolated(self, region: Block) -> None:
        """Walk an isolated region, with unknown arguments."""
        for value in region.args:
            self.facts[value] = self.unknown(value.type)
        self.block(region)

    def observe(self, op: Operation) -> None:
        """Visit an operation without results."""

    def if_(self, op: Operation) -> Sequence[F]:
        condition = op.operands[0]
        assert condition is not None
        arms = []
        for region, holds in zip(op.regions, (True, False), strict=True):
            with self.assuming(condition, holds):
                arms.append(self.block(region))
        pairs = zip(*arms, strict=True)
        return [self.merge(op, index, then, orelse) for index, (then, orelse) in enumerate(pairs)]

    def for_(self, op: Operation) -> Sequence[F]:
        (body,) = op.regions
        inits = self.present(op)[3:]

        def walk(carried: list[F]) -> list[F]:
            self.facts[body.args[0]] = self.index(op)
            self.facts.update(zip(body.args[1:], carried, strict=True))
            return self.block(body)

        following = self.fixpoint(op, inits, walk)
        last = [self.join(i, f) for i, f in zip(inits, following, strict=True)]
        return [self.loop_result(op, index, fact) for index, fact in enumerate(last)]

    def while_(self, op: Operation) -> Sequence[F]:
        test, body = op.regions
        (condition,) = test.yielded
        inits = self.present(op)

        def walk(carried: list[F]) -> list[F]:
            self.facts.update(zip(test.args, carried, strict=True))
            self.block(test)
            with self.assuming(condition, True):
                for outer, inner in zip(test.args, body.args, strict=True):
                    self.facts[inner] = self.facts[outer]
                return self.block(body)

        self.fixpoint(op, inits, walk)
        with self.assuming(condition, False):
            last = [self.facts[value] for value in test.args]
        return [self.loop_result(op, index, fact) for index, fact in enumerate(last)]

    def fixpoint(
        self, op: Operation, inits: Sequence[F], walk: Callable[[list[F]], list[F]]
    ) -> list[F]:
        """Walk a loop until its carried facts are stable, and return the facts that it yields."""
        carried = list(inits)
        if op in self.fixpoints:
            carried = [self.join(x, y) for x, y in zip(self.fixpoints[op], inits, strict=True)]
        walks = 0
        while True:
            following = walk(carried)
            joined = [self.join(x, y) for x, y in zip(carried, following, strict=True)]
            if joined == carried:
                break
            walks += 1
            if walks >= self.widening_delay:
                self.widened.add(op)
                joined = self.widen_all(op, carried, joined)
            carried = joined
        if op in self.widened:
            narrowed = self.narrow_carried(op, inits, carried, following)
            if narrowed != carried:
                self.fixpoints.clear()  # nested loops start again from the better facts
                following = walk(narrowed)
        self.fixpoints[op] = carried
        return following

    def widen_all(self, op: Operation, old: Sequence[F], new: Sequence[F]) -> list[F]:
        return [
            x if x == y else self.widen(value.type, x, y)
            for value, x, y in zip(op.results, old, new, strict=True)
        ]


_STRUCTURED: dict[OpDef, Callable[[Forward[Any], Operation], Sequence[Any]]] = {
    control.if_: Forward.if_,
    control.for_: Forward.for_,
    control.while_: Forward.while_,
}


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


# The value whose elements the result of an operation has, though it is no operand of it; None if
# that is not known. A load from a buffer gets what was stored there.
SOURCES: dict[OpDef, Callable[[Operation], Value | None]] = {}


class Conditional(Forward[F]):
    """A forward analysis that learns from conditions; a subclass defines `learn`.

    It is one of the elements of values, whichever threads hold them.
    """

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

    def source(self, op: Operation) -> F | None:
        """Return the fact of the value that the result of an operation equals; see `SOURCES`."""
        find = SOURCES.get(op.defn)
        value = None if find is None else find(op)
        return None if value is None else self.facts.get(value)

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
