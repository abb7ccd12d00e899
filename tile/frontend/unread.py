"""Warnings about loop options that have no effect."""

from __future__ import annotations

import functools

from tile.errors import Loc
from tile.warn import warn


@functools.cache
def warn_unread(loc: Loc, names: tuple[str, ...], of: str) -> None:
    """Warn once, at the user's line, that options `of` a loop have no effect."""
    several = len(names) > 1
    warn(
        f"the option{'s' if several else ''} {', '.join(names)} of {of} "
        f"{'have' if several else 'has'} no effect; the loop's results are the same",
        loc,
    )
