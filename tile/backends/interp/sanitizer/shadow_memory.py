"""Shadow memory: the last accesses to each element, for the detection of races between programs.

`race_records` has the records. `SanitizerState` has the shadow memory of a launch together with the
other state of its checks.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from typing import Any, cast

import numpy as np

from tile.backends.base import LaunchArgument
from tile.backends.interp.fault_report import FaultCollector, place_of, report_faults
from tile.backends.interp.program_batch import LaunchContext, ProgramBatch
from tile.backends.interp.resolved_access import Buffer, ResolvedAccess, Strided
from tile.backends.interp.sanitizer.access import Site, WrongElements
from tile.backends.interp.sanitizer.happens_before import HappensBefore
from tile.backends.interp.sanitizer.race_records import (
    ATOMIC,
    HAS_EXTRA,
    NUMBER,
    PROGRAM_SHIFT,
    ElementAccess,
    ExtraReaders,
    Record,
    Region,
    RegionAccess,
    by_other_program,
    disjoint_regions,
)
from tile.backends.interp.values import Array
from tile.backends.interp.virtual_memory import Memory
from tile.checks import Check, Checks
from tile.faults import Fault, RacingAccess
from tile.ir.core import Operation
from tile.tracebacks import warn


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
        for region, buffers in disjoint_regions(memory.buffers, min_element_bytes):
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
        stays = (previous != 0) & (by_other_program(previous, record) == is_atomic)
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
            wrong = by_other_program(previous, elements.record)
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
        candidates = np.flatnonzero(by_other_program(previous, record))
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
        wrong_elements = WrongElements(batch, site.op, lanes)
        return wrong_elements.fault(
            Check.RACE, message, notes, addresses, place=place, other=racing
        )

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
    elements = WrongElements(batch, site.op, wrong)
    addresses = np.broadcast_to(addresses, wrong.shape)
    where = place_of(buffer, int(addresses[elements.index]))
    message = f"{site.verb} {where} several times in one store, with different values"
    notes = ["it is undefined which value remains"]
    return elements.fault(Check.RACE, message, notes, addresses, place=where)


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
