"""Which stage of a ring a slot is, relative to others and from one round of a loop to the next.

A slot is the stage `(turn + shift) mod stages`, so two slots of one turn are told apart by their
shifts. A loop that carries a turn %t and yields `add %t, 1` renames it as it goes into the next
round: what was slot (%t, 2) there is slot (%t, 1) from then on.

    at the start    %t = const 0        slot (const, 1)  is slot (%t, 1)
    next round      %t becomes %t + 1   slot (%t, 1)     is slot (%t, 0)
    at the end      %r = the last %t + 1
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tile.ir.core import Value
from tile.ir.effects import constant_of
from tile.ir.ops import arith
from tile.ir.types import I32


@dataclass(frozen=True, slots=True)
class Known:
    """A number: `base`, a value or 0 for None, plus an offset."""

    base: Value | None
    offset: int

    def later(self, turns: int) -> Known:
        return Known(self.base, self.offset + turns) if turns else self


# A turn, or None for one that nothing is known of.
Turn = Known | None

FIRST = Known(None, 0)


def turn_of(value: Value) -> Known:
    """A value as a base and an offset."""
    offset = 0
    while True:
        number = constant_of(value)
        if isinstance(number, int):
            return Known(None, offset + number)
        op = value.op
        if op is None or op.defn is not arith.add:
            return Known(value, offset)
        x, y = op.inputs
        step, rest = constant_of(y), x
        if step is None:
            step, rest = constant_of(x), y
        if step is None:
            return Known(value, offset)
        value, offset = rest, offset + int(step)


# For each base that has a new name, the new base with what to add; for others, none.
Renaming = Mapping[Value | None, list[Known]]


def renaming(pairs: Iterable[tuple[Value, Value]]) -> Renaming:
    """How turns are called where control passes old values on as new ones: pairs (new, old)."""
    found: dict[Value | None, list[Known]] = {}
    for new, old in pairs:
        if new.type != I32:  # no turn
            continue
        turn = turn_of(old)
        found.setdefault(turn.base, []).append(Known(new, -turn.offset))
    return found
