"""Tests that the addresses of a replay's arrays are right."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Iterable

from tile.ops.core.generated import Names
from tile.ops.core.separation import Separation
from tile.runtime.signature import DIVISOR

MOST_COMPARED = 8  # pairs of addresses, which are sorted if there are more
MOST_PASSED = 8  # addresses of arguments, which are in a tuple if there are more
RECENT = 16  # lists of addresses that are known to be right

Addresses = tuple[int, ...]


class AddressCheck:
    """A test that arrays are aligned and lie as they must; `latest` are addresses that pass."""

    def __init__(
        self, separation: Separation, remember: Callable[[Addresses], None] | None = None
    ) -> None:
        """`remember` gets addresses that pass."""
        self._separation = separation
        self._remember = remember
        self.latest: Addresses = ()
        self._right: Callable[[Addresses], bool] = _aligned
        if separation.outputs:
            self._right = functools.lru_cache(RECENT)(self._check)

    def of(self, addresses: Addresses) -> Addresses | None:
        """Return addresses, one for each extent of the separation, or None if they are wrong."""
        if addresses != self.latest:
            if not self._right(addresses):
                return None
            self.latest = addresses
            if self._remember is not None:
                self._remember(addresses)
        return addresses

    def _check(self, addresses: Addresses) -> bool:
        return _aligned(addresses) and self._separation.holds(addresses)


def _aligned(addresses: Addresses) -> bool:
    return functools.reduce(operator.or_, addresses) % DIVISOR == 0


def is_listed(separation: Separation) -> bool:
    """Return True if the addresses of the arrays of a separation are in a tuple, to be tested."""
    return len(separation.pairs) > MOST_COMPARED or len(separation.extents) > MOST_PASSED


def address_conditions(
    separation: Separation,
    word: Callable[[int], str],
    read: Iterable[int],
    pairs: Iterable[tuple[int, int]],
    names: Names,
) -> list[str]:
    """Return conditions that are true unless arrays are aligned, and those of pairs lie apart.

    word: returns the source of the address of the array at a position. read: the positions of
    arrays that must be aligned.
    """
    words = [word(at) for at in read]
    conditions = [f"({' | '.join(words)}) % {DIVISOR}"] if words else []
    for one, other in pairs:
        low, high, extents = word(one), word(other), separation.extents
        below, above = names.add("c", -extents[other]), names.add("c", extents[one])
        equal = f"{high} != {low} and " if separation.may_be_one(one, other) else ""
        conditions.append(f"{equal}{below} < {high} - {low} < {above}")
    return conditions
