"""Readers of an element beyond the two that shadow memory has records for.

If programs synchronize, a write must happen after every reader, and two readers say nothing about a
third. Readers whose records are replaced are therefore kept here, in one list per region. They are
few: only memory that the kernel writes is tracked, and little of it is read by three programs that
nothing orders.
"""

from __future__ import annotations

import numpy as np

from tile.backends.interp.values import Array

# Limit of reads kept per region, at sixteen bytes each.
MAX_EXTRA_READERS = 1 << 20


class ExtraReaders:
    """Reads of a region: cells, and the record of each read."""

    def __init__(self) -> None:
        self._cells: list[Array] = []
        self._records: list[Array] = []
        self._count = 0

    def add(self, cells: Array, records: Array) -> bool:
        """Keep reads; return False if they exceed the limit."""
        if self._count + cells.size > MAX_EXTRA_READERS:
            return False
        self._count += cells.size
        self._cells.append(cells)
        self._records.append(records)
        return True

    def of(self, cells: Array) -> tuple[Array, Array]:
        """Return the reads of some cells: for each, its index into `cells`, and its record."""
        if len(self._cells) > 1:
            self._cells = [np.concatenate(self._cells)]
            self._records = [np.concatenate(self._records)]
        matching = np.flatnonzero(np.isin(self._cells[0], cells))
        order = np.argsort(cells, kind="stable")
        indices = order[np.searchsorted(cells, self._cells[0][matching], sorter=order)]
        return indices, self._records[0][matching]
