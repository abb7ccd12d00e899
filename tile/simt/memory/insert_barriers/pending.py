"""The accesses that are *pending* at a point: no barrier separates them from it.

A copy to shared memory is in flight from its issue to the wait for it; barriers do not change that.
Copies are in commit groups, and a wait completes the older ones: `in_flight` has the open group
first, then the committed ones from the youngest on. A completed copy is an ordinary write. In the
same way a wgmma reads its operands until the wait for it: `in_flight` has the reads of each wgmma,
the youngest first. A completed one has been an ordinary read.

Threads that have waited for the phase of an mbarrier in which all warps arrive are behind what came
before these arrived. So accesses of a stage of a multi-buffer are `released` by an arrive on the
mbarrier of that stage, and not pending after a wait for it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field

from tile.analysis.alias import PointsTo
from tile.errors import CompilationError
from tile.ir.core import Block, Value
from tile.ir.shared_type import shared_of
from tile.simt.memory.insert_barriers.control_flow import Flight
from tile.simt.memory.insert_barriers.memory_effects import (
    READ,
    Access,
    Earlier,
    Kind,
    MemoryAccess,
    Mode,
    Renaming,
    Stage,
    StageIndex,
    Through,
)

# An access with its stage, by the names at the current point.
StagedAccess = tuple[Access, Stage]
Groups = list[set[StagedAccess]]
# Pairs of a buffer and a base of the iteration numbers that select its stages, directly or through
# loops.
StageBases = Collection[tuple[Value, Value | None]]


@dataclass
class Pending:
    """The state of the walk.

    within: the pending accesses since which each warpgroup has passed a barrier of its own.
    released: the pending accesses after which all warps have arrived, by mbarriers.
    reaches_entry: True if some path from the function's entry has no barrier.
    """

    shared: set[StagedAccess] = field(default_factory=set)
    within: set[StagedAccess] = field(default_factory=set)
    released: dict[Value, frozenset[StagedAccess]] = field(default_factory=dict)
    in_flight: dict[Flight, Groups] = field(
        default_factory=lambda: {Flight.COPIES: [set()], Flight.WGMMAS: []}
    )
    memory: dict[tuple[PointsTo, Mode], frozenset[Through]] = field(default_factory=dict)
    reaches_entry: bool = True

    # -- at one operation

    def conflicts(self, access: Access, stage: Stage) -> bool:
        """Return True if an access of shared memory needs a barrier before it."""
        return any(access.conflicts(stage, *item) for item in self.unordered()) or any(
            access.conflicts(stage, *item, warpgroups=True) for item in self.within
        )

    def unordered(self) -> set[StagedAccess]:
        """Return the pending accesses that not even the threads of a warpgroup are behind."""
        return self.shared.union(*self.released.values())

    def memory_conflicts(self, access: MemoryAccess) -> bool:
        """Return True if an access of global memory needs a barrier before it."""
        if access.releases and self.memory:
            return True
        return any(access.conflicts(m, w, p) for (w, m), p in self.memory.items())

    def assumed(self, access: MemoryAccess) -> Iterator[tuple[int, int]]:
        """Yield the pairs of parameters that are taken to be disjoint as no barrier is needed."""
        for (where, mode), pointers in self.memory.items():
            yield from access.assumed(mode, where, pointers)

    def check_waited(self, access: Access, stage: Stage) -> None:
        """Raise `CompilationError` for an access that conflicts with a copy or wgmma in flight."""
        for flight, (use, name, wait) in _UNWAITED.items():
            if flight is Flight.WGMMAS and access.kind is Kind.READ:
                continue
            items = (item for group in self.in_flight[flight] for item in group)
            other = next((x for x, its in items if access.may_overlap(stage, x, its)), None)
            if other is not None:
                raise CompilationError(
                    f"{access.op.name} of a buffer {use}: a {wait} belongs between them",
                    loc=access.op.loc,
                    notes=[f"the {name} is at {other.op.loc}"],
                )

    def is_written(self, buffers: Collection[Value], tma_writes: Collection[Access]) -> bool:
        """Return True if threads have pending writes to some buffers, or to bytes of TMA writes.

        Invalidations of mbarriers do not count: a TMA load to their bytes comes after new mbarriers
        have been initialized.
        """
        no_write = (Kind.READ, Kind.INVALIDATE)
        pending = self.unordered() | self.within
        written = [access for access, _ in pending if access.kind not in no_write]
        return any(access.buffer in buffers for access in written) or any(
            access.begin < other.end and other.begin < access.end
            for access in written
            for other in tma_writes
        )

    def arrive(self, mbarriers: Value, iteration: StageIndex) -> None:
        """Release the accesses of the stage of an iteration."""
        own = frozenset(item for item in self.shared if _is_of(item, mbarriers, iteration))
        self.released[mbarriers] = self.released.get(mbarriers, frozenset()) | own
        self.shared = self.shared - own

    def wait_for_arrive(self, mbarriers: Value, iteration: StageIndex) -> None:
        """Pass a wait for all warps to have arrived for an iteration."""
        left = {x for x in self.released.get(mbarriers, ()) if not _is_of(x, mbarriers, iteration)}
        self.released[mbarriers] = frozenset(left)

    def warpgroup_barrier(self) -> None:
        self.within |= self.unordered()
        self.shared = set()
        self.released = {}

    def barrier(self) -> None:
        self.shared = set()
        self.released = {}
        self.within = set()
        self.memory = {}
        self.reaches_entry = False

    def add_memory(self, access: MemoryAccess) -> None:
        key = (access.where, access.mode)
        self.memory[key] = self.memory.get(key, frozenset()) | {access.pointer}

    def push(self, flight: Flight, youngest: set[StagedAccess], most: int) -> None:
        """Add the youngest group. Groups older than `most` others are merged."""
        groups = self.in_flight[flight]
        groups.insert(0, youngest)
        while len(groups) > most + 1:
            oldest = groups.pop()
            groups[-1] = groups[-1] | oldest

    def wait(self, flight: Flight, pending: int) -> None:
        """Complete all committed groups, or wgmmas, except the last `pending`."""
        groups = self.in_flight[flight]
        first = pending + (flight is Flight.COPIES)  # the open group is not waited for
        self.shared.update(*groups[first:])
        del groups[first:]

    # -- at joins and branches of control flow

    def mapped(self, change: Callable[[StagedAccess], StagedAccess]) -> Pending:
        """Return a copy with each access of shared memory changed."""
        in_flight = {
            flight: [set(map(change, group)) for group in groups]
            for flight, groups in self.in_flight.items()
        }
        shared, within = (set(map(change, each)) for each in (self.shared, self.within))
        released = {bars: frozenset(map(change, each)) for bars, each in self.released.items()}
        return Pending(shared, within, released, in_flight, dict(self.memory), self.reaches_entry)

    def copy(self) -> Pending:
        return self.mapped(lambda item: item)

    def __or__(self, other: Pending) -> Pending:
        joined = self.copy()
        joined.shared |= other.shared
        joined.within |= other.within
        for mbarriers, released in other.released.items():
            joined.released[mbarriers] = joined.released.get(mbarriers, frozenset()) | released
        for flight, groups in joined.in_flight.items():
            _join(groups, other.in_flight[flight])
        for key, pointers in other.memory.items():
            joined.memory[key] = joined.memory.get(key, frozenset()) | pointers
        joined.reaches_entry |= other.reaches_entry
        return joined

    def __le__(self, other: Pending) -> bool:
        """Return True if all that is pending in this state is pending in the other one."""
        return (
            self.shared <= other.shared
            and self.within <= other.within
            and all(r <= other.released.get(b, frozenset()) for b, r in self.released.items())
            and all(_within(g, other.in_flight[f]) for f, g in self.in_flight.items())
            and all(p <= other.memory.get(k, frozenset()) for k, p in self.memory.items())
            and self.reaches_entry <= other.reaches_entry
        )

    def key(self) -> object:
        """Return a hashable key that is equal for equal states."""
        in_flight = tuple(tuple(map(frozenset, groups)) for groups in self.in_flight.values())
        memory = frozenset(self.memory.items())
        released = frozenset(item for item in self.released.items() if item[1])
        pending = frozenset(self.shared), frozenset(self.within), released
        return pending, in_flight, memory, self.reaches_entry

    def renamed(
        self,
        names: Renaming,
        bases: StageBases,
        redefined: Collection[Block] = frozenset(),
        moves_on: Callable[[Value], bool] = lambda _: False,
    ) -> Pending:
        """Return the state with stages by their new names.

        Values that are defined in `redefined` blocks lose their names: they will be others when
        these blocks run again. moves_on: pointers that reach other elements then.
        """

        def rename(item: StagedAccess) -> StagedAccess:
            access, stage = item
            if stage is None or access.stages == 1:
                return item
            for new in names.get(stage.base, ()):
                if (access.buffer, new.base) in bases:
                    offset = (stage.offset + new.offset) % access.stages
                    return access, StageIndex(new.base, offset)
            if stage.base is not None and stage.base.block in redefined:
                return access, None
            return item

        def in_next_iteration(through: Through) -> Through:
            pointer = through.pointer if isinstance(through, Earlier) else through
            if pointer is None or pointer.block not in redefined:
                return through
            return Earlier(pointer, may_conflict and moves_on(pointer))

        may_conflict = any(mode != READ for _, mode in self.memory)
        result = self.mapped(rename)
        if redefined:
            for key, pointers in result.memory.items():
                result.memory[key] = frozenset(map(in_next_iteration, pointers))
        return result


def _is_of(item: StagedAccess, mbarriers: Value, iteration: StageIndex) -> bool:
    """Return True if an access is of a buffer with a stage for each mbarrier, the iteration's."""
    (access, stage), stages = item, shared_of(mbarriers.type).stages
    if stage is None or access.stages != stages or stage.base is not iteration.base:
        return False
    return (stage.offset - iteration.offset) % stages == 0


# Why an access is wrong that conflicts with what is in flight.
_UNWAITED = {
    Flight.COPIES: (
        "to which a copy is in flight",
        "copy",
        "cp_async_wait_group for its commit group",
    ),
    Flight.WGMMAS: ("that a wgmma in flight reads", "wgmma", "wgmma_wait for it"),
}


def _join(groups: Groups, others: Groups) -> None:
    """Add to each group the one of its age among `others`."""
    groups += [set() for _ in others[len(groups) :]]
    for own, other in zip(groups, others, strict=False):
        own |= other


def _within(groups: Groups, others: Groups) -> bool:
    """Return True if each group is a subset of the one of its age among `others`."""
    return len(groups) <= len(others) and all(
        own <= other for own, other in zip(groups, others, strict=False)
    )
