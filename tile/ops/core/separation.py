"""Address ranges of the arrays to write in a planned call, which must not overlap others."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from tile.runtime.arguments.overlap import overlapping


class Separation(NamedTuple):
    """Arrays to write, which must not overlap others.

    extents: the bytes of each array, by position. outputs: by the position of each array to write,
    the positions of those that may be the same array.
    """

    extents: Mapping[int, int]
    outputs: Mapping[int, frozenset[int]]

    @property
    def pairs(self) -> list[tuple[int, int]]:
        """The positions of each array to write and each other one."""
        return [(one, other) for one in self.outputs for other in self.extents if one != other]

    def holds(self, addresses: Sequence[int]) -> bool:
        """Return True for addresses, one for each of `extents`, at which the arrays lie apart."""
        positions = [*self.extents]
        ends = [*map(operator.add, addresses, self.extents.values())]
        return all(
            addresses[i] == addresses[j] and self.may_be_one(positions[i], positions[j])
            for i, j in overlapping(addresses, ends)
            if self._written(positions[i], positions[j])
        )

    def may_be_one(self, one: int, other: int) -> bool:
        """Return True if an array to write and another one may be the same array."""
        return other in self.outputs.get(one, ()) or one in self.outputs.get(other, ())

    def keeps_apart(self, one: int, other: int) -> bool:
        """Return True if two arrays, of which one is written, share no memory if this holds."""
        return self._written(one, other) and one in self.extents and other in self.extents

    def _written(self, one: int, other: int) -> bool:
        return one in self.outputs or other in self.outputs
