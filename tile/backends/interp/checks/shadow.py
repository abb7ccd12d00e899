"""Who touched each element of memory, and what of that no order separates.

Arrays that a kernel may write have, for each element, up to three records of eight bytes: of the
last write, and of two other accesses that it does not follow, by two programs. A record is

    (program + 1) << 32 | is-atomic << 31 | are-there-more << 30 | number of the access

and the number leads to the operation and the time (`order.py`). Two readers are enough to find a
write that one of them is not ordered with wherever programs do not synchronise; where they do, the
others are in a list (`readers.py`). Of programs that update an element atomically two are enough in
the same way, and no list has the others. Records come into being when they are first needed: memory
that is only written has one. Arrays that share bytes share their records.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np

from tile.backends.host_memory import span
from tile.backends.interp.checks.access import (
    Reached,
    Site,
    fault_at,
    first,
    launch_of,
)
from tile.backends.interp.checks.order import Order
from tile.backends.interp.checks.readers import Displaced
from tile.backends.interp.lazy_zeros import lazy_zeros
from tile.backends.interp.memory import Buffer, Memory
from tile.backends.interp.report import place_of
from tile.backends.interp.strided import Strided
from tile.backends.interp.values import Array
from tile.checks import Check
from tile.faults import Fault, Side
from tile.ir.core import Operation
from tile.warn import warn

if TYPE_CHECKING:
    from tile.backends.interp.wave import Wave

ATOMIC = 1 << 31
MORE = 1 << 30  # in the last record of a cell: `Region.displaced` has others
NUMBER = MORE - 1
WHO = 32  # bits below the program


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
    displaced: Displaced | None = None

    def last(self) -> Array:
        """The records of the last writes."""
        if self.writer is None:
            self.writer = lazy_zeros(self.cells, np.int64)
        return self.writer

    def other(self, index: int) -> Array:
        """Records of accesses that the last write does not come after."""
        while len(self.others) <= index:
            self.others.append(lazy_zeros(self.cells, np.int64))
        return self.others[index]

    @property
    def existing(self) -> list[Array]:
        """All records that there are, the writers' first."""
        return self.others if self.writer is None else [self.writer, *self.others]


@dataclass
class Touched:
    """Elements of one access in one region, each on its own."""

    cells: Array
    who: Array  # a record of this access for each
    lanes: Array  # where each stands among (program of the wave, *index of the tile)
    extents: tuple[int, ...]


class Shadow:
    """The records of a launch."""

    def __init__(self, memory: Memory, written: frozenset[str] | None, finest: int | None) -> None:
        """Watch arrays that are `written` (None: all), in cells of at most `finest` bytes."""
        self.memory = memory
        self.records: list[Record] = []
        self.times = np.zeros(64, np.int64)  # of the records
        self.latest: dict[Site, tuple[int, int]] = {}  # the time and number of the last record
        self.regions: dict[int, Region] = {}
        self.forgetful = False
        # By region and operations, the cells of races that were reported.
        self.raced: dict[tuple[int, frozenset[Operation]], Array] = {}
        for region, buffers in _regions(memory.buffers, finest):
            if written is None or any(_parameter(b.name) in written for b in buffers):
                self.regions.update({id(buffer): region for buffer in buffers})

    # -- accesses

    def load(self, wave: Wave, site: Site, reached: Reached) -> None:
        """Elements are read."""
        for region, part, buffer in self.parts(site, reached):
            who = self.record(wave, site, atomic=False)
            if isinstance(part, Strided) and _read_quickly(region, part, who):
                continue
            self.read(wave, site, region, buffer, _each(part, who, site))

    def store(
        self, wave: Wave, site: Site, reached: Reached, value: Array, written: bool = True
    ) -> None:
        """Elements are written. If all were, memory holds what the last one wrote."""
        for region, part, buffer in self.parts(site, reached):
            who = self.record(wave, site, atomic=False)
            if isinstance(part, Strided) and _write_quickly(region, part, who):
                continue
            touched = _each(part, who, site)
            self.write(wave, site, region, buffer, touched)
            if not isinstance(part, Strided):
                self.differing(wave, site, buffer, reached, value, written)

    def update(self, wave: Wave, site: Site, reached: Reached, atomic: bool) -> None:
        """Elements are read and written in one step, for whom it is `atomic`: all, or one's own."""
        for region, part, buffer in self.parts(site, reached):
            touched = _each(part, self.record(wave, site, atomic), site)
            if atomic:
                self.modify(wave, site, region, buffer, touched)
            else:
                self.write(wave, site, region, buffer, touched)

    def record(self, wave: Wave, site: Site, atomic: bool) -> Array:
        """The records of an access at this time, for each program of the wave."""
        order = launch_of(wave).order
        time = 0 if order is None else order.now
        seen, number = self.latest.get(site, (-1, 0))
        if seen != time:
            number = len(self.records) & NUMBER
            self.latest[site] = time, number
            self.records.append(Record(site.op, site.verb))
            if number >= len(self.times):
                self.times = np.concatenate([self.times, np.zeros_like(self.times)])
            self.times[number] = time
        mine = (wave.rows.astype(np.int64) + 1 << WHO) | (ATOMIC * atomic) | number
        return mine.reshape(-1, *(1,) * len(site.shape))

    def parts(self, site: Site, reached: Reached) -> Iterator[tuple[Region, Any, Buffer]]:
        """The access in each region that is watched, as `Strided` cells or indices of cells."""
        if reached.strided is not None:
            access = reached.strided
            buffer = self.memory.buffer_at(access.low) if access.flat.size else None
            region = self.regions.get(id(buffer))
            if buffer is not None and region is not None:
                for part in _strided_cells(access, region, buffer, site.dtype.itemsize):
                    yield region, part, buffer
            return
        for group in reached.groups:
            region = self.regions.get(id(group.buffer))
            if region is not None and group.buffer is not None:
                shift, ratio = _scale(region, group.buffer, site.dtype.itemsize)
                for step in range(ratio):
                    cells = group.index * ratio + (shift + step)
                    yield region, (cells, group.lanes), group.buffer

    # -- one element at a time

    def read(
        self, wave: Wave, site: Site, region: Region, buffer: Buffer, touched: Touched
    ) -> None:
        cells, who = touched.cells, touched.who
        last = [] if region.writer is None else [region.writer[cells]]
        atomics = (np.where(f & ATOMIC, f, 0) for f in (other[cells] for other in region.others))
        self.meet(wave, site, buffer, touched, chain(last, atomics))
        self.keep(wave, region, cells, who)

    def keep(self, wave: Wave, region: Region, cells: Array, who: Array) -> None:
        """Keep accesses beside others: in the first place that is free, or one's own."""
        for index in range(2):
            slot = region.other(index)
            found = slot[cells]
            free = (found == 0) | (found >> WHO == who >> WHO)
            lost = np.zeros(0, np.bool_)
            if index:  # whoever comes last takes the place of who came before
                lost = ~free & ~self.ordered(wave, found, who)
                free[:] = True
            elif not (who[0] & ATOMIC):  # atomics meet each other too often to ask
                free |= self.ordered(wave, found, who)
            slot[cells[free]] = who[free] | (found[free] & MORE)
            if lost.any():
                self.displace(wave, region, cells[lost], found[lost])
            back = slot[cells]
            left = back >> WHO != who >> WHO
            if not left.any():
                return
            cells, who = cells[left], who[left]
        self.displace(wave, region, cells, who)

    def displace(self, wave: Wave, region: Region, cells: Array, records: Array) -> None:
        """Keep reads in whose place others have come, where programs synchronise."""
        launch = launch_of(wave)
        reads = records & ATOMIC == 0
        if launch.order is None or not reads.any():
            return
        if region.displaced is None:
            region.displaced = Displaced()
        if region.displaced.add(cells[reads], records[reads]):
            region.other(1)[cells[reads]] |= MORE
        elif not self.forgetful:
            self.forgetful = True
            warn(
                f"`{launch.name}` has more readers at once of what it writes than are remembered; "
                "races of some of them with a later write may be missed"
            )

    def meet_displaced(
        self, wave: Wave, site: Site, region: Region, buffer: Buffer, touched: Touched
    ) -> None:
        """Report a reader that has no record beside the element any more; see `meet`."""
        if region.displaced is None:
            return
        more = np.flatnonzero(region.other(1)[touched.cells] & MORE)
        if more.size:
            places, records = region.displaced.of(touched.cells[more])
            at = more[places]
            these = Touched(touched.cells[at], touched.who[at], touched.lanes[at], touched.extents)
            self.meet(wave, site, buffer, these, [records])

    def write(
        self, wave: Wave, site: Site, region: Region, buffer: Buffer, touched: Touched
    ) -> None:
        cells, who = touched.cells, touched.who
        last = region.last()
        self.meet(wave, site, buffer, touched, (r[cells] for r in region.existing))
        self.meet_displaced(wave, site, region, buffer, touched)
        last[cells] = who
        self.meet(wave, site, buffer, touched, [last[cells]])
        for other in region.others:
            other[cells] = 0

    def modify(
        self, wave: Wave, site: Site, region: Region, buffer: Buffer, touched: Touched
    ) -> None:
        cells, who = touched.cells, touched.who
        last = region.last()
        before = last[cells]
        plain = (np.where(f & ATOMIC, 0, f) for f in (r[cells] for r in region.existing))
        self.meet(wave, site, buffer, touched, plain)
        self.meet_displaced(wave, site, region, buffer, touched)
        another = (before != 0) & (before >> WHO != who >> WHO) & (before & ATOMIC != 0)
        if another.any():
            self.keep(wave, region, cells[another], before[another])
        last[cells] = who
        lost = last[cells] >> WHO != who >> WHO
        if lost.any():
            self.keep(wave, region, cells[lost], who[lost])

    def meet(
        self, wave: Wave, site: Site, buffer: Buffer, touched: Touched, earlier: Iterable[Array]
    ) -> None:
        """Report elements that another program accessed earlier, where nothing orders the two."""
        who = touched.who
        for found in earlier:
            wrong = (found != 0) & (found >> WHO != who >> WHO)
            if wrong.any():
                wrong &= ~self.ordered(wave, found, who)
                if wrong.any():
                    self.report(wave, site, buffer, touched, wrong, found)

    def ordered(self, wave: Wave, found: Array, who: Array) -> Array:
        """Whether accesses are known to the programs that come later."""
        order: Order | None = launch_of(wave).order
        result = np.zeros(found.shape, np.bool_)
        if order is None:
            return result
        asked = np.flatnonzero((found != 0) & (found >> WHO != who >> WHO))
        if not asked.size:
            return result
        earlier, later = found[asked], who[asked]
        times = self.times[earlier & NUMBER]
        result[asked] = order.before((earlier >> WHO) - 1, times, (later >> WHO) - 1)
        return result

    # -- reports

    def report(
        self,
        wave: Wave,
        site: Site,
        buffer: Buffer,
        touched: Touched,
        wrong: Array,
        found: Array,
    ) -> None:
        """Report a race for each element of memory, once for each pair of operations.

        How many programs meet at an element depends on which of them came first; that some do, and
        by which two operations, does not.
        """
        launch = launch_of(wave)
        if launch.report is None:
            launch.found(self.race(wave, site, buffer, touched, wrong, found))
            return
        for other in np.unique(found[wrong] & NUMBER).tolist():
            those = wrong & (found & NUMBER == other)
            pair = id(self.regions[id(buffer)]), frozenset({site.op, self.records[other].op})
            raced = self.raced.get(pair, np.zeros(0, np.int64))
            fresh = np.setdiff1d(touched.cells[those], raced)
            self.raced[pair] = np.union1d(raced, fresh)
            race = partial(self.race, wave, site, buffer, touched, found=found)
            again = those & ~np.isin(touched.cells, fresh)
            kept, more = fresh, fresh[:0]
            for index, cell in enumerate(fresh.tolist()):
                fault = race(wrong=those & (touched.cells == cell))
                if index and index >= kept.size:
                    break
                if not index:
                    room = max(1, launch.report.room(fault))
                    kept, more = fresh[:room], fresh[room:]
                launch.found(replace(fault, count=1))
            if more.size:
                rest = race(wrong=those & np.isin(touched.cells, more))
                launch.found(replace(rest, count=more.size, executions=more.size))
            if again.any():  # drawn, and not counted
                launch.found(replace(race(wrong=again), count=0, executions=0))

    def race(
        self,
        wave: Wave,
        site: Site,
        buffer: Buffer,
        touched: Touched,
        wrong: Array,
        found: Array,
    ) -> Fault:
        """Return the fault of wrong elements, as the first of them has it."""
        launch = launch_of(wave)
        index = int(wrong.argmax())
        met = int(found[index])
        other = self.records[met & NUMBER]
        program = launch.coordinates((met >> WHO) - 1)
        region = self.regions[id(buffer)]
        shift = region.low - buffer.real + buffer.origin
        place = place_of(buffer, int(touched.cells[index]) * region.cell + shift)
        lanes, addresses = np.zeros(touched.extents, np.bool_), np.zeros(touched.extents, np.int64)
        lanes.flat[touched.lanes[wrong]] = True
        addresses.flat[touched.lanes[wrong]] = touched.cells[wrong] * region.cell + shift
        seen = first(wave, lanes)
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
        return fault_at(
            wave,
            Check.RACE,
            site.op,
            message,
            seen,
            notes,
            addresses,
            place=place,
            other=Side(program, other.verb, other.op.loc, buffer.name),
        )

    def differing(
        self,
        wave: Wave,
        site: Site,
        buffer: Buffer,
        reached: Reached,
        value: Array,
        written: bool,
    ) -> None:
        """Report elements of one store, of one program, that went to one address with others."""
        for group in reached.groups:
            if group.buffer is not buffer or not group.flat.size:
                continue
            programs = max(
                len(group.index), len(value), 1 if group.lanes is None else len(group.lanes)
            )
            extents = (programs, *site.shape)
            index = np.broadcast_to(group.index, extents)
            real = self.memory.real(value) if site.element.is_ptr() else value
            wanted = np.broadcast_to(real, extents).view()
            there = group.flat[index] if written else _overwritten(index, group.lanes, wanted)
            wrong = _bits(there) != _bits(wanted)
            if group.lanes is not None:
                wrong &= np.broadcast_to(group.lanes, extents)
            if wrong.any():  # by the program itself, and not by another, which is a race of the two
                own = np.arange(programs).reshape(-1, *(1,) * len(site.shape)) * group.flat.size
                wrong = _bits(_overwritten(own + index, group.lanes, wanted)) != _bits(wanted)
            if wrong.any():
                addresses = buffer.start + index * site.dtype.itemsize
                report = partial(_several, wave, site, buffer, addresses)
                launch_of(wave).found_in(wave, wrong, report)


def _several(wave: Wave, site: Site, buffer: Buffer, addresses: Array, wrong: Array) -> Fault:
    seen = first(wave, wrong)
    addresses = np.broadcast_to(addresses, wrong.shape)
    where = place_of(buffer, int(addresses[seen.place]))
    message = f"{site.verb} {where} several times in one store, with different values"
    notes = ["which value stays is not defined"]
    return fault_at(wave, Check.RACE, site.op, message, seen, notes, addresses, place=where)


def _overwritten(index: Array, lanes: Array | None, values: Array) -> Array:
    """What memory would hold at each index if the values were written there, the last one last."""
    chosen = np.broadcast_to(True if lanes is None else lanes, index.shape)
    cells, places = np.unique(index[chosen], return_inverse=True)
    last = np.zeros(cells.shape, values.dtype)
    last[places] = values[chosen]
    there = values.copy()
    there[chosen] = last[places]
    return there


def _bits(values: Array) -> Array:
    return np.ascontiguousarray(values).view(f"u{values.itemsize}")


def _advice(op: Operation, other: Operation) -> list[str]:
    atomics = [o for o in (op, other) if "order" in o.attributes]
    if len(atomics) == 1 and op is not other:
        return ["one of them is no atomic operation; both must be, or be ordered by others"]
    if any(o.attributes.get("scope") == "cta" for o in atomics):
        return ["an atomic operation of scope 'cta' is one for its own program alone"]
    return []


def _parameter(name: str) -> str:
    return name.partition("[")[0]


def _regions(
    buffers: Sequence[Buffer], finest: int | None
) -> Iterator[tuple[Region, list[Buffer]]]:
    """Memory in regions that share no byte, each with its arrays."""
    spans = sorted((*span(b.array), at) for at, b in enumerate(buffers) if b.array.size)
    together: list[tuple[int, int, Buffer]] = []
    for low, high, at in [*spans, (math.inf, math.inf, -1)]:
        if together and low >= max(end for _, end, _ in together):
            yield _region(together, finest), [buffer for _, _, buffer in together]
            together = []
        if at >= 0:
            together.append((int(low), int(high), buffers[at]))


def _region(together: Sequence[tuple[int, int, Buffer]], finest: int | None) -> Region:
    low = together[0][0]
    high = max(end for _, end, _ in together)
    parts = [n for start, _, buffer in together for n in (start - low, buffer.array.itemsize)]
    cell = math.gcd(*parts, *(() if finest is None else (finest,)))
    return Region(low, -(-(high - low) // cell), cell, tuple(b.name for _, _, b in together))


def _scale(region: Region, buffer: Buffer, size: int) -> tuple[int, int]:
    """The cell at which an array begins, and how many cells an element of `size` bytes has."""
    start = buffer.real + buffer.start - buffer.origin
    return (start - region.low) // region.cell, max(1, size // region.cell)


def _strided_cells(access: Strided, region: Region, buffer: Buffer, size: int) -> Iterator[Strided]:
    shift, ratio = _scale(region, buffer, size)
    steps = tuple(step * ratio for step in access.steps)
    for step in range(ratio):
        offsets = access.offsets * ratio + (shift + step)
        yield replace(access, offsets=offsets, steps=steps)


def _apart(part: Strided, who: Array) -> bool:
    """Whether each program has a place of its own, as an access alike in all does not."""
    return len(who) == 1 or len(part.offsets) > 1


def _alone(region: Region, part: Strided, who: Array) -> bool:
    """Whether nobody else has records where an access goes."""
    if not part.flat.size:
        return True
    for records in region.existing:
        access = replace(part, flat=records)
        view = access.view()
        found = access.read() if view is None else view
        if region.displaced is not None and (found & MORE).any():
            return False
        # Most often there are none, or one's own everywhere.
        mixed = found.any() and ((found ^ who) >> WHO).any()
        if mixed and ((found != 0) & (found >> WHO != who >> WHO)).any():
            return False
    return True


def _read_quickly(region: Region, part: Strided, who: Array) -> bool:
    """Record a read of elements that nobody else has touched; whether that is so."""
    if not (_apart(part, who) and _alone(region, part, who)):
        return False
    replace(part, flat=region.other(0)).write(who, False)
    return True


def _write_quickly(region: Region, part: Strided, who: Array) -> bool:
    """The same of a write; the program's own reads stay, as who comes after it comes after them."""
    if not (_apart(part, who) and _alone(region, part, who)):
        return False
    replace(part, flat=region.last()).write(who, False)
    return True


def _each(part: Any, who: Array, site: Site) -> Touched:
    """The elements of a part of an access, one by one."""
    extents = (len(who), *site.shape)
    if isinstance(part, Strided):
        cells, lanes = _indices(part, site.shape)
    else:
        cells, lanes = part
    cells = np.broadcast_to(cells, extents)
    mine = np.broadcast_to(who, extents)
    if lanes is None:
        return Touched(cells.ravel(), mine.ravel(), np.arange(cells.size), extents)
    chosen = np.broadcast_to(lanes, extents)
    return Touched(cells[chosen], mine[chosen], np.flatnonzero(chosen), extents)


def _indices(part: Strided, shape: tuple[int, ...]) -> tuple[Array, Array | None]:
    """Where each element of a strided access lies; in a whole tile, of which some are active."""
    total = part.offsets
    rank = len(part.steps)
    for axis, (step, extent) in enumerate(zip(part.steps, part.extents, strict=True)):
        ramp = np.arange(extent, dtype=np.int64) * step
        total = total + ramp.reshape((extent,) + (1,) * (rank - axis - 1))
    if part.part is None:
        return total, None
    axis, start, count = part.part
    run = (slice(None),) * (axis + 1) + (slice(start, start + count),)
    whole = np.zeros((*total.shape[: axis + 1], shape[axis], *total.shape[axis + 2 :]), np.int64)
    whole[run] = total
    lanes = np.zeros((1,) * (axis + 1) + (shape[axis],) + (1,) * (rank - axis - 1), np.bool_)
    lanes[run] = True
    return whole, lanes
