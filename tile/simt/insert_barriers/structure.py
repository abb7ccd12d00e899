"""The control flow of a function, with the operations alone that matter to barriers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from tile.analysis.alias import Alias, PointsTo
from tile.analysis.liveness import LOOPS
from tile.ir.core import Block, Function, Operation, Value
from tile.ir.effects import constant_of
from tile.ir.opdef import OpDef
from tile.ir.ops import control, memory
from tile.simt import ops
from tile.simt.insert_barriers.accesses import (
    Access,
    access_of,
    factor_accesses,
    filled,
    ring_access,
)
from tile.simt.insert_barriers.global_memory import MemoryAccess, memory_access_of
from tile.simt.insert_barriers.turns import Renaming, renaming, turn_of


@dataclass(frozen=True, eq=False)
class Touch:
    """An operation that accesses shared or global memory."""

    op: Operation
    shared: Access | None
    memory: MemoryAccess | None


@dataclass(frozen=True, eq=False)
class Barrier:
    """A barrier that is there already."""

    op: Operation


@dataclass(frozen=True, eq=False)
class Commit:
    """The end of a group of copies."""


@dataclass(frozen=True, eq=False)
class Wait:
    """A wait for all groups but the last `pending`."""

    pending: int


@dataclass(frozen=True, eq=False)
class Product:
    """The beginning of a product that reads buffers until it has been waited for."""

    op: Operation
    factors: list[Access]


@dataclass(frozen=True, eq=False)
class Alone:
    """What the first thread does, or begins, of which nothing is pending behind it.

    A bulk copy to a buffer is done when its barrier has been waited for, which is all it takes.
    """

    op: Operation
    shared: tuple[Access, ...]
    memory: MemoryAccess | None


@dataclass(frozen=True, eq=False)
class Finish:
    """A wait for all products but the last `pending`."""

    pending: int


@dataclass(frozen=True, eq=False)
class Call:
    """A call, with where its arguments point."""

    op: Operation
    callee: str
    arguments: tuple[PointsTo, ...]


@dataclass(frozen=True, eq=False)
class Branch:
    """An `if`."""

    arms: tuple[Body, Body]


@dataclass(frozen=True, eq=False)
class Loop:
    """A `for` or `while`. A `for` has no test, and it may run no round unless it `surely` does.

    Turns are renamed on the way `into` the loop, from the test `on` to the body, `again` from the
    end of the body to the next round, and `out` of it; `past` it, if no round is run. `blocks` are
    all inside.
    """

    op: Operation
    test: Body | None
    body: Body
    surely: bool
    into: Renaming
    on: Renaming
    again: Renaming
    out: Renaming
    past: Renaming
    blocks: frozenset[Block]


Node = Touch | Barrier | Commit | Wait | Product | Alone | Finish | Call | Branch | Loop
Body = list[Node]


@dataclass
class Structure:
    """A function's body, what chooses slots (see `Leads`), and the most groups left by a wait.

    `products` is the most products that are left by one. `factors` are the buffers of which others
    than threads are told: what products and bulk stores read, and barriers. `filled` are accesses
    of bulk copies.
    """

    alias: Alias
    body: Body = field(default_factory=list)
    leads: set[tuple[Value, Value | None]] = field(default_factory=set)
    most: int = 0
    products: int = 0
    factors: set[Value] = field(default_factory=set)
    filled: list[Access] = field(default_factory=list)


def structure(function: Function, alias: Alias) -> Structure:
    """What matters to barriers in a function."""
    found = _Reading(alias)
    found.structure.body = found.block(function.body)
    return found.structure


class _Reading:
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

    def touch(self, op: Operation) -> Node:
        shared = access_of(op)
        if shared is not None:
            self.choose(shared)
        return Touch(op, shared, memory_access_of(op, self.alias))

    def product(self, op: Operation) -> Node:
        factors = factor_accesses(op)
        for access in factors:
            self.choose(access)
            self.structure.factors.add(access.buffer)
        return Product(op, factors)

    def sent(self, op: Operation) -> Node:
        found = self.touch(op)
        assert isinstance(found, Touch) and found.shared is not None
        self.structure.factors.add(found.shared.buffer)
        return found

    def ring(self, op: Operation) -> Node:
        access = ring_access(op)
        self.structure.factors.add(access.buffer)
        return Touch(op, access, None)

    def expect(self, op: Operation) -> Node:
        return Alone(op, (ring_access(op),), None)

    def fill(self, op: Operation) -> Node:
        access = filled(op)
        self.choose(access)
        self.structure.filled.append(access)
        return Alone(op, (access, ring_access(op)), memory_access_of(op, self.alias))

    def finish(self, op: Operation) -> Node:
        self.structure.products = max(self.structure.products, op["pending"])
        return Finish(op["pending"])

    def choose(self, access: Access) -> None:
        """Note what chooses the slot of an access."""
        if access.stages > 1 and access.turn is not None:
            self.lead(access.buffer, access.turn.base)

    def lead(self, buffer: Value, base: Value | None) -> None:
        """Note that a turn chooses slots of a buffer, and so do those that loops make it of."""
        leads = self.structure.leads
        if (buffer, base) not in leads:
            leads.add((buffer, base))
            for source in _sources(base):
                self.lead(buffer, turn_of(source).base)

    def wait(self, op: Operation) -> Node:
        self.structure.most = max(self.structure.most, op["pending"])
        return Wait(op["pending"])

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
            _surely_runs(op),
            into=renaming(zip(args, inits, strict=True)),
            on={},
            again=renaming(zip(args, yielded, strict=True)),
            out=renaming(zip(op.results, yielded, strict=True)),
            past=renaming(zip(op.results, inits, strict=True)),
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
            into=renaming(zip(first.args, op.inputs, strict=True)),
            on=renaming(zip(second.args, first.args, strict=True)),
            again=renaming(zip(first.args, _yielded(second), strict=True)),
            out=renaming(zip(op.results, first.args, strict=True)),
            past={},
            blocks=_blocks(op),
        )


_NODES: dict[OpDef, Callable[[_Reading, Operation], Node | None]] = {
    ops.shared.local_store: _Reading.touch,
    ops.shared.local_load: _Reading.touch,
    ops.shared.local_gather: _Reading.touch,
    ops.shared.local_load_part: _Reading.touch,
    ops.shared.local_store_part: _Reading.touch,
    ops.shared.local_count: _Reading.touch,
    ops.shared.local_copy: _Reading.touch,
    memory.load: _Reading.touch,
    memory.store: _Reading.touch,
    memory.atomic_rmw: _Reading.touch,
    memory.atomic_cas: _Reading.touch,
    memory.barrier: lambda self, op: Barrier(op),
    ops.shared.copy_commit: lambda self, op: Commit(),
    ops.shared.copy_wait: _Reading.wait,
    ops.group.group_dot: _Reading.product,
    ops.group.group_wait: _Reading.finish,
    ops.bulk.barrier_init: _Reading.ring,
    ops.bulk.barrier_expect: _Reading.expect,
    ops.bulk.barrier_wait: _Reading.ring,
    ops.bulk.barrier_free: _Reading.ring,
    ops.bulk.bulk_copy: _Reading.fill,
    ops.bulk.bulk_store: _Reading.sent,
    control.call: _Reading.call,
    control.if_: _Reading.branch,
    control.for_: _Reading.for_,
    control.while_: _Reading.while_,
}


def _yielded(region: Block) -> list[Value]:
    assert region.last is not None
    return region.last.inputs


def _sources(value: Value | None) -> list[Value]:
    """What goes into a loop, and into its next round, as a value that it carries."""
    if value is None:
        return []
    loop = value.op or value.block.parent
    if loop is None or loop.defn not in LOOPS:
        return []
    is_for = loop.defn is control.for_
    index = value.index - (is_for and value.op is None)
    if index < 0:  # the count
        return []
    return [loop.inputs[index + 3 * is_for], _yielded(loop.regions[-1])[index]]


def _surely_runs(loop: Operation) -> bool:
    lower, upper, step = (constant_of(value) for value in loop.inputs[:3])
    if lower is None or upper is None or step is None:
        return False
    return lower < upper if step > 0 else lower > upper


def _blocks(loop: Operation) -> frozenset[Block]:
    return frozenset(region for op in loop.walk() for region in op.regions)
