"""The control flow of a function, reduced to the operations that matter to barriers."""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass, field

from tile.analysis.alias import Alias, PointsTo
from tile.ir.core import Block, Function, Operation, Value
from tile.ir.effects import iterations
from tile.ir.op_definition import OpDef, Trait
from tile.ir.ops import control, memory
from tile.simt import ops
from tile.simt.memory.insert_barriers.apart import Strides
from tile.simt.memory.insert_barriers.memory_effects import (
    ACCESSING,
    Access,
    Kind,
    MemoryAccess,
    Renaming,
    StageIndex,
    accesses_of,
    memory_access_of,
    renaming,
    stage_of,
)
from tile.simt.ops.order import ALL


class Role(enum.Enum):
    """The kind of an access to shared memory, which decides if it is pending afterwards."""

    THREADS = enum.auto()  # all threads; their accesses are pending until a barrier
    WGMMA = enum.auto()  # a warpgroup, which reads its operands until the wait for the wgmma
    # The first thread, whose accesses are not pending. A TMA load is one: a wait on its mbarrier is
    # all that its readers need.
    FIRST_THREAD = enum.auto()


class Flight(enum.Enum):
    """Kinds of operations that run by themselves until they are waited for, in order."""

    COPIES = enum.auto()  # groups of copies to shared memory, of which the youngest is still open
    WGMMAS = enum.auto()  # each of which reads its operands


@dataclass(frozen=True, eq=False)
class MemoryOp:
    """An operation that accesses shared or global memory."""

    op: Operation
    shared: tuple[Access, ...]
    memory: MemoryAccess | None
    role: Role


@dataclass(frozen=True, eq=False)
class MbarrierPhase:
    """An arrive of all warps on the mbarrier of an iteration, or a wait of all threads for that."""

    use: MemoryOp
    mbarriers: Value
    iteration: StageIndex
    arrives: bool


@dataclass(frozen=True, eq=False)
class Barrier:
    """A barrier that the function already has."""

    op: Operation


@dataclass(frozen=True, eq=False)
class WarpgroupBarrier:
    """A barrier of the threads of each warpgroup."""


@dataclass(frozen=True, eq=False)
class Commit:
    """The commit of a group of copies."""


@dataclass(frozen=True, eq=False)
class Wait:
    """A wait for all commit groups, or all wgmmas, except the last `pending`."""

    flight: Flight
    pending: int


@dataclass(frozen=True, eq=False)
class Call:
    """A call, with the memory that its arguments point to."""

    op: Operation
    callee: str
    arguments: tuple[PointsTo, ...]


@dataclass(frozen=True, eq=False)
class Branch:
    """An `if`."""

    arms: tuple[Body, Body]


@dataclass(frozen=True, eq=False)
class Loop:
    """A `for` or `while` loop. A `for` has no test.

    always_runs: False if the loop may run no iteration.
    entry, to_body, back, exit, skip: renamings of iteration numbers on entry to the loop, from the
        test to the body, at the back edge, at the exit, and past a loop that runs no iteration.
    blocks: all blocks inside the loop.
    """

    op: Operation
    test: Body | None
    body: Body
    always_runs: bool
    entry: Renaming
    to_body: Renaming
    back: Renaming
    exit: Renaming
    skip: Renaming
    blocks: frozenset[Block]


Node = MemoryOp | MbarrierPhase | Barrier | WarpgroupBarrier | Commit | Wait | Call | Branch | Loop
Body = list[Node]


@dataclass
class Structure:
    """A function's body, with the facts about it that the walk needs.

    stage_bases: the bases that select stages (see `StageBases`).
    max_pending: the largest numbers of commit groups and wgmmas that a wait leaves in flight.
    async_proxy_buffers: buffers that the async proxy uses: what wgmmas and TMA stores read, and
        mbarriers.
    tma_writes: the writes of TMA loads.
    """

    alias: Alias
    strides: Strides
    body: Body = field(default_factory=list)
    stage_bases: set[tuple[Value, Value | None]] = field(default_factory=set)
    max_pending: dict[Flight, int] = field(default_factory=lambda: dict.fromkeys(Flight, 0))
    async_proxy_buffers: set[Value] = field(default_factory=set)
    tma_writes: list[Access] = field(default_factory=list)


def structure(function: Function, alias: Alias) -> Structure:
    """Return the operations of a function that matter to barriers."""
    builder = _Builder(alias, Strides(function))
    builder.structure.body = builder.block(function.body)
    return builder.structure


class _Builder:
    def __init__(self, alias: Alias, strides: Strides) -> None:
        self.alias = alias
        self.structure = Structure(alias, strides)

    def block(self, block: Block) -> Body:
        rules = ((_NODES.get(op.defn), op) for op in block)
        nodes = [rule(self, op) for rule, op in rules if rule is not None]
        return [node for node in nodes if node is not None]

    def memory_op(self, op: Operation) -> MemoryOp:
        accesses = accesses_of(op)
        for access in accesses:
            if access.stages > 1 and access.stage is not None:
                self.note_base(access.buffer, access.stage.base)
            if access.kind is Kind.TMA_WRITE:
                self.structure.tma_writes.append(access)
            elif op.defn in _ASYNC_PROXY:
                self.structure.async_proxy_buffers.add(access.buffer)
        role = _ROLES.get(op.defn, Role.THREADS)
        return MemoryOp(
            op, accesses, memory_access_of(op, self.alias, self.structure.strides), role
        )

    def mbarrier_phase(self, op: Operation) -> Node:
        iteration = stage_of(op["iteration"]).later(op["stage_offset"])
        arrives = op.defn is ops.tma.mbarrier_arrive
        return MbarrierPhase(self.memory_op(op), op["bars"], iteration, arrives)

    def order_wait(self, op: Operation) -> Node | None:
        """Return a check, here, of all accesses until warpgroups arrive.

        A barrier between them would never be passed: other warpgroups are still waiting.
        """
        accesses: list[Access] = []
        following = op.next if op["only"] == ALL else None
        while following is not None and following.defn is not ops.order.order_arrive:
            accesses += accesses_of(following)
            following = following.next
        return MemoryOp(op, tuple(accesses), None, Role.FIRST_THREAD) if accesses else None

    def note_base(self, buffer: Value, base: Value | None) -> None:
        """Record a base that selects stages of a buffer, and those that loops compute it from."""
        stage_bases = self.structure.stage_bases
        if (buffer, base) not in stage_bases:
            stage_bases.add((buffer, base))
            for source in _sources(base):
                self.note_base(buffer, stage_of(source).base)

    def wait(self, flight: Flight, op: Operation) -> Node:
        most = self.structure.max_pending
        most[flight] = max(most[flight], op["pending"])
        return Wait(flight, op["pending"])

    def call(self, op: Operation) -> Node:
        return Call(op, op["callee"], tuple(map(self.alias.of, op.inputs)))

    def branch(self, op: Operation) -> Node | None:
        then, orelse = map(self.block, op.regions)
        return Branch((then, orelse)) if then or orelse else None

    def for_(self, op: Operation) -> Node | None:
        (region,) = op.regions
        body = self.block(region)
        if not body:
            return None
        args, yielded = region.args[1:], region.yielded
        inits = op.inputs[3:]
        return Loop(
            op,
            None,
            body,
            bool(iterations(op)),
            entry=renaming(zip(args, inits, strict=True)),
            to_body={},
            back=renaming(zip(args, yielded, strict=True)),
            exit=renaming(zip(op.results, yielded, strict=True)),
            skip=renaming(zip(op.results, inits, strict=True)),
            blocks=frozenset(op.blocks()),
        )

    def while_(self, op: Operation) -> Node | None:
        first, second = op.regions
        test, body = self.block(first), self.block(second)
        if not (test or body):
            return None
        return Loop(
            op,
            test,
            body,
            True,
            entry=renaming(zip(first.args, op.inputs, strict=True)),
            to_body=renaming(zip(second.args, first.args, strict=True)),
            back=renaming(zip(first.args, second.yielded, strict=True)),
            exit=renaming(zip(op.results, first.args, strict=True)),
            skip={},
            blocks=frozenset(op.blocks()),
        )


_ROLES = {
    ops.wgmma.wgmma: Role.WGMMA,
    ops.tma.mbarrier_arrive_expect_tx: Role.FIRST_THREAD,
    ops.tma.tma_load: Role.FIRST_THREAD,
    ops.tma.tma_load_im2col: Role.FIRST_THREAD,
    ops.cluster.tma_load_multicast: Role.FIRST_THREAD,
}
# The operations whose buffers the async proxy uses, other than those that it writes.
_ASYNC_PROXY = frozenset(
    {
        ops.wgmma.wgmma,
        ops.tma.mbarrier_init,
        ops.tma.mbarrier_wait,
        ops.tma.mbarrier_arrive,
        ops.cluster.mbarrier_arrive_pair,
        ops.tma.mbarrier_inval,
        ops.tma.tma_store,
        ops.tma.tma_reduce,
    }
)

_NODES: dict[OpDef, Callable[[_Builder, Operation], Node | None]] = {
    **dict.fromkeys(ACCESSING, _Builder.memory_op),
    ops.tma.mbarrier_arrive: _Builder.mbarrier_phase,
    ops.tma.mbarrier_wait: _Builder.mbarrier_phase,
    memory.barrier: lambda self, op: Barrier(op),
    ops.order.warpgroup_barrier: lambda self, op: WarpgroupBarrier(),
    ops.shared.cp_async_commit_group: lambda self, op: Commit(),
    ops.shared.cp_async_wait_group: lambda self, op: self.wait(Flight.COPIES, op),
    ops.wgmma.wgmma_wait: lambda self, op: self.wait(Flight.WGMMAS, op),
    ops.order.order_wait: _Builder.order_wait,
    control.call: _Builder.call,
    control.if_: _Builder.branch,
    control.for_: _Builder.for_,
    control.while_: _Builder.while_,
}


def _sources(value: Value | None) -> list[Value]:
    """Return the initial and the yielded value of a loop-carried value."""
    if value is None:
        return []
    loop = value.op or value.block.parent
    if loop is None or not loop.has_trait(Trait.LOOP):
        return []
    index = control.carried_position(value)
    if index is None:
        return []
    return [loop.inputs[len(loop.defn.operands) + index], loop.regions[-1].yielded[index]]
