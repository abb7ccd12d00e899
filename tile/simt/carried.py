"""Loop-carried values and results of branches: one value under several names."""

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
    """A tile that a loop carries or a branch yields."""

    result: Value
    arguments: tuple[Value, ...]  # of the regions
    starts: tuple[Use, ...]  # its initial value, as an operand of the loop
    ends: tuple[Use, ...]  # its values as operands of the regions' terminators

    @property
    def inits(self) -> tuple[Value, ...]:
        """The initial values of a loop-carried tile."""
        return tuple(used(use) for use in self.starts)

    @property
    def yields(self) -> tuple[Value, ...]:
        """The values that the regions yield."""
        return tuple(used(use) for use in self.ends)

    @property
    def values(self) -> tuple[Value, ...]:
        """The value under each of its names: the result and the region arguments."""
        return (self.result, *self.arguments)


def carried(op: Operation) -> Iterator[Carried]:
    """Yield the tiles that a `for`, `while` or `if` carries."""
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
    """Return the source location of a conversion of a value for some of its users.

    It is that of the operation that computes the value. For a loop-carried value or a branch's
    result, it is that of the first user that is no loop or branch itself.
    """
    maker = value.op
    makers = [maker] if maker is not None and maker.defn not in CARRYING else []
    for op in (*makers, *users):
        if op.loc is not None and op.defn not in CARRYING and not op.defn.terminator:
            return op.loc
    owner = maker or value.block.parent
    return None if owner is None else owner.loc


def used(use: Use) -> Value:
    """Return the operand."""
    op, index = use
    value = op.operands[index]
    assert value is not None
    return value


def _yields(op: Operation) -> bool:
    return op.defn is control.yield_
