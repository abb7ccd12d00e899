"""The accesses that no barrier separates from the point that a walk has reached.

Copies to shared memory are under way from when they begin until they have been waited for, and no
barrier changes that. They are in groups, of which a wait takes the older ones: `flight` has the
open group first, then closed ones from the youngest on. Waited for, a copy is a write like others.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

from tile.analysis.alias import PointsTo
from tile.errors import CompilationError
from tile.ir.core import Block, Value
from tile.simt.insert_barriers.accesses import Access
from tile.simt.insert_barriers.global_memory import MemoryAccess, Mode
from tile.simt.insert_barriers.turns import Known, Renaming, Turn

# An access with its turn, as it is called at the point at hand.
Item = tuple[Access, Turn]
# Which turns choose the slots of a buffer, directly or through loops.
Leads = Collection[tuple[Value, Value | None]]


@dataclass
class Pending:
    """What a walk knows. `fresh` says that no barrier may have been since the function began."""

    shared: set[Item] = field(default_factory=set)
    flight: list[set[Item]] = field(default_factory=lambda: [set()])
    memory: dict[tuple[PointsTo, Mode], frozenset[Value | None]] = field(default_factory=dict)
    fresh: bool = True

    # -- at one operation

    def conflicts(self, access: Access, turn: Turn) -> bool:
        """Whether an access to shared memory needs a barrier before it."""
        return any(access.conflicts(turn, *item) for item in self.shared)

    def memory_conflicts(self, access: MemoryAccess) -> bool:
        """Whether an access to global memory needs a barrier before it."""
        if access.releases and self.memory:
            return True
        return any(access.conflicts(m, w, p) for (w, m), p in self.memory.items())

    def check_waited(self, access: Access, turn: Turn) -> None:
        """Raise `CompilationError` for an access to what copies under way write."""
        for group in self.flight:
            for item in group:
                if access.meets(turn, *item):
                    raise CompilationError(
                        f"{access.op.name} of a buffer to which a copy is under way: a copy_wait "
                        "for its group belongs between them",
                        loc=access.op.loc,
                        notes=[f"the copy is at {item[0].op.loc}"],
                    )

    def barrier(self) -> None:
        self.shared = set()
        self.memory = {}
        self.fresh = False

    def touch(self, access: Access, turn: Turn) -> None:
        self.shared.add((access, turn))

    def begin_copy(self, access: Access, turn: Turn) -> None:
        self.flight[0].add((access, turn))

    def touch_memory(self, access: MemoryAccess) -> None:
        key = (access.where, access.mode)
        self.memory[key] = self.memory.get(key, frozenset()) | {access.pointer}

    def commit(self, most: int) -> None:
        """Close the open group. Those older than the last `most` need not be told apart."""
        self.flight.insert(0, set())
        while len(self.flight) > most + 2:
            oldest = self.flight.pop()
            self.flight[-1] = self.flight[-1] | oldest

    def wait(self, pending: int) -> None:
        """All closed groups but the last `pending` have happened."""
        for group in self.flight[pending + 1 :]:
            self.shared |= group
        del self.flight[pending + 1 :]

    # -- where control meets and parts

    def copy(self) -> Pending:
        return Pending(
            set(self.shared), [set(group) for group in self.flight], dict(self.memory), self.fresh
        )

    def __or__(self, other: Pending) -> Pending:
        both = self.copy()
        both.shared |= other.shared
        both.flight += [set() for _ in other.flight[len(both.flight) :]]
        for mine, its in zip(both.flight, other.flight, strict=False):
            mine |= its
        for key, pointers in other.memory.items():
            both.memory[key] = both.memory.get(key, frozenset()) | pointers
        both.fresh |= other.fresh
        return both

    def __le__(self, other: Pending) -> bool:
        """Whether all that is pending here is pending there."""
        return (
            self.shared <= other.shared
            and len(self.flight) <= len(other.flight)
            and all(mine <= its for mine, its in zip(self.flight, other.flight, strict=False))
            and all(p <= other.memory.get(k, frozenset()) for k, p in self.memory.items())
            and self.fresh <= other.fresh
        )

    def key(self) -> object:
        """What equal states have in common."""
        flight = tuple(map(frozenset, self.flight))
        return frozenset(self.shared), flight, frozenset(self.memory.items()), self.fresh

    def renamed(
        self, names: Renaming, leads: Leads, gone: Collection[Block] = frozenset()
    ) -> Pending:
        """The same with turns by their new names.

        What is defined in blocks that are `gone`, and will be something else when it is defined
        again, has no name any more.
        """

        def rename(item: Item) -> Item:
            access, turn = item
            if turn is None or access.stages == 1:
                return item
            for new in names.get(turn.base, ()):
                if (access.buffer, new.base) in leads:
                    offset = (turn.offset + new.offset) % access.stages
                    return access, Known(new.base, offset)
            if turn.base is not None and turn.base.block in gone:
                return access, None
            return item

        def stale(value: Value | None) -> Value | None:
            return None if value is None or value.block in gone else value

        memory = self.memory
        if gone:
            memory = {k: frozenset(map(stale, pointers)) for k, pointers in memory.items()}
        return Pending(
            set(map(rename, self.shared)),
            [set(map(rename, group)) for group in self.flight],
            dict(memory),
            self.fresh,
        )
