"""Forward analyses over structured control flow: one driver, a subclass an analysis.

An analysis gives a *fact* to every value. It says what arguments start with, what an operation
makes of its operands' facts, and how two facts join. The driver walks the function in program
order; both arms of an `if` are joined, and a loop is walked until its carried facts stand still.
A fact that keeps moving is widened, so every walk ends.

    class Sign(Forward[int]): ...
    facts = Sign().run(function)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Generic, TypeVar

from tile.ir.core import Block, Function, Operation, Value
from tile.ir.ops import control
from tile.ir.types import Type

F = TypeVar("F")


class Forward(Generic[F]):
    """The driver.

    A subclass defines the first four methods and, where it needs to, those after them.
    """

    # Rounds over a loop before facts that still move are widened.
    patience = 3

    def __init__(self) -> None:
        self.facts: dict[Value, F] = {}
        # The carried facts that each loop came to rest with: where a walk through it starts again
        # when the loop around it goes into another round.
        self.rest: dict[Operation, list[F]] = {}
        self.widened: set[Operation] = set()

    # -- what an analysis says

    def argument(self, function: Function, index: int) -> F:
        """The fact of a parameter."""
        raise NotImplementedError

    def unknown(self, ty: Type) -> F:
        """The fact that says nothing about a value of this type."""
        raise NotImplementedError

    def transfer(self, op: Operation) -> Sequence[F]:
        """The facts of the results of an operation that is no control flow; see `fact`."""
        raise NotImplementedError

    def join(self, x: F, y: F) -> F:
        """What holds if either does."""
        raise NotImplementedError

    def widen(self, ty: Type, old: F, new: F) -> F:
        """A fact that holds if `old` or `new` does, on a chain that ends."""
        return self.unknown(ty)

    def index(self, op: Operation) -> F:
        """The fact of a `for` loop's count."""
        return self.unknown(op.regions[0].args[0].type)

    def merge(self, op: Operation, index: int, then: F, orelse: F) -> F:
        """The fact of a result of an `if`."""
        return self.join(then, orelse)

    def leave(self, op: Operation, index: int, fact: F) -> F:
        """The fact of a result of a loop, from that of the value it carried last."""
        return fact

    def settle(
        self, op: Operation, inits: Sequence[F], carried: list[F], following: list[F]
    ) -> list[F]:
        """Improve on the facts of a loop that was widened; it yields `following` from `carried`."""
        return carried

    @contextmanager
    def given(self, condition: Value, holds: bool) -> Iterator[None]:
        """Assume that a condition holds, or does not, inside the `with` block."""
        yield

    # -- the driver

    def run(self, function: Function) -> dict[Value, F]:
        """Walk a function; the fact of each of its values."""
        for index, value in enumerate(function.args):
            self.facts[value] = self.argument(function, index)
        self.block(function.body)
        return self.facts

    def fact(self, op: Operation, index: int) -> F:
        """The fact of an operand where the operation stands."""
        value = op.operands[index]
        assert value is not None
        return self.facts[value]

    def operands(self, op: Operation) -> list[F | None]:
        """The facts of all operands, None for one that is absent."""
        return [None if v is None else self.fact(op, i) for i, v in enumerate(op.operands)]

    def present(self, op: Operation) -> list[F]:
        """The facts of the operands that are there."""
        return [self.fact(op, i) for i, v in enumerate(op.operands) if v is not None]

    def block(self, block: Block) -> list[F]:
        """Walk a block; the facts of what its terminator passes on."""
        for op in block:
            structured = _STRUCTURED.get(op.name)
            if structured is not None:
                facts = structured(self, op)
            elif op.results:
                for region in op.regions:
                    self.isolated(region)
                facts = self.transfer(op)
            else:
                self.observe(op)
                continue
            self.facts.update(zip(op.results, facts, strict=True))
        assert block.last is not None
        return self.present(block.last)

    def isolated(self, region: Block) -> None:
        """Walk a region that is a function of its own: nothing is known of its arguments."""
        for value in region.args:
            self.facts[value] = self.unknown(value.type)
        self.block(region)

    def observe(self, op: Operation) -> None:
        """Look at an operation without results."""

    def if_(self, op: Operation) -> Sequence[F]:
        condition = op.operands[0]
        assert condition is not None
        arms = []
        for region, holds in zip(op.regions, (True, False), strict=True):
            with self.given(condition, holds):
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
        return [self.leave(op, index, fact) for index, fact in enumerate(last)]

    def while_(self, op: Operation) -> Sequence[F]:
        test, body = op.regions
        assert test.last is not None
        (condition,) = test.last.inputs
        inits = self.present(op)

        def walk(carried: list[F]) -> list[F]:
            self.facts.update(zip(test.args, carried, strict=True))
            self.block(test)
            with self.given(condition, True):
                for outer, inner in zip(test.args, body.args, strict=True):
                    self.facts[inner] = self.facts[outer]
                return self.block(body)

        self.fixpoint(op, inits, walk)
        with self.given(condition, False):
            last = [self.facts[value] for value in test.args]
        return [self.leave(op, index, fact) for index, fact in enumerate(last)]

    def fixpoint(
        self, op: Operation, inits: Sequence[F], walk: Callable[[list[F]], list[F]]
    ) -> list[F]:
        """Walk a loop until its carried facts hold for every round; what it yields then."""
        carried = list(inits)
        if op in self.rest:
            carried = [self.join(x, y) for x, y in zip(self.rest[op], inits, strict=True)]
        rounds = 0
        while True:
            following = walk(carried)
            joined = [self.join(x, y) for x, y in zip(carried, following, strict=True)]
            if joined == carried:
                break
            rounds += 1
            if rounds >= self.patience:
                self.widened.add(op)
                joined = self.widen_all(op, carried, joined)
            carried = joined
        if op in self.widened:
            settled = self.settle(op, inits, carried, following)
            if settled != carried:
                self.rest.clear()  # loops inside start afresh from the better facts
                following = walk(settled)
        self.rest[op] = carried
        return following

    def widen_all(self, op: Operation, old: Sequence[F], new: Sequence[F]) -> list[F]:
        return [
            x if x == y else self.widen(value.type, x, y)
            for value, x, y in zip(op.results, old, new, strict=True)
        ]


_STRUCTURED: dict[str, Callable[[Forward[Any], Operation], Sequence[Any]]] = {
    control.if_.name: Forward.if_,
    control.for_.name: Forward.for_,
    control.while_.name: Forward.while_,
}
