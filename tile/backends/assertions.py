"""Assertions of a kernel; a launch reports a failed one by its number."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tile.errors import Loc


@dataclass(frozen=True)
class Assertion:
    """The message and location of a `device_assert`."""

    message: str
    loc: Loc | None

    def data(self) -> list[Any]:
        """Return the assertion as data for JSON; see `of`."""
        return [self.message, [_loc_data(frame) for frame in self.loc.chain()] if self.loc else []]

    @classmethod
    def of(cls, data: Sequence[Any]) -> Assertion:
        """Return the assertion of what `data` returned."""
        message, locs = data
        loc: Loc | None = None
        for file, line, column, end, function in reversed(locs):
            loc = Loc(file, line, column, end, function, loc)
        return cls(message, loc)


def _loc_data(loc: Loc) -> list[Any]:
    return [loc.file, loc.line, loc.column, loc.end_column, loc.function]
