"""Readers of an element beyond the two that have records beside it.

Where programs synchronise, a write must come after every reader, and that it comes after two of
them says nothing of a third. Readers whose records others take the place of are kept here, as a
list for the whole region: there are few, since only memory that the kernel writes is watched, and
little of that is read by three programs which nothing orders.
"""

from __future__ import annotations

import numpy as np

from tile.backends.interp.values import Array

# How many are kept of a region, at sixteen bytes each.
MAX_EXTRA_READERS = 1 << 20


class ExtraReaders:
    """Cells, and records of reads of them."""

    def __init__(self) -> None:
        self._cells: list[Array] = []
        self._records: list[Array] = []
        self._count = 0

    def add(self, cells: Array, records: Array) -> bool:
        """Keep reads; whether there is room for them."""
        if self._count + cells.size > MAX_EXTRA_READERS:
            return False
        self._count += cells.size
        self._cells.append(cells)
        self._records.append(records)
        return True

    def of(self, cells: Array) -> tuple[Array, Array]:
        """The reads of some cells: which of `cells` each is of, and its record."""
        if len(self._cells) > 1:
            self._cells = [np.concatenate(self._cells)]
            self._records = [np.concatenate(self._records)]
        matching = np.flatnonzero(np.isin(self._cells[0], cells))
        order = np.argsort(cells, kind="stable")
        places = order[np.searchsorted(cells, self._cells[0][matching], sorter=order)]
        return places, self._records[0][matching]
