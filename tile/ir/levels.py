"""The levels of the IR, each a set of legal operations and types that the verifier holds IR to.

TILE      what the user wrote: tiles without layouts
LAID_OUT  every tile has a layout; shared memory, copies and barriers are operations
THREAD    per-thread fragments, lanes, shuffles, vector accesses

An operation's declaration says at which levels it is legal, so this file holds names alone.
"""

from __future__ import annotations

import enum


class Level(enum.Enum):
    """A level; see the top of the file."""

    TILE = "tile"
    LAID_OUT = "laid-out"
    THREAD = "thread"


EVERY = frozenset(Level)
WITH_TILES = frozenset({Level.TILE, Level.LAID_OUT})
