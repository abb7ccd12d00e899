"""Records of accesses, for the detection of races between programs (`shadow_memory`).

Each element of an array that the kernel may write has up to three records of eight bytes: one of
the last write, and two of other accesses, by two programs, which do not happen before that write,
or are plain writes of the program that then wrote atomically.
A record is

    (program + 1) << 32 | is atomic << 31 | has extra readers << 30 | number of the access

The number leads to the operation and to its time (`happens_before.py`). Two records are enough for
programs that update an element atomically; further ones are not kept. Records are allocated on
first use, so memory that is only written has one per element. Arrays that overlap share their
records.

If programs do not synchronize, two readers are enough: a write that races with any reader races
with one of them. If they synchronize, a write must happen after every reader, and two readers say
nothing about a third. Readers whose records are replaced are therefore kept in `ExtraReaders`, one
list per region. They are few: only memory that the kernel writes is tracked, and little of it is
read by three programs that nothing orders.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from tile.backends.host_memory import span
from tile.backends.interp.program_batch import ProgramBatch
from tile.backends.interp.resolved_access import Buffer, Strided
from tile.backends.interp.sanitizer.access import Site
from tile.backends.interp.tuning import TUNING
from tile.backends.interp.values import Array, ramp
from tile.backends.interp.virtual_memory import lazy_zeros
from tile.ir.core import Operation

ATOMIC = 1 << 31
HAS_EXTRA = 1 << 30  # in the second `others` record of a cell: `Region.extra_readers` has more
NUMBER = HAS_EXTRA - 1
PROGRAM_SHIFT = 32  # bits below the program number


class ExtraReaders:
    """Reads of a region: cells, and the record of each read."""

    def __init__(self) -> None:
        self._cells: list[Array] = []
        self._records: list[Array] = []
        self._count = 0

    def add(self, cells: Array, records: Array) -> bool:
        """Keep reads; return False if they exceed the limit."""
        if self._count + cells.size > TUNING.extra_readers:
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


@dataclass(frozen=True)
class Record:
    """A memory operation at some time."""

    op: Operation
    verb: str


@dataclass(eq=False)
class Region:
    """Memory of one array, or of several that share bytes, in cells of `cell` bytes."""

    low: int  # the machine's address of the first byte
    cells: int
    cell: int
    names: tuple[str, ...]
    writer: Array | None = None
    others: list[Array] = field(default_factory=list)  # at most two
    extra_readers: ExtraReaders | None = None

    def writers(self) -> Array:
        """Return the records of the last writes, allocated on first use."""
        if self.writer is None:
            self.writer = lazy_zeros(self.cells, np.int64)
        return self.writer

    def other(self, index: int) -> Array:
        """Return records of accesses since the last write, allocated on first use."""
        while len(self.others) <= index:
            self.others.append(lazy_zeros(self.cells, np.int64))
        return self.others[index]

    @property
    def record_arrays(self) -> list[Array]:
        """All arrays of records that are allocated, the writers' first."""
        return self.others if self.writer is None else [self.writer, *self.others]


def by_other_program(previous: Array, record: Array) -> Array:
    """Return True for records of a program other than the one of the later `record`."""
    other: Array = (previous != 0) & (previous >> PROGRAM_SHIFT != record >> PROGRAM_SHIFT)
    return other


@dataclass(frozen=True)
class RegionAccess:
    """An access of the batch's programs in one region, as `Strided` cells or (indices, lanes).

    `record` has the record of the access, for each program.
    """

    batch: ProgramBatch
    site: Site
    region: Region
    buffer: Buffer
    part: Any
    record: Array

    def record_quickly(self, *, writes: bool) -> bool:
        """Record the access if no other program accesses the elements; else return False.

        The program's own reads stay when it writes: they happen before the write. If programs of
        the batch share elements, a part of their records is lost, and `elements` adds them.
        """
        if not isinstance(self.part, Strided):
            return False
        own = len(self.record) == 1 or len(self.part.offsets) > 1  # else all access the same cells
        if not (own and self._untouchedby_other_programs(self.part)):
            return False
        records = self.region.writers() if writes else self.region.other(0)
        recorded = replace(self.part, flat=records)
        recorded.write(self.record, False)
        return recorded.is_disjoint() or bool((recorded.read() == self.record).all())

    def _untouchedby_other_programs(self, part: Strided) -> bool:
        """Return True if no other program has records of the accessed elements."""
        for records in self.region.record_arrays:
            access = replace(part, flat=records)
            view = access.view()
            previous = access.read() if view is None else view
            if self.region.extra_readers is not None and (previous & HAS_EXTRA).any():
                return False
            # Most often there are no records, or only the program's own.
            mixed = previous.any() and ((previous ^ self.record) >> PROGRAM_SHIFT).any()
            if mixed and by_other_program(previous, self.record).any():
                return False
        return True

    def elements(self) -> ElementAccess:
        """Return the elements as flat arrays."""
        extents = (len(self.record), *self.site.shape)
        strided = isinstance(self.part, Strided)
        cells, lanes = _indices(self.part, self.site.shape) if strided else self.part
        cells, records = np.broadcast_to(cells, extents), np.broadcast_to(self.record, extents)
        if lanes is None:
            return ElementAccess(
                self, cells.ravel(), records.ravel(), np.arange(cells.size), extents
            )
        chosen = np.broadcast_to(lanes, extents)
        return ElementAccess(self, cells[chosen], records[chosen], np.flatnonzero(chosen), extents)


@dataclass(frozen=True)
class ElementAccess:
    """The elements of one access in one region, as flat arrays."""

    access: RegionAccess
    cells: Array
    record: Array  # the record of this access, for each element
    lanes: Array  # flat index of each element in `extents`
    extents: tuple[int, ...]  # (programs of the batch, *shape of the tile)

    @property
    def batch(self) -> ProgramBatch:
        return self.access.batch

    @property
    def region(self) -> Region:
        return self.access.region

    def at(self, index: Array) -> ElementAccess:
        """Return some of the elements."""
        cells, record, lanes = self.cells[index], self.record[index], self.lanes[index]
        return replace(self, cells=cells, record=record, lanes=lanes)


def disjoint_regions(
    buffers: Sequence[Buffer], min_element_bytes: int | None
) -> Iterator[tuple[Region, list[Buffer]]]:
    """Yield disjoint regions of memory, each with its arrays."""
    spans = sorted((*span(b.array), at) for at, b in enumerate(buffers) if b.array.size)
    overlapping: list[tuple[int, int, Buffer]] = []
    for low, high, at in [*spans, (math.inf, math.inf, -1)]:
        if overlapping and low >= max(end for _, end, _ in overlapping):
            yield _region(overlapping, min_element_bytes), [buffer for _, _, buffer in overlapping]
            overlapping = []
        if at >= 0:
            overlapping.append((int(low), int(high), buffers[at]))


def _region(
    overlapping: Sequence[tuple[int, int, Buffer]], min_element_bytes: int | None
) -> Region:
    low = overlapping[0][0]
    high = max(end for _, end, _ in overlapping)
    parts = [n for start, _, buffer in overlapping for n in (start - low, buffer.array.itemsize)]
    cell = math.gcd(*parts, *(() if min_element_bytes is None else (min_element_bytes,)))
    return Region(low, -(-(high - low) // cell), cell, tuple(b.name for _, _, b in overlapping))


def _indices(part: Strided, shape: tuple[int, ...]) -> tuple[Array, Array | None]:
    """Return the index of each element of a strided access, and which are active (None: all)."""
    total = part.offsets
    rank = len(part.steps)
    for axis, step in enumerate(part.steps):
        total = total + ramp(part.extents, axis, step)
    if part.part is None:
        return total, None
    axis, start, count = part.part
    run = (slice(None),) * (axis + 1) + (slice(start, start + count),)
    whole = np.zeros((*total.shape[: axis + 1], shape[axis], *total.shape[axis + 2 :]), np.int64)
    whole[run] = total
    lanes = np.zeros((1,) * (axis + 1) + (shape[axis],) + (1,) * (rank - axis - 1), np.bool_)
    lanes[run] = True
    return whole, lanes
