"""The accesses that no barrier separates from the point that a walk has reached.

Copies to shared memory are under way from when they begin until they have been waited for, and no
barrier changes that. They are in groups, of which a wait takes the older ones: `flight` has the
open group first, then closed ones from the youngest on. Waited for, a copy is a write like others.

In the same way products of groups of warps read their factors until they have been waited for:
`products` has what each of them reads, the youngest first. Waited for, that is a read like others.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from tile.analysis.alias import PointsTo
from tile.errors import CompilationError
from tile.ir.core import Block, Value
from tile.simt.insert_barriers.accesses import Access, Kind
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
    products: list[set[Item]] = field(default_factory=list)
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
        """Raise `CompilationError` for an access to what copies write, or products read, as yet."""
        wrong = _meeting(self.flight, access, turn)
        if wrong is not None:
            raise CompilationError(
                f"{access.op.name} of a buffer to which a copy is under way: a copy_wait for its "
                "group belongs between them",
                loc=access.op.loc,
                notes=[f"the copy is at {wrong.op.loc}"],
            )
        wrong = None if access.kind is Kind.READ else _meeting(self.products, access, turn)
        if wrong is not None:
            raise CompilationError(
                f"{access.op.name} of a buffer that a product still reads: a group_wait for it "
                "belongs between them",
                loc=access.op.loc,
                notes=[f"the product is at {wrong.op.loc}"],
            )

    def is_written(self, buffers: Collection[Value], filled: Collection[Access]) -> bool:
        """Whether threads have written any of some buffers, or where some are that are filled.

        Barriers that were ended do not count: who fills their place has made new ones before.
        """
        silent = (Kind.READ, Kind.END)
        written = [access for access, _ in self.shared if access.kind not in silent]
        return any(access.buffer in buffers for access in written) or any(
            access.begin < other.end and other.begin < access.end
            for access in written
            for other in filled
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

    def begin_product(self, items: set[Item], most: int) -> None:
        """A product reads. Those older than the last `most` need not be told apart."""
        self.products.insert(0, items)
        while len(self.products) > most + 1:
            oldest = self.products.pop()
            self.products[-1] = self.products[-1] | oldest

    def finish_products(self, pending: int) -> None:
        """All products but the last `pending` are done."""
        for group in self.products[pending:]:
            self.shared |= group
        del self.products[pending:]

    def wait(self, pending: int) -> None:
        """All closed groups but the last `pending` have happened."""
        for group in self.flight[pending + 1 :]:
            self.shared |= group
        del self.flight[pending + 1 :]

    # -- where control meets and parts

    def copy(self) -> Pending:
        return Pending(
            set(self.shared),
            [set(group) for group in self.flight],
            [set(group) for group in self.products],
            dict(self.memory),
            self.fresh,
        )

    def __or__(self, other: Pending) -> Pending:
        both = self.copy()
        both.shared |= other.shared
        _join(both.flight, other.flight)
        _join(both.products, other.products)
        for key, pointers in other.memory.items():
            both.memory[key] = both.memory.get(key, frozenset()) | pointers
        both.fresh |= other.fresh
        return both

    def __le__(self, other: Pending) -> bool:
        """Whether all that is pending here is pending there."""
        return (
            self.shared <= other.shared
            and _within(self.flight, other.flight)
            and _within(self.products, other.products)
            and all(p <= other.memory.get(k, frozenset()) for k, p in self.memory.items())
            and self.fresh <= other.fresh
        )

    def key(self) -> object:
        """What equal states have in common."""
        flight = tuple(map(frozenset, self.flight))
        products = tuple(map(frozenset, self.products))
        memory = frozenset(self.memory.items())
        return frozenset(self.shared), flight, products, memory, self.fresh

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
            [set(map(rename, group)) for group in self.products],
            dict(memory),
            self.fresh,
        )


def _meeting(groups: Sequence[set[Item]], access: Access, turn: Turn) -> Access | None:
    """One of the accesses in groups that may touch the same bytes."""
    items = (item for group in groups for item in group)
    return next((other for other, its in items if access.meets(turn, other, its)), None)


def _join(groups: list[set[Item]], others: list[set[Item]]) -> None:
    """Add to each group the one of its age."""
    groups += [set() for _ in others[len(groups) :]]
    for mine, its in zip(groups, others, strict=False):
        mine |= its


def _within(groups: list[set[Item]], others: list[set[Item]]) -> bool:
    """Whether each group is part of the one of its age."""
    return len(groups) <= len(others) and all(
        mine <= its for mine, its in zip(groups, others, strict=False)
    )
