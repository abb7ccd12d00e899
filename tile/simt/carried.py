"""What loops and branches hand from one place to another: one value in several places."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from tile.errors import Loc
from tile.ir.core import Operation, Value
from tile.ir.ops import control
from tile.ir.types import Tile

# An operand: the operation that takes it, and its position.
Use = tuple[Operation, int]

CARRYING = frozenset({control.for_, control.while_, control.if_})


@dataclass(frozen=True)
class Carried:
    """A tile that a loop or branch carries."""

    result: Value
    arguments: tuple[Value, ...]  # of the regions
    starts: tuple[Use, ...]  # where it goes into a loop
    ends: tuple[Use, ...]  # where regions give it

    @property
    def inits(self) -> tuple[Value, ...]:
        """What goes into a loop."""
        return tuple(used(use) for use in self.starts)

    @property
    def yields(self) -> tuple[Value, ...]:
        """What the regions give."""
        return tuple(used(use) for use in self.ends)

    @property
    def values(self) -> tuple[Value, ...]:
        """The value, wherever it has a name of its own."""
        return (self.result, *self.arguments)


def carried(op: Operation) -> Iterator[Carried]:
    """The tiles that a `for`, `while` or `if` carries."""
    fixed = len(op.defn.operands)
    first = 1 if op.defn is control.for_ else 0
    ends = [region.last for region in op.regions if region.last and _yields(region.last)]
    loop = op.defn is not control.if_
    for index, result in enumerate(op.results):
        if isinstance(result.type, Tile):
            yield Carried(
                result,
                tuple(region.args[first + index] for region in op.regions) if loop else (),
                ((op, fixed + index),) if loop else (),
                tuple((end, index) for end in ends),
            )


def conversion_loc(value: Value, users: Iterable[Operation]) -> Loc | None:
    """The place in the source to which a conversion of a value belongs, for some of its users.

    That of the operation that computes it, for that is what a line says; of what a loop or branch
    carries, that of the first user which is none itself.
    """
    maker = value.op
    makers = [maker] if maker is not None and maker.defn not in CARRYING else []
    for op in (*makers, *users):
        if op.loc is not None and op.defn not in CARRYING and not op.defn.terminator:
            return op.loc
    owner = maker or value.block.parent
    return None if owner is None else owner.loc


def used(use: Use) -> Value:
    """The operand."""
    op, index = use
    value = op.operands[index]
    assert value is not None
    return value


def _yields(op: Operation) -> bool:
    return op.defn is control.yield_
