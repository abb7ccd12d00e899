"""Shadow memory: the last accesses to each element, for the detection of races between programs.

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

`SanitizerState` has the shadow memory of a launch together with the other state of its checks.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from typing import Any, cast

import numpy as np

from tile.backends.base import LaunchArgument
from tile.backends.host_memory import span
from tile.backends.interp.fault_report import FaultCollector, place_of, report_faults
from tile.backends.interp.lazy_zeros import lazy_zeros
from tile.backends.interp.program_batch import LaunchContext, ProgramBatch
from tile.backends.interp.resolved_access import Buffer, ResolvedAccess, Strided
from tile.backends.interp.sanitizer.access import Site, fault_at, locate_first
from tile.backends.interp.sanitizer.happens_before import HappensBefore
from tile.backends.interp.tuning import TUNING
from tile.backends.interp.values import Array, ramp
from tile.backends.interp.virtual_memory import Memory
from tile.faults import Check, Checks, Fault, RacingAccess
from tile.ir.core import Operation
from tile.tracebacks import warn


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


ATOMIC = 1 << 31
HAS_EXTRA = 1 << 30  # in the second `others` record of a cell: `Region.extra_readers` has more
NUMBER = HAS_EXTRA - 1
PROGRAM_SHIFT = 32  # bits below the program number


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


def _by_other(previous: Array, record: Array) -> Array:
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
        if not (own and self._untouched_by_others(self.part)):
            return False
        records = self.region.writers() if writes else self.region.other(0)
        recorded = replace(self.part, flat=records)
        recorded.write(self.record, False)
        return recorded.is_disjoint() or bool((recorded.read() == self.record).all())

    def _untouched_by_others(self, part: Strided) -> bool:
        """Return True if no other program has records of the accessed elements."""
        for records in self.region.record_arrays:
            access = replace(part, flat=records)
            view = access.view()
            previous = access.read() if view is None else view
            if self.region.extra_readers is not None and (previous & HAS_EXTRA).any():
                return False
            # Most often there are no records, or only the program's own.
            mixed = previous.any() and ((previous ^ self.record) >> PROGRAM_SHIFT).any()
            if mixed and _by_other(previous, self.record).any():
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


class ShadowMemory:
    """The records of all arrays of a launch."""

    def __init__(
        self, memory: Memory, written: frozenset[str] | None, min_element_bytes: int | None
    ) -> None:
        """Track arrays that are `written` (None: all), in cells of at most `min_element_bytes`."""
        self.memory = memory
        self.records: list[Record] = []
        self.times = np.zeros(64, np.int64)  # of the records
        self.latest: dict[Site, tuple[int, int]] = {}  # the time and number of the last record
        self.regions: dict[int, Region] = {}
        self.overflow_warned = False
        # By region and pair of operations, the cells whose races were reported.
        self.reported: dict[tuple[int, frozenset[Operation]], Array] = {}
        for region, buffers in _regions(memory.buffers, min_element_bytes):
            if written is None or any(_parameter(b.name) in written for b in buffers):
                self.regions.update({id(buffer): region for buffer in buffers})

    # -- accesses

    def load(self, batch: ProgramBatch, site: Site, resolved: ResolvedAccess) -> None:
        """Check and record a load."""
        for access in self.parts(batch, site, resolved, atomic=False):
            if not access.record_quickly(writes=False):
                self.read(access.elements())

    def store(
        self,
        batch: ProgramBatch,
        site: Site,
        resolved: ResolvedAccess,
        value: Array,
        written: bool = True,
    ) -> None:
        """Check and record a store.

        written: True if the store has been done, so that memory holds the last value per address.
        """
        for access in self.parts(batch, site, resolved, atomic=False):
            if not access.record_quickly(writes=True):
                self.write(access.elements())
                if not isinstance(access.part, Strided):
                    self.check_conflicting_store(access, resolved, value, written)

    def update(
        self, batch: ProgramBatch, site: Site, resolved: ResolvedAccess, atomic: bool
    ) -> None:
        """Check and record an atomic; `atomic` is False if it is so for its own program only."""
        for access in self.parts(batch, site, resolved, atomic=atomic):
            (self.modify if atomic else self.write)(access.elements())

    def record(self, batch: ProgramBatch, site: Site, atomic: bool) -> Array:
        """Return the records of an access at this time, one for each program of the batch."""
        order = state_of(batch).order
        time = 0 if order is None else order.now
        last_time, number = self.latest.get(site, (-1, 0))
        if last_time != time:
            number = len(self.records) & NUMBER
            self.latest[site] = time, number
            self.records.append(Record(site.op, site.verb))
            if number >= len(self.times):
                self.times = np.concatenate([self.times, np.zeros_like(self.times)])
            self.times[number] = time
        records = (batch.rows.astype(np.int64) + 1 << PROGRAM_SHIFT) | (ATOMIC * atomic) | number
        return records.reshape(-1, *(1,) * len(site.shape))

    def parts(
        self, batch: ProgramBatch, site: Site, resolved: ResolvedAccess, *, atomic: bool
    ) -> Iterator[RegionAccess]:
        """Yield the access in each tracked region."""
        for part in resolved.parts:
            buffer, region = part.buffer, self.regions.get(id(part.buffer))
            if buffer is None or region is None:
                continue
            record = self.record(batch, site, atomic)
            # The cell at which the array begins, and the cells of an element.
            start = buffer.real + buffer.start - buffer.origin
            shift = (start - region.low) // region.cell
            ratio = max(1, site.dtype.itemsize // region.cell)
            for first in range(shift, shift + ratio):
                cells: Any
                if isinstance(part, Strided):
                    steps = tuple(step * ratio for step in part.steps)
                    cells = replace(part, offsets=part.offsets * ratio + first, steps=steps)
                else:
                    cells = part.index * ratio + first, part.lanes
                yield RegionAccess(batch, site, region, buffer, cells, record)

    # -- one element at a time

    def read(self, elements: ElementAccess) -> None:
        region, cells = elements.region, elements.cells
        last = [] if region.writer is None else [region.writer[cells]]
        atomics = (np.where(f & ATOMIC, f, 0) for f in (other[cells] for other in region.others))
        self.check_races(elements, chain(last, atomics))
        self.add_access(elements.batch, region, cells, elements.record)

    def add_access(self, batch: ProgramBatch, region: Region, cells: Array, record: Array) -> None:
        """Record accesses in the first record that is free, or that the program itself holds."""
        for index in range(2):
            records = region.other(index)
            previous = records[cells]
            free = (previous == 0) | (previous >> PROGRAM_SHIFT == record >> PROGRAM_SHIFT)
            displaced = np.zeros(0, np.bool_)
            if index:  # the last access replaces the earlier one
                displaced = ~free & ~self.ordered(batch, previous, record)
                free[:] = True
            elif not (record[0] & ATOMIC):  # atomics meet each other too often to check their order
                free |= self.ordered(batch, previous, record)
            records[cells[free]] = record[free] | (previous[free] & HAS_EXTRA)
            if displaced.any():
                self.add_extra_readers(batch, region, cells[displaced], previous[displaced])
            current = records[cells]
            remaining = current >> PROGRAM_SHIFT != record >> PROGRAM_SHIFT
            if not remaining.any():
                return
            cells, record = cells[remaining], record[remaining]
        self.add_extra_readers(batch, region, cells, record)

    def add_extra_readers(
        self, batch: ProgramBatch, region: Region, cells: Array, records: Array
    ) -> None:
        """Keep reads whose records were replaced, if programs synchronize."""
        reads = records & ATOMIC == 0
        if state_of(batch).order is None or not reads.any():
            return
        if region.extra_readers is None:
            region.extra_readers = ExtraReaders()
        if region.extra_readers.add(cells[reads], records[reads]):
            region.other(1)[cells[reads]] |= HAS_EXTRA
        elif not self.overflow_warned:
            self.overflow_warned = True
            warn(
                f"`{batch.launch.name}` has more concurrent readers of what it writes than are "
                "recorded; races of some of them with a later write may be missed"
            )

    def check_extra_readers(self, elements: ElementAccess) -> None:
        """Report races with readers whose records were replaced; see `check_races`."""
        region = elements.region
        if region.extra_readers is None:
            return
        flagged = np.flatnonzero(region.other(1)[elements.cells] & HAS_EXTRA)
        if flagged.size:
            positions, records = region.extra_readers.of(elements.cells[flagged])
            self.check_races(elements.at(flagged[positions]), [records])

    def write(self, elements: ElementAccess) -> None:
        region, cells = elements.region, elements.cells
        last = region.writers()
        self.check_races(elements, (records[cells] for records in region.record_arrays))
        self.check_extra_readers(elements)
        last[cells] = elements.record
        self.check_races(elements, [last[cells]])
        for other in region.others:
            other[cells] = 0

    def modify(self, elements: ElementAccess) -> None:
        batch, region = elements.batch, elements.region
        cells, record = elements.cells, elements.record
        last = region.writers()
        previous = last[cells]
        accesses = (np.where(f & ATOMIC, 0, f) for f in (r[cells] for r in region.record_arrays))
        self.check_races(elements, accesses)
        self.check_extra_readers(elements)
        # Atomics of others stay, and the program's own plain write, with which theirs race.
        is_atomic = previous & ATOMIC != 0
        stays = (previous != 0) & (_by_other(previous, record) == is_atomic)
        if stays.any():
            self.add_access(batch, region, cells[stays], previous[stays])
        last[cells] = record
        displaced = last[cells] >> PROGRAM_SHIFT != record >> PROGRAM_SHIFT
        if displaced.any():
            self.add_access(batch, region, cells[displaced], record[displaced])

    def check_races(self, elements: ElementAccess, earlier: Iterable[Array]) -> None:
        """Report elements that another program accessed earlier, if nothing orders the two.

        earlier: arrays of records, one for each element, 0 for none.
        """
        for previous in earlier:
            wrong = _by_other(previous, elements.record)
            if wrong.any():
                wrong &= ~self.ordered(elements.batch, previous, elements.record)
                if wrong.any():
                    self.report(elements, wrong, previous)

    def ordered(self, batch: ProgramBatch, previous: Array, record: Array) -> Array:
        """Return True for previous accesses that happen before those of the later `record`."""
        order: HappensBefore | None = state_of(batch).order
        result = np.zeros(previous.shape, np.bool_)
        if order is None:
            return result
        candidates = np.flatnonzero(_by_other(previous, record))
        if not candidates.size:
            return result
        earlier, later = previous[candidates], record[candidates]
        times = self.times[earlier & NUMBER]
        result[candidates] = order.happens_before(
            (earlier >> PROGRAM_SHIFT) - 1, times, (later >> PROGRAM_SHIFT) - 1
        )
        return result

    # -- reports

    def report(self, elements: ElementAccess, wrong: Array, previous: Array) -> None:
        """Report one race for each element of memory and pair of operations.

        The number of programs that race at an element depends on their order. That some do, does
        not, nor with which two operations if no more than two access it.
        """
        launch, site = elements.batch.launch, elements.access.site
        if launch.report is None:
            launch.report_fault(self.race(elements, wrong, previous))
            return
        for other in np.unique(previous[wrong] & NUMBER).tolist():
            matching = wrong & (previous & NUMBER == other)
            pair = id(elements.region), frozenset({site.op, self.records[other].op})
            reported = self.reported.get(pair, np.zeros(0, np.int64))
            new_cells = np.setdiff1d(elements.cells[matching], reported)
            self.reported[pair] = np.union1d(reported, new_cells)
            race = partial(self.race, elements, previous=previous)
            repeated = matching & ~np.isin(elements.cells, new_cells)
            separate, merged = new_cells, new_cells[:0]
            for index, cell in enumerate(new_cells.tolist()):
                fault = race(wrong=matching & (elements.cells == cell))
                if index and index >= separate.size:
                    break
                if not index:
                    limit = max(1, launch.report.remaining(fault))
                    separate, merged = new_cells[:limit], new_cells[limit:]
                launch.report_fault(replace(fault, count=1))
            if merged.size:
                fault = race(wrong=matching & np.isin(elements.cells, merged))
                launch.report_fault(replace(fault, count=merged.size, executions=merged.size))
            if repeated.any():  # shown in drawings, but not counted
                launch.report_fault(replace(race(wrong=repeated), count=0, executions=0))

    def race(self, elements: ElementAccess, wrong: Array, previous: Array) -> Fault:
        """Return the fault of wrong elements, described by the first of them."""
        access, region, batch = elements.access, elements.region, elements.batch
        site, buffer = access.site, access.buffer
        index = int(wrong.argmax())
        previous_record = int(previous[index])
        other = self.records[previous_record & NUMBER]
        program = batch.launch.coordinates((previous_record >> PROGRAM_SHIFT) - 1)
        shift = region.low - buffer.real + buffer.origin
        place = place_of(buffer, int(elements.cells[index]) * region.cell + shift)
        lanes = np.zeros(elements.extents, np.bool_)
        addresses = np.zeros(elements.extents, np.int64)
        lanes.flat[elements.lanes[wrong]] = True
        addresses.flat[elements.lanes[wrong]] = elements.cells[wrong] * region.cell + shift
        location = locate_first(batch, lanes)
        too = " too" if other.verb == site.verb else ""
        at = "the same line" if other.op.loc == site.op.loc else str(other.op.loc)
        notes = [
            f"program {program} {other.verb} it{too}, at {at}; nothing orders the two",
            *_advice(site.op, other.op),
        ]
        if len(region.names) > 1:
            names = " and ".join(f"`{name}`" for name in region.names)
            notes.append(f"{names} were passed the same memory")
        message = f"{site.verb} {place}, which another program {other.verb}"
        racing = RacingAccess(program, other.verb, other.op.loc, buffer.name)
        details = {"place": place, "other": racing}
        return fault_at(batch, Check.RACE, site.op, message, location, notes, addresses, **details)

    def check_conflicting_store(
        self, access: RegionAccess, resolved: ResolvedAccess, value: Array, written: bool
    ) -> None:
        """Report elements that one store of one program writes to one address with others."""
        batch, site, buffer = access.batch, access.site, access.buffer
        for group in resolved.groups:
            if group.buffer is not buffer or not group.flat.size:
                continue
            programs = max(
                len(group.index), len(value), 1 if group.lanes is None else len(group.lanes)
            )
            extents = (programs, *site.shape)
            index = np.broadcast_to(group.index, extents)
            real = self.memory.real(value) if site.element.is_ptr() else value
            expected = np.broadcast_to(real, extents).view()
            stored = group.flat[index] if written else _overwritten(index, group.lanes, expected)
            wrong = _bits(stored) != _bits(expected)
            if group.lanes is not None:
                wrong &= np.broadcast_to(group.lanes, extents)
            if wrong.any():  # by one program; two programs are a race
                own = np.arange(programs).reshape(-1, *(1,) * len(site.shape)) * group.flat.size
                wrong = _bits(_overwritten(own + index, group.lanes, expected)) != _bits(expected)
            if wrong.any():
                addresses = buffer.start + index * site.dtype.itemsize
                report = partial(_conflicting_store_fault, batch, site, buffer, addresses)
                report_faults(batch, wrong, report)


@dataclass(eq=False)
class SanitizerState:
    """The state of a launch with checks, which its rules read and update."""

    checks: Checks
    arguments: Sequence[LaunchArgument]  # as passed to the launch
    collector: FaultCollector  # of the faults of the operation that runs
    order: HappensBefore | None = None  # None if no program synchronizes with another one
    shadow: ShadowMemory | None = None  # None if races are not checked, or cannot occur
    # By id of the buffer, which elements of an array of `tile.empty` have been written.
    uninitialized: dict[int, Array] = field(default_factory=dict)


class CheckedContext(LaunchContext):
    """The launch of a batch with checks, as their rules see it."""

    state: SanitizerState


def state_of(batch: ProgramBatch) -> SanitizerState:
    """Return the state of the launch with checks that a batch belongs to."""
    return cast("CheckedContext", batch.launch).state


def _conflicting_store_fault(
    batch: ProgramBatch, site: Site, buffer: Buffer, addresses: Array, wrong: Array
) -> Fault:
    location = locate_first(batch, wrong)
    addresses = np.broadcast_to(addresses, wrong.shape)
    where = place_of(buffer, int(addresses[location.index]))
    message = f"{site.verb} {where} several times in one store, with different values"
    notes = ["it is undefined which value remains"]
    return fault_at(batch, Check.RACE, site.op, message, location, notes, addresses, place=where)


def _overwritten(index: Array, lanes: Array | None, values: Array) -> Array:
    """Return what memory holds at each index after the values are written there, in order."""
    chosen = np.broadcast_to(True if lanes is None else lanes, index.shape)
    cells, inverse = np.unique(index[chosen], return_inverse=True)
    last = np.zeros(cells.shape, values.dtype)
    last[inverse] = values[chosen]
    stored = values.copy()
    stored[chosen] = last[inverse]
    return stored


def _bits(values: Array) -> Array:
    return np.ascontiguousarray(values).view(f"u{values.itemsize}")


def _advice(op: Operation, other: Operation) -> list[str]:
    atomics = [o for o in (op, other) if "order" in o.attributes]
    if len(atomics) == 1 and op is not other:
        return ["one of them is not atomic; both must be, or other atomics must order them"]
    if any(o.attributes.get("scope") == "cta" for o in atomics):
        return ["an atomic operation of scope 'cta' is atomic only within its own program"]
    return []


def _parameter(name: str) -> str:
    return name.partition("[")[0]


def _regions(
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
