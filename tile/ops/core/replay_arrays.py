"""The source by which a replay gets its arrays, and their addresses.

The addresses of lists, and of many new arrays, are in two tuples, which are made and passed to
launches as a whole: `~tested`, of the arrays that are tested together, and `~made`, of new ones.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from tile.backends.capabilities import ReaderOf
from tile.ops.core.call_records import CallPlan
from tile.ops.core.generated import Names, tuple_text
from tile.ops.core.new_tensors import NewTensor, device_conditions, tuple_of
from tile.ops.core.replay_addresses import AddressCheck, address_conditions, is_listed

MOST_NEW = 4  # arrays that have names; more are items of a tuple
TESTED, MADE = "~tested", "~made"


class ReplayArrays:
    """The arrays of a replay by position, `values` those of a call.

    items: the tuple and the index there of addresses that are in one. reader_of: as in
    `BoundLaunch`.
    """

    def __init__(
        self,
        plan: CallPlan,
        values: Sequence[Any],
        parameters: Sequence[str],
        names: Names,
        reader_of: ReaderOf | None = None,
    ) -> None:
        self.plan, self.values = plan, values
        self._reader_of = reader_of
        self._names = names
        self._new = range(len(plan.sources), len(values))
        listed = [*plan.separation.extents] if is_listed(plan.separation) else []
        made = self._new if len(self._new) > MOST_NEW else ()
        tuples = ((TESTED, listed), (MADE, made))
        self.items = {at: (word, n) for word, some in tuples for n, at in enumerate(some)}
        sources = [(parameters[index], at) for index, at in plan.sources]
        new = [("~new", n) if made else (f"~n{n}", None) for n in range(len(self._new))]
        self._sources: list[tuple[str, int | None]] = [*sources, *new]
        self._lengths: dict[str, int] = {}
        for word, at in self._sources:
            self._lengths[word] = 1 if at is None else at + 1
        self._tested, self._made = listed, made
        self._read: set[int] = {*plan.aligned}
        if plan.separation.outputs and not listed:
            self._read.update(plan.separation.extents)

    def word(self, position: int) -> str:
        """Return the source of an array."""
        word, at = self._sources[position]
        return word if at is None else f"{word}[{at}]"

    def words(self, positions: Iterable[int]) -> str:
        """Return the source of a tuple of arrays."""
        return tuple_text(f"*{word}" if many else word for word, many in self._parts(positions))

    def address(self, position: int) -> str:
        """Return the source of an address, which the replay reads."""
        item = self.items.get(position)
        if item is None:
            self._read.add(position)
        return f"~p{position}" if item is None else f"{item[0]}[{item[1]}]"

    def statements(self) -> Iterator[str]:
        """Yield statements that make the new arrays, and read addresses that are not tested."""
        new = [
            NewTensor(one.shape, self.values[one.like], self.word(one.like), self.values[at])
            for at, one in zip(self._new, self.plan.new, strict=True)
        ]
        if self._made:
            yield f"~new = {tuple_of(new, self._names)}"
            yield f"{MADE} = {self._addresses(self._made)}"
        else:
            for at, one in zip(self._new, new, strict=True):
                yield f"{self.word(at)} = {one.text(self._names)}"
        for at in sorted(self._read.difference(self.items)):
            yield f"~p{at} = {self.word(at)}.data_ptr()"

    def exceptions(self) -> list[str]:
        """Return conditions under which the addresses are wrong, or new arrays.

        Memory that an allocator returns is aligned.
        """
        separation = self.plan.separation
        conditions = []
        if self._tested:
            conditions.append(f"({TESTED} := {self._tested_addresses()}) is None")
        read = sorted(self._read.difference(self.items, self._new))
        pairs = [] if self._tested else separation.pairs
        conditions += address_conditions(separation, self.address, read, pairs, self._names)
        made = [self.values[at] for at in self._new]
        return conditions + device_conditions(made, self._names)

    def _tested_addresses(self) -> str:
        """Return the source of the tuple of tested addresses, or None if they are wrong."""
        reader = None
        if self._reader_of is not None:
            torch = sys.modules["torch"]
            tensors, first = (torch.Tensor, torch.nn.Parameter), self.values[self._tested[0]]
            reader = self._reader_of(tensors, first, len(self._tested))
        remember = None if reader is None else reader.remember
        check = self._names.add("check", AddressCheck(self.plan.separation, remember))
        checked = f"{check}.of({self._addresses(self._tested)})"
        if reader is None:
            return checked
        words = ", ".join(word for word, _ in self._parts(self._tested))
        return f"{self._names.add('addresses', reader.read)}({words}) or {checked}"

    def _addresses(self, positions: Iterable[int]) -> str:
        """Return the source of a tuple of addresses."""
        read = self._names.add("read", sys.modules["torch"].Tensor.data_ptr)
        parts = self._parts(positions)
        return tuple_text(
            f"*map({read}, {word})" if many else f"{word}.data_ptr()" for word, many in parts
        )

    def _parts(self, positions: Iterable[int]) -> Iterator[tuple[str, bool]]:
        """Yield the source of each array, or of several that are adjacent in a list, and True."""
        sources = enumerate(self._sources[position] for position in positions)
        for (word, _), adjacent in itertools.groupby(sources, _start):
            indices = [at for _, (_, at) in adjacent]
            first, count = indices[0], len(indices)
            if first is None:
                yield from itertools.repeat((word, False), count)
            elif count == 1:
                yield f"{word}[{first}]", False
            else:
                whole = count == self._lengths[word]
                yield word if whole else f"{word}[{first}:{first + count}]", True


def _start(numbered: tuple[int, tuple[str, int | None]]) -> tuple[str, int | None]:
    """Return the same for arrays that are adjacent in a list, for their numbers and sources."""
    number, (word, at) = numbered
    return word, None if at is None else at - number
