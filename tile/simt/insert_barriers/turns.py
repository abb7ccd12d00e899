"""Stages of multi-buffers, relative to each other and from one iteration of a loop to the next.

`slot %m, %t {shift = s}` is the stage `(%t + s) mod stages`, so stages of one iteration number %t
differ by their shifts. A loop that carries %t and yields `add %t, 1` renames it at its back edge:
the stage (%t, 2) of one iteration is the stage (%t, 1) of the next one.

    at entry        %t = const 0        stage (const, 1)  is stage (%t, 1)
    back edge       %t becomes %t + 1   stage (%t, 1)     is stage (%t, 0)
    at exit         %r = the last %t + 1
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tile.ir.core import Value
from tile.ir.effects import constant_of
from tile.ir.ops import arith
from tile.ir.types import I32


@dataclass(frozen=True, slots=True)
class StageIndex:
    """An iteration number, of which a stage is the remainder: `base` (None is 0) plus `offset`."""

    base: Value | None
    offset: int

    def later(self, iterations: int) -> StageIndex:
        return StageIndex(self.base, self.offset + iterations) if iterations else self


# A stage; None for an unknown one.
Stage = StageIndex | None

FIRST_STAGE = StageIndex(None, 0)


def stage_of(value: Value) -> StageIndex:
    """Return an iteration number as a base and an offset."""
    offset = 0
    while True:
        number = constant_of(value)
        if isinstance(number, int):
            return StageIndex(None, offset + number)
        op = value.op
        if op is None or op.defn is not arith.add:
            return StageIndex(value, offset)
        x, y = op.inputs
        step, rest = constant_of(y), x
        if step is None:
            step, rest = constant_of(x), y
        if step is None:
            return StageIndex(value, offset)
        value, offset = rest, offset + int(step)


# For each base that has new names, the new bases with the offsets to add.
Renaming = Mapping[Value | None, list[StageIndex]]


def renaming(pairs: Iterable[tuple[Value, Value]]) -> Renaming:
    """Return the new names of iteration numbers where control passes old values as new ones.

    pairs: (new, old).
    """
    renamings: dict[Value | None, list[StageIndex]] = {}
    for new, old in pairs:
        if new.type != I32:  # not an iteration number
            continue
        stage = stage_of(old)
        renamings.setdefault(stage.base, []).append(StageIndex(new, -stage.offset))
    return renamings
