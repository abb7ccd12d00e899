"""The walk through a function that finds where barriers are needed.

It goes forward with what is pending, and asks for a barrier at the first access that conflicts
with that: on a straight line no other places are fewer. Through a loop it goes until a round adds
nothing to what is pending at its start. If what came before the loop makes barriers needed inside
it, one in front of the loop is better.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tile.analysis.alias import PointsTo
from tile.ir.core import Operation
from tile.simt.insert_barriers.accesses import Access, Kind
from tile.simt.insert_barriers.global_memory import MemoryAccess, memory_access_through
from tile.simt.insert_barriers.pending import Item, Pending
from tile.simt.insert_barriers.structure import (
    Alone,
    Barrier,
    Body,
    Branch,
    Call,
    Commit,
    Finish,
    Loop,
    Node,
    Product,
    Structure,
    Touch,
    Wait,
)

# How many rounds a loop is taken to run, where barriers inside and outside are weighed.
ROUNDS = 8


@dataclass
class Summary:
    """What a call does: accesses that may come before any barrier, and what it leaves pending."""

    shared: dict[Item, None] = field(default_factory=dict)
    memory: dict[MemoryAccess, None] = field(default_factory=dict)
    after: Pending = field(default_factory=Pending)


@dataclass(frozen=True)
class Need:
    """A barrier in front of an operation, or a fence, or both; `depth` loops are around it."""

    op: Operation
    depth: int
    barrier: bool
    fence: bool


Needed = list[Need]


@dataclass(frozen=True)
class _Through:
    """A way through a loop: the barriers it needs, and what is pending behind it."""

    needed: Needed
    after: Pending

    @property
    def cost(self) -> int:
        return sum(ROUNDS**need.depth for need in self.needed if need.barrier)


class Solver:
    """The walk through one function, given what calls of others do."""

    def __init__(self, structure: Structure, callees: Mapping[str, Summary]) -> None:
        self.structure = structure
        self.callees = callees
        self.summary = Summary()
        self.depth = 0
        self.needed: Needed = []
        # Loops inside loops are gone through again and again with the same things pending.
        self.known: dict[object, _Through] = {}

    def run(self) -> Sequence[Need]:
        """The operations that need a barrier or a fence in front of them."""
        self.summary.after = self.body(self.structure.body, Pending())
        return self.needed

    def body(self, body: Body, state: Pending) -> Pending:
        for node in body:
            state = self.node(node, state)
        return state

    def node(self, node: Node, state: Pending) -> Pending:
        match node:
            case Touch():
                self.touch(node, state)
            case Barrier():
                self.pass_barrier(node.op, state)
            case Commit():
                state.commit(self.structure.most)
            case Wait():
                state.wait(node.pending)
            case Product():
                self.product(node, state)
            case Alone():
                self.alone(node, state)
            case Finish():
                state.finish_products(node.pending)
            case Call():
                return self.call(node, state)
            case Branch():
                then, orelse = (self.body(arm, state.copy()) for arm in node.arms)
                return then | orelse
            case Loop():
                return self.loop(node, state)
        return state

    def need(self, op: Operation, state: Pending) -> None:
        self.needed.append(self.barrier_before(op, state))
        state.barrier()

    def is_told(self, state: Pending) -> bool:
        """Whether a fence says what threads have written: to products, or to bulk copies."""
        return state.is_written(self.structure.factors, self.structure.filled)

    def barrier_before(self, op: Operation, state: Pending) -> Need:
        return Need(op, self.depth, True, self.is_told(state))

    def pass_barrier(self, op: Operation, state: Pending) -> None:
        """A barrier that is there takes a fence, if products are to find what was written."""
        if self.is_told(state):
            self.needed.append(Need(op, self.depth, False, True))
        state.barrier()

    def touch(self, node: Touch, state: Pending) -> None:
        shared, memory = node.shared, node.memory
        if (shared is not None and state.conflicts(shared, shared.turn)) or (
            memory is not None and state.memory_conflicts(memory)
        ):
            self.need(node.op, state)
        if shared is not None:
            self.touch_shared(shared, state)
        if memory is not None:
            if state.fresh:
                self.summary.memory[memory] = None
            state.touch_memory(memory)

    def touch_shared(self, access: Access, state: Pending) -> None:
        state.check_waited(access, access.turn)
        if state.fresh:
            self.summary.shared[access, access.turn] = None
        if access.kind is Kind.COPY:
            state.begin_copy(access, access.turn)
        else:
            state.touch(access, access.turn)

    def product(self, node: Product, state: Pending) -> None:
        if any(state.conflicts(access, access.turn) for access in node.factors):
            self.need(node.op, state)
        for access in node.factors:
            state.check_waited(access, access.turn)
            if state.fresh:
                self.summary.shared[access, access.turn] = None
        reads = {(access, access.turn) for access in node.factors}
        state.begin_product(reads, self.structure.products)

    def alone(self, node: Alone, state: Pending) -> None:
        memory = node.memory
        if any(state.conflicts(access, access.turn) for access in node.shared) or (
            memory is not None and state.memory_conflicts(memory)
        ):
            self.need(node.op, state)
        for access in node.shared:
            state.check_waited(access, access.turn)
            if state.fresh:
                self.summary.shared[access, access.turn] = None
        if memory is not None:
            if state.fresh:
                self.summary.memory[memory] = None
            state.touch_memory(memory)

    # -- calls

    def call(self, node: Call, state: Pending) -> Pending:
        callee = self.callees[node.callee]
        alias = self.structure.alias
        memory = [memory_access_through(each, node.arguments, alias) for each in callee.memory]
        if any(state.conflicts(*item) for item in callee.shared) or any(
            map(state.memory_conflicts, memory)
        ):
            self.need(node.op, state)
        if state.fresh:
            self.summary.shared.update({(access, None): None for access, _ in callee.shared})
            self.summary.memory.update(dict.fromkeys(memory))
        if not callee.after.fresh:
            self.pass_barrier(node.op, state)
        return state | _left(callee.after, node.arguments)

    # -- loops

    def loop(self, loop: Loop, state: Pending) -> Pending:
        key = loop, state.key()
        if key not in self.known:
            self.known[key] = self.weighed(loop, state)
        found = self.known[key]
        self.needed += found.needed
        return found.after.copy()

    def weighed(self, loop: Loop, state: Pending) -> _Through:
        """Through a loop with a barrier in front of it, if that saves barriers inside."""
        plain = self.rounds(loop, state)
        if not plain.cost or not (state.shared or state.memory):
            return plain
        behind = state.copy()
        behind.barrier()
        found = self.rounds(loop, behind)
        first = _Through([self.barrier_before(loop.op, state), *found.needed], found.after)
        return first if first.cost < plain.cost else plain

    def rounds(self, loop: Loop, state: Pending) -> _Through:
        """Through a loop, until another round would not add anything."""
        leads = self.structure.leads
        entry = state.renamed(loop.into, leads)
        head = entry
        while True:
            found, end = self.round(loop, head)
            back = end.renamed(loop.again, leads, loop.blocks)
            if back <= head:
                break
            head = head | back
        # Rounds before the last may have left more than is left now that barriers are where they
        # are: with what is left now, fewer may do.
        lower = entry | back
        if not head <= lower:
            better, end = self.round(loop, lower)
            if end.renamed(loop.again, leads, loop.blocks) <= lower and better.cost < found.cost:
                found = better
        after = found.after.renamed(loop.out, leads)
        if not loop.surely:
            after = after | state.renamed(loop.past, leads)
        return _Through(found.needed, after)

    def round(self, loop: Loop, head: Pending) -> tuple[_Through, Pending]:
        """One round: with what is pending where the loop may end, and at the end of the body."""
        outer, self.needed = self.needed, []
        self.depth += 1
        state = head.copy()
        left = None
        if loop.test is not None:
            left = self.body(loop.test, state)
            state = left.renamed(loop.on, self.structure.leads)
        end = self.body(loop.body, state)
        self.depth -= 1
        needed, self.needed = self.needed, outer
        return _Through(needed, end if left is None else left), end


def _left(after: Pending, arguments: Sequence[PointsTo]) -> Pending:
    """What a called function leaves pending, as its caller sees it."""
    left = Pending(fresh=False)
    left.shared = {(access, None) for access, _ in after.shared}
    left.flight = [{(access, None) for access, _ in group} for group in after.flight]
    for (where, mode), _ in after.memory.items():
        left.memory[where.through(arguments), mode] = frozenset({None})
    return left
