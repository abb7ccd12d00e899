"""Levels of the IR: a level is a set of legal operations and types, enforced by the verifier.

TILE      the user's program: tiles without layouts
LAID_OUT  every tile has a layout; shared memory, copies and barriers are operations
THREAD    per-thread fragments, lanes, shuffles, vector accesses

An operation's declaration states the levels at which it is legal, so this file has only names.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tile.ir.core import Operation


class Level(enum.Enum):
    """A level of the IR; see the module docstring."""

    TILE = "tile"
    LAID_OUT = "laid-out"
    THREAD = "thread"


EVERY = frozenset(Level)
TILES_ALONE = frozenset({Level.TILE})
WITH_TILES = frozenset({Level.TILE, Level.LAID_OUT})
LAID_OUT = frozenset({Level.LAID_OUT})
LOWERED = frozenset({Level.LAID_OUT, Level.THREAD})
THREAD = frozenset({Level.THREAD})

# Conditions on operations at a level, in addition to their type rules; a condition raises
# `TypeRuleError`. The package that defines a level's types declares its conditions.
CONDITIONS: dict[Level, list[Callable[[Operation], None]]] = {level: [] for level in Level}


def condition(level: Level) -> Callable[[Callable[[Operation], None]], Callable[[Operation], None]]:
    """Declare a condition of a level."""

    def declare(check: Callable[[Operation], None]) -> Callable[[Operation], None]:
        CONDITIONS[level].append(check)
        return check

    return declare
