"""Find where barriers are needed, by a forward walk over pending accesses (`pending.py`).

The walk asks for a barrier at the first access that conflicts with a pending one; in straight-line
code this greedy placement needs the fewest barriers. In a loop it iterates until the state at the
loop's head reaches a fixed point. If accesses before a loop require barriers inside it, one barrier
before the loop is better.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from tile.analysis.alias import PointsTo
from tile.ir.core import Operation
from tile.simt.memory.insert_barriers.control_flow import (
    Barrier,
    Body,
    Branch,
    Call,
    Commit,
    Flight,
    Loop,
    MbarrierPhase,
    MemoryOp,
    Node,
    Role,
    Structure,
    Wait,
    WarpgroupBarrier,
)
from tile.simt.memory.insert_barriers.memory_effects import (
    Kind,
    MemoryAccess,
    memory_access_through,
)
from tile.simt.memory.insert_barriers.pending import Pending, StagedAccess
from tile.simt.tuning import TuningConstants


@dataclass
class Summary:
    """The effects of a call: accesses before its first barrier, and those pending at its end."""

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
    """The result of the walk for a loop: its barriers, and the accesses pending after it."""

    needed: Needed
    after: Pending


class Solver:
    """The walk over one function, given the summaries of those that it calls."""

    def __init__(
        self, structure: Structure, callees: Mapping[str, Summary], tuning: TuningConstants
    ) -> None:
        self.structure = structure
        self.callees = callees
        self.trip_count = tuning.barrier_trip_count
        self.summary = Summary()
        self.depth = 0
        self.needed: Needed = []
        # Pairs of parameters that would need more barriers if their memory were not disjoint.
        self.assumed: set[tuple[int, int]] = set()
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
            case MbarrierPhase():
                self.memory_op(node.use, state)
                change = state.arrive if node.arrives else state.wait_for_arrive
                change(node.mbarriers, node.iteration)
            case Barrier():
                self.pass_barrier(node.op, state)
            case WarpgroupBarrier():
                state.warpgroup_barrier()
            case Commit():
                most = self.structure.max_pending[Flight.COPIES]
                state.push(Flight.COPIES, set(), most + 1)
            case Wait():
                state.wait(node.flight, node.pending)
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
        memory = node.memory
        staged = {(access, access.stage) for access in node.shared}
        if any(state.conflicts(*item) for item in staged) or (
            memory is not None and state.memory_conflicts(memory)
        ):
            self.need(node.op, state)
        if memory is not None:
            self.assumed.update(state.assumed(memory))
        for access in node.shared:
            state.check_waited(access, access.stage)
            if state.reaches_entry:
                self.summary.shared[access, access.stage] = None
        if node.role is Role.WGMMA:
            state.push(Flight.WGMMAS, staged, self.structure.max_pending[Flight.WGMMAS])
        elif node.role is Role.THREADS:
            for access, stage in staged:
                copied = access.kind is Kind.CP_ASYNC
                (state.in_flight[Flight.COPIES][0] if copied else state.shared).add((access, stage))
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
        for each in memory:
            self.assumed.update(state.assumed(each))
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

    def cost(self, result: _LoopResult) -> int:
        """Return the number of barriers that threads execute, at the estimated trip count."""
        return sum(self.trip_count**need.depth for need in result.needed if need.barrier)

    def cheapest(self, loop: Loop, state: Pending) -> _LoopResult:
        """Solve a loop, with a barrier before it if that saves barriers inside."""
        plain = self.fixed_point(loop, state)
        cost = self.cost(plain)
        if not cost or not (state.unordered() or state.within or state.memory):
            return plain
        after_barrier = state.copy()
        after_barrier.barrier()
        result = self.fixed_point(loop, after_barrier)
        needed = [self.barrier_before(loop.op, state), *result.needed]
        guarded = _LoopResult(needed, result.after)
        return guarded if self.cost(guarded) < cost else plain

    def fixed_point(self, loop: Loop, state: Pending) -> _LoopResult:
        """Solve a loop: iterate until the state at its head does not grow any more."""
        stage_bases = self.structure.stage_bases
        moves_on = partial(self.structure.strides.moves_on, loop.op)
        entry = state.renamed(loop.entry, stage_bases)
        head = entry
        while True:
            result, end = self.iteration(loop, head)
            back = end.renamed(loop.back, stage_bases, loop.blocks, moves_on)
            if back <= head:
                break
            head = head | back
        # Earlier iterations may have left more pending than the last one leaves, with its barriers
        # in place. From what that leaves, fewer barriers may be needed.
        lower = entry | back
        if not head <= lower:
            better, end = self.iteration(loop, lower)
            back = end.renamed(loop.back, stage_bases, loop.blocks, moves_on)
            if back <= lower and self.cost(better) < self.cost(result):
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
    """Return the accesses that a called function leaves pending, as its caller sees them."""
    pending = after.mapped(lambda item: (item[0], None))
    pending.memory = {
        (where.through(arguments), mode): frozenset({None}) for where, mode in after.memory
    }
    pending.reaches_entry = False
    return pending
