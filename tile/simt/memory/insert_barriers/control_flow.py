"""The control flow of a function, reduced to the operations that matter to barriers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from tile.analysis.alias import Alias, PointsTo
from tile.ir.core import Block, Function, OpDef, Operation, Trait, Value
from tile.ir.effects import constant_of
from tile.ir.ops import control, memory
from tile.simt import ops
from tile.simt.memory.insert_barriers.memory_effects import (
    Access,
    MemoryAccess,
    Renaming,
    access_of,
    mbarrier_access,
    memory_access_of,
    operand_accesses,
    renaming,
    stage_of,
    tma_write,
)


@dataclass(frozen=True, eq=False)
class MemoryOp:
    """An operation that accesses shared or global memory."""

    op: Operation
    shared: Access | None
    memory: MemoryAccess | None


@dataclass(frozen=True, eq=False)
class Barrier:
    """A barrier that the function already has."""

    op: Operation


@dataclass(frozen=True, eq=False)
class CopyCommit:
    """The commit of a group of copies."""


@dataclass(frozen=True, eq=False)
class CopyWait:
    """A wait for all commit groups but the last `pending`."""

    pending: int


@dataclass(frozen=True, eq=False)
class Wgmma:
    """The issue of a wgmma, which reads its operands until the wait for it."""

    op: Operation
    operands: list[Access]


@dataclass(frozen=True, eq=False)
class FirstThread:
    """An operation of the first thread, whose shared accesses are not pending afterwards.

    A TMA load is one: a wait on its mbarrier is all that its readers need.
    """

    op: Operation
    shared: tuple[Access, ...]
    memory: MemoryAccess | None


@dataclass(frozen=True, eq=False)
class WgmmaWait:
    """A wait for all wgmmas but the last `pending`."""

    pending: int


@dataclass(frozen=True, eq=False)
class Call:
    """A call, with what its arguments point to."""

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


Node = (
    MemoryOp
    | Barrier
    | CopyCommit
    | CopyWait
    | Wgmma
    | FirstThread
    | WgmmaWait
    | Call
    | Branch
    | Loop
)
Body = list[Node]


@dataclass
class Structure:
    """A function's body, and what the walk needs to know of all of it.

    stage_bases: the bases that select stages (see `StageBases`).
    max_pending_copies: the largest number of commit groups that a wait leaves in flight.
    max_pending_wgmmas: the largest number of wgmmas that a wait leaves in flight.
    async_proxy_buffers: buffers that the async proxy uses: what wgmmas and TMA stores read, and
        mbarriers.
    tma_writes: the writes of TMA loads.
    """

    alias: Alias
    body: Body = field(default_factory=list)
    stage_bases: set[tuple[Value, Value | None]] = field(default_factory=set)
    max_pending_copies: int = 0
    max_pending_wgmmas: int = 0
    async_proxy_buffers: set[Value] = field(default_factory=set)
    tma_writes: list[Access] = field(default_factory=list)


def structure(function: Function, alias: Alias) -> Structure:
    """Return the operations of a function that matter to barriers."""
    builder = _Builder(alias)
    builder.structure.body = builder.block(function.body)
    return builder.structure


class _Builder:
    def __init__(self, alias: Alias) -> None:
        self.alias = alias
        self.structure = Structure(alias)

    def block(self, block: Block) -> Body:
        return [node for op in block for node in self.nodes(op)]

    def nodes(self, op: Operation) -> Iterator[Node]:
        rule = _NODES.get(op.defn)
        node = None if rule is None else rule(self, op)
        if node is not None:
            yield node

    def memory_op(self, op: Operation) -> Node:
        shared = access_of(op)
        if shared is not None:
            self.note_stage(shared)
        return MemoryOp(op, shared, memory_access_of(op, self.alias))

    def wgmma(self, op: Operation) -> Node:
        operands = operand_accesses(op)
        for access in operands:
            self.note_stage(access)
            self.structure.async_proxy_buffers.add(access.buffer)
        return Wgmma(op, operands)

    def tma_store(self, op: Operation) -> Node:
        node = self.memory_op(op)
        assert isinstance(node, MemoryOp) and node.shared is not None
        self.structure.async_proxy_buffers.add(node.shared.buffer)
        return node

    def mbarrier(self, op: Operation) -> Node:
        access = mbarrier_access(op)
        self.structure.async_proxy_buffers.add(access.buffer)
        return MemoryOp(op, access, None)

    def mbarrier_expect(self, op: Operation) -> Node:
        return FirstThread(op, (mbarrier_access(op),), None)

    def tma_load(self, op: Operation) -> Node:
        access = tma_write(op)
        self.note_stage(access)
        self.structure.tma_writes.append(access)
        return FirstThread(op, (access, mbarrier_access(op)), memory_access_of(op, self.alias))

    def wgmma_wait(self, op: Operation) -> Node:
        self.structure.max_pending_wgmmas = max(self.structure.max_pending_wgmmas, op["pending"])
        return WgmmaWait(op["pending"])

    def note_stage(self, access: Access) -> None:
        """Record the base that selects the stage of an access."""
        if access.stages > 1 and access.stage is not None:
            self.note_base(access.buffer, access.stage.base)

    def note_base(self, buffer: Value, base: Value | None) -> None:
        """Record a base that selects stages of a buffer, and those that loops compute it from."""
        stage_bases = self.structure.stage_bases
        if (buffer, base) not in stage_bases:
            stage_bases.add((buffer, base))
            for source in _sources(base):
                self.note_base(buffer, stage_of(source).base)

    def wait(self, op: Operation) -> Node:
        self.structure.max_pending_copies = max(self.structure.max_pending_copies, op["pending"])
        return CopyWait(op["pending"])

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
        args, yielded = region.args[1:], _yielded(region)
        inits = op.inputs[3:]
        return Loop(
            op,
            None,
            body,
            _always_runs(op),
            entry=renaming(zip(args, inits, strict=True)),
            to_body={},
            back=renaming(zip(args, yielded, strict=True)),
            exit=renaming(zip(op.results, yielded, strict=True)),
            skip=renaming(zip(op.results, inits, strict=True)),
            blocks=_blocks(op),
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
            back=renaming(zip(first.args, _yielded(second), strict=True)),
            exit=renaming(zip(op.results, first.args, strict=True)),
            skip={},
            blocks=_blocks(op),
        )


_NODES: dict[OpDef, Callable[[_Builder, Operation], Node | None]] = {
    ops.shared.local_store: _Builder.memory_op,
    ops.shared.local_load: _Builder.memory_op,
    ops.shared.local_gather: _Builder.memory_op,
    ops.shared.local_load_slice: _Builder.memory_op,
    ops.shared.local_store_slice: _Builder.memory_op,
    ops.shared.local_atomic_inc: _Builder.memory_op,
    ops.shared.local_cp_async: _Builder.memory_op,
    memory.load: _Builder.memory_op,
    memory.store: _Builder.memory_op,
    memory.atomic_rmw: _Builder.memory_op,
    memory.atomic_cas: _Builder.memory_op,
    memory.barrier: lambda self, op: Barrier(op),
    ops.shared.cp_async_commit_group: lambda self, op: CopyCommit(),
    ops.shared.cp_async_wait_group: _Builder.wait,
    ops.wgmma.wgmma: _Builder.wgmma,
    ops.wgmma.wgmma_wait: _Builder.wgmma_wait,
    ops.tma.mbarrier_init: _Builder.mbarrier,
    ops.tma.mbarrier_arrive_expect_tx: _Builder.mbarrier_expect,
    ops.tma.mbarrier_wait: _Builder.mbarrier,
    ops.tma.mbarrier_inval: _Builder.mbarrier,
    ops.tma.tma_load: _Builder.tma_load,
    ops.tma.tma_store: _Builder.tma_store,
    control.call: _Builder.call,
    control.if_: _Builder.branch,
    control.for_: _Builder.for_,
    control.while_: _Builder.while_,
}


def _yielded(region: Block) -> list[Value]:
    assert region.last is not None
    return region.last.inputs


def _sources(value: Value | None) -> list[Value]:
    """Return the initial and the yielded value of a loop-carried value."""
    if value is None:
        return []
    loop = value.op or value.block.parent
    if loop is None or not loop.has_trait(Trait.LOOP):
        return []
    is_for = loop.defn is control.for_
    index = value.index - (is_for and value.op is None)
    if index < 0:  # the induction variable
        return []
    return [loop.inputs[index + 3 * is_for], _yielded(loop.regions[-1])[index]]


def _always_runs(loop: Operation) -> bool:
    lower, upper, step = (constant_of(value) for value in loop.inputs[:3])
    if lower is None or upper is None or step is None:
        return False
    return lower < upper if step > 0 else lower > upper


def _blocks(loop: Operation) -> frozenset[Block]:
    return frozenset(region for op in loop.walk() for region in op.regions)
