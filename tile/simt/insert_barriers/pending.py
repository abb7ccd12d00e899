"""The pending accesses at a point of the walk: those that no barrier separates from it.

A copy to shared memory is in flight from its issue to the wait for it; barriers do not change
that. Copies are in commit groups, and a wait completes the older ones: `in_flight` has the open
group first, then the committed ones from the youngest on. A completed copy is an ordinary write.

In the same way a wgmma reads its operands until the wait for it: `wgmmas` has the reads of each
wgmma, the youngest first. A completed one has been an ordinary read.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from tile.analysis.alias import PointsTo
from tile.errors import CompilationError
from tile.ir.core import Block, Value
from tile.simt.insert_barriers.accesses import Access, Kind
from tile.simt.insert_barriers.global_memory import MemoryAccess, Mode
from tile.simt.insert_barriers.turns import Renaming, Stage, StageIndex

# An access with its stage, by the names at the current point.
StagedAccess = tuple[Access, Stage]
# Pairs of a buffer and a base of the iteration numbers that select its stages, directly or through
# loops.
StageBases = Collection[tuple[Value, Value | None]]


@dataclass
class Pending:
    """The state of the walk.

    reaches_entry: True if some path from the function's entry has no barrier.
    """

    shared: set[StagedAccess] = field(default_factory=set)
    in_flight: list[set[StagedAccess]] = field(default_factory=lambda: [set()])
    wgmmas: list[set[StagedAccess]] = field(default_factory=list)
    memory: dict[tuple[PointsTo, Mode], frozenset[Value | None]] = field(default_factory=dict)
    reaches_entry: bool = True

    # -- at one operation

    def conflicts(self, access: Access, stage: Stage) -> bool:
        """Return True if an access of shared memory needs a barrier before it."""
        return any(access.conflicts(stage, *item) for item in self.shared)

    def memory_conflicts(self, access: MemoryAccess) -> bool:
        """Return True if an access of global memory needs a barrier before it."""
        if access.releases and self.memory:
            return True
        return any(access.conflicts(m, w, p) for (w, m), p in self.memory.items())

    def check_waited(self, access: Access, stage: Stage) -> None:
        """Raise `CompilationError` for an access to what a copy or wgmma in flight accesses."""
        copy = _overlapping(self.in_flight, access, stage)
        if copy is not None:
            raise CompilationError(
                f"{access.op.name} of a buffer to which a copy is in flight: a copy_wait for its "
                "commit group belongs between them",
                loc=access.op.loc,
                notes=[f"the copy is at {copy.op.loc}"],
            )
        wgmma = None if access.kind is Kind.READ else _overlapping(self.wgmmas, access, stage)
        if wgmma is not None:
            raise CompilationError(
                f"{access.op.name} of a buffer that a wgmma in flight reads: a group_wait for it "
                "belongs between them",
                loc=access.op.loc,
                notes=[f"the wgmma is at {wgmma.op.loc}"],
            )

    def is_written(self, buffers: Collection[Value], tma_writes: Collection[Access]) -> bool:
        """Return True if threads have pending writes to some buffers, or to bytes of TMA writes.

        Invalidations of mbarriers do not count: a TMA load to their bytes comes after new mbarriers
        have been initialized.
        """
        no_write = (Kind.READ, Kind.INVALIDATE)
        written = [access for access, _ in self.shared if access.kind not in no_write]
        return any(access.buffer in buffers for access in written) or any(
            access.begin < other.end and other.begin < access.end
            for access in written
            for other in tma_writes
        )

    def barrier(self) -> None:
        self.shared = set()
        self.memory = {}
        self.reaches_entry = False

    def add(self, access: Access, stage: Stage) -> None:
        self.shared.add((access, stage))

    def issue_copy(self, access: Access, stage: Stage) -> None:
        self.in_flight[0].add((access, stage))

    def add_memory(self, access: MemoryAccess) -> None:
        key = (access.where, access.mode)
        self.memory[key] = self.memory.get(key, frozenset()) | {access.pointer}

    def commit(self, max_pending: int) -> None:
        """Commit the open group. Groups older than the last `max_pending` are merged."""
        self.in_flight.insert(0, set())
        while len(self.in_flight) > max_pending + 2:
            oldest = self.in_flight.pop()
            self.in_flight[-1] = self.in_flight[-1] | oldest

    def issue_wgmma(self, items: set[StagedAccess], max_pending: int) -> None:
        """Add the reads of a wgmma. wgmmas older than the last `max_pending` are merged."""
        self.wgmmas.insert(0, items)
        while len(self.wgmmas) > max_pending + 1:
            oldest = self.wgmmas.pop()
            self.wgmmas[-1] = self.wgmmas[-1] | oldest

    def wait_wgmmas(self, pending: int) -> None:
        """Complete all wgmmas but the last `pending`."""
        for group in self.wgmmas[pending:]:
            self.shared |= group
        del self.wgmmas[pending:]

    def wait_copies(self, pending: int) -> None:
        """Complete all committed groups but the last `pending`."""
        for group in self.in_flight[pending + 1 :]:
            self.shared |= group
        del self.in_flight[pending + 1 :]

    # -- at joins and branches of control flow

    def copy(self) -> Pending:
        return Pending(
            set(self.shared),
            [set(group) for group in self.in_flight],
            [set(group) for group in self.wgmmas],
            dict(self.memory),
            self.reaches_entry,
        )

    def __or__(self, other: Pending) -> Pending:
        joined = self.copy()
        joined.shared |= other.shared
        _join(joined.in_flight, other.in_flight)
        _join(joined.wgmmas, other.wgmmas)
        for key, pointers in other.memory.items():
            joined.memory[key] = joined.memory.get(key, frozenset()) | pointers
        joined.reaches_entry |= other.reaches_entry
        return joined

    def __le__(self, other: Pending) -> bool:
        """Return True if all that is pending in this state is pending in the other one."""
        return (
            self.shared <= other.shared
            and _within(self.in_flight, other.in_flight)
            and _within(self.wgmmas, other.wgmmas)
            and all(p <= other.memory.get(k, frozenset()) for k, p in self.memory.items())
            and self.reaches_entry <= other.reaches_entry
        )

    def key(self) -> object:
        """Return a hashable key that is equal for equal states."""
        in_flight = tuple(map(frozenset, self.in_flight))
        wgmmas = tuple(map(frozenset, self.wgmmas))
        memory = frozenset(self.memory.items())
        return frozenset(self.shared), in_flight, wgmmas, memory, self.reaches_entry

    def renamed(
        self, names: Renaming, bases: StageBases, redefined: Collection[Block] = frozenset()
    ) -> Pending:
        """Return the state with stages by their new names.

        Values that are defined in `redefined` blocks lose their names: they will be others when
        these blocks run again.
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

        def drop_redefined(value: Value | None) -> Value | None:
            return None if value is None or value.block in redefined else value

        memory = self.memory
        if redefined:
            memory = {k: frozenset(map(drop_redefined, ptrs)) for k, ptrs in memory.items()}
        return Pending(
            set(map(rename, self.shared)),
            [set(map(rename, group)) for group in self.in_flight],
            [set(map(rename, group)) for group in self.wgmmas],
            dict(memory),
            self.reaches_entry,
        )


def _overlapping(
    groups: Sequence[set[StagedAccess]], access: Access, stage: Stage
) -> Access | None:
    """Return an access of the groups that may touch the same bytes; None if there is none."""
    items = (item for group in groups for item in group)
    return next((other for other, its in items if access.may_overlap(stage, other, its)), None)


def _join(groups: list[set[StagedAccess]], others: list[set[StagedAccess]]) -> None:
    """Add to each group the one of its age among `others`."""
    groups += [set() for _ in others[len(groups) :]]
    for own, other in zip(groups, others, strict=False):
        own |= other


def _within(groups: list[set[StagedAccess]], others: list[set[StagedAccess]]) -> bool:
    """Return True if each group is a subset of the one of its age among `others`."""
    return len(groups) <= len(others) and all(
        own <= other for own, other in zip(groups, others, strict=False)
    )
