"""Find where barriers are needed, by a forward walk over pending accesses.

The walk asks for a barrier at the first access that conflicts with a pending one; in straight-line
code this greedy placement needs the fewest barriers. In a loop it iterates until the state at the
loop's head reaches a fixed point. If accesses before a loop require barriers inside it, one barrier
before the loop is better.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tile.analysis.alias import PointsTo
from tile.ir.core import Operation
from tile.simt.insert_barriers.accesses import Access, Kind
from tile.simt.insert_barriers.global_memory import MemoryAccess, memory_access_through
from tile.simt.insert_barriers.pending import Pending, StagedAccess
from tile.simt.insert_barriers.structure import (
    Barrier,
    Body,
    Branch,
    Call,
    CopyCommit,
    CopyWait,
    FirstThread,
    Loop,
    MemoryOp,
    Node,
    Structure,
    Wgmma,
    WgmmaWait,
)

# The trip count that loops are taken to have when barriers inside and outside are compared.
TRIP_COUNT_ESTIMATE = 8


@dataclass
class Summary:
    """The effects of a call: accesses that may precede any barrier, and what is pending after."""

    shared: dict[StagedAccess, None] = field(default_factory=dict)
    memory: dict[MemoryAccess, None] = field(default_factory=dict)
    after: Pending = field(default_factory=Pending)


@dataclass(frozen=True)
class Need:
    """A barrier before an operation, or a fence, or both; `depth` loops enclose it."""

    op: Operation
    depth: int
    barrier: bool
    fence: bool


Needed = list[Need]


@dataclass(frozen=True)
class _LoopResult:
    """The result of the walk for a loop: the barriers it needs, and what is pending after it."""

    needed: Needed
    after: Pending

    @property
    def cost(self) -> int:
        return sum(TRIP_COUNT_ESTIMATE**need.depth for need in self.needed if need.barrier)


class Solver:
    """The walk over one function, given the summaries of those that it calls."""

    def __init__(self, structure: Structure, callees: Mapping[str, Summary]) -> None:
        self.structure = structure
        self.callees = callees
        self.summary = Summary()
        self.depth = 0
        self.needed: Needed = []
        # Inner loops are solved repeatedly with the same pending accesses.
        self.solved: dict[object, _LoopResult] = {}

    def run(self) -> Sequence[Need]:
        """Return the operations that need a barrier or a fence before them."""
        self.summary.after = self.body(self.structure.body, Pending())
        return self.needed

    def body(self, body: Body, state: Pending) -> Pending:
        for node in body:
            state = self.node(node, state)
        return state

    def node(self, node: Node, state: Pending) -> Pending:
        match node:
            case MemoryOp():
                self.memory_op(node, state)
            case Barrier():
                self.pass_barrier(node.op, state)
            case CopyCommit():
                state.commit(self.structure.max_pending_copies)
            case CopyWait():
                state.wait_copies(node.pending)
            case Wgmma():
                self.wgmma(node, state)
            case FirstThread():
                self.first_thread(node, state)
            case WgmmaWait():
                state.wait_wgmmas(node.pending)
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

    def needs_fence(self, state: Pending) -> bool:
        """Return True if threads' pending writes need a proxy fence before the async proxy's use.

        Its users are wgmma and TMA.
        """
        return state.is_written(self.structure.async_proxy_buffers, self.structure.tma_writes)

    def barrier_before(self, op: Operation, state: Pending) -> Need:
        return Need(op, self.depth, True, self.needs_fence(state))

    def pass_barrier(self, op: Operation, state: Pending) -> None:
        """Pass a barrier of the function, and give it a fence if the async proxy needs one."""
        if self.needs_fence(state):
            self.needed.append(Need(op, self.depth, False, True))
        state.barrier()

    def memory_op(self, node: MemoryOp, state: Pending) -> None:
        shared, memory = node.shared, node.memory
        if (shared is not None and state.conflicts(shared, shared.stage)) or (
            memory is not None and state.memory_conflicts(memory)
        ):
            self.need(node.op, state)
        if shared is not None:
            self.shared_access(shared, state)
        if memory is not None:
            if state.reaches_entry:
                self.summary.memory[memory] = None
            state.add_memory(memory)

    def shared_access(self, access: Access, state: Pending) -> None:
        state.check_waited(access, access.stage)
        if state.reaches_entry:
            self.summary.shared[access, access.stage] = None
        if access.kind is Kind.CP_ASYNC:
            state.issue_copy(access, access.stage)
        else:
            state.add(access, access.stage)

    def wgmma(self, node: Wgmma, state: Pending) -> None:
        if any(state.conflicts(access, access.stage) for access in node.operands):
            self.need(node.op, state)
        for access in node.operands:
            state.check_waited(access, access.stage)
            if state.reaches_entry:
                self.summary.shared[access, access.stage] = None
        reads = {(access, access.stage) for access in node.operands}
        state.issue_wgmma(reads, self.structure.max_pending_wgmmas)

    def first_thread(self, node: FirstThread, state: Pending) -> None:
        memory = node.memory
        if any(state.conflicts(access, access.stage) for access in node.shared) or (
            memory is not None and state.memory_conflicts(memory)
        ):
            self.need(node.op, state)
        for access in node.shared:
            state.check_waited(access, access.stage)
            if state.reaches_entry:
                self.summary.shared[access, access.stage] = None
        if memory is not None:
            if state.reaches_entry:
                self.summary.memory[memory] = None
            state.add_memory(memory)

    # -- calls

    def call(self, node: Call, state: Pending) -> Pending:
        callee = self.callees[node.callee]
        alias = self.structure.alias
        memory = [memory_access_through(each, node.arguments, alias) for each in callee.memory]
        if any(state.conflicts(*item) for item in callee.shared) or any(
            map(state.memory_conflicts, memory)
        ):
            self.need(node.op, state)
        if state.reaches_entry:
            self.summary.shared.update({(access, None): None for access, _ in callee.shared})
            self.summary.memory.update(dict.fromkeys(memory))
        if not callee.after.reaches_entry:
            self.pass_barrier(node.op, state)
        return state | _after_call(callee.after, node.arguments)

    # -- loops

    def loop(self, loop: Loop, state: Pending) -> Pending:
        key = loop, state.key()
        if key not in self.solved:
            self.solved[key] = self.cheapest(loop, state)
        result = self.solved[key]
        self.needed += result.needed
        return result.after.copy()

    def cheapest(self, loop: Loop, state: Pending) -> _LoopResult:
        """Solve a loop, with a barrier before it if that saves barriers inside."""
        plain = self.fixed_point(loop, state)
        if not plain.cost or not (state.shared or state.memory):
            return plain
        after_barrier = state.copy()
        after_barrier.barrier()
        result = self.fixed_point(loop, after_barrier)
        needed = [self.barrier_before(loop.op, state), *result.needed]
        guarded = _LoopResult(needed, result.after)
        return guarded if guarded.cost < plain.cost else plain

    def fixed_point(self, loop: Loop, state: Pending) -> _LoopResult:
        """Solve a loop: iterate until the state at its head does not grow any more."""
        stage_bases = self.structure.stage_bases
        entry = state.renamed(loop.entry, stage_bases)
        head = entry
        while True:
            result, end = self.iteration(loop, head)
            back = end.renamed(loop.back, stage_bases, loop.blocks)
            if back <= head:
                break
            head = head | back
        # Earlier iterations may have left more pending than the last one leaves, with its barriers
        # in place. From what that leaves, fewer barriers may be needed.
        lower = entry | back
        if not head <= lower:
            better, end = self.iteration(loop, lower)
            back = end.renamed(loop.back, stage_bases, loop.blocks)
            if back <= lower and better.cost < result.cost:
                result = better
        after = result.after.renamed(loop.exit, stage_bases)
        if not loop.always_runs:
            after = after | state.renamed(loop.skip, stage_bases)
        return _LoopResult(result.needed, after)

    def iteration(self, loop: Loop, head: Pending) -> tuple[_LoopResult, Pending]:
        """Walk one iteration; return the result at the loop's exit and the state at its end."""
        outer, self.needed = self.needed, []
        self.depth += 1
        state = head.copy()
        at_exit = None
        if loop.test is not None:
            at_exit = self.body(loop.test, state)
            state = at_exit.renamed(loop.to_body, self.structure.stage_bases)
        end = self.body(loop.body, state)
        self.depth -= 1
        needed, self.needed = self.needed, outer
        return _LoopResult(needed, end if at_exit is None else at_exit), end


def _after_call(after: Pending, arguments: Sequence[PointsTo]) -> Pending:
    """Return what a called function leaves pending, as its caller sees it."""
    pending = Pending(reaches_entry=False)
    pending.shared = {(access, None) for access, _ in after.shared}
    pending.in_flight = [{(access, None) for access, _ in group} for group in after.in_flight]
    for (where, mode), _ in after.memory.items():
        pending.memory[where.through(arguments), mode] = frozenset({None})
    return pending
