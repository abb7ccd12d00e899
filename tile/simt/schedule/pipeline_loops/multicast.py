"""Multicast: of a block that both programs of a cluster load, each loads half, for both.

Programs `2 i` and `2 i + 1` along axis 0 of the grid are *peers*. Addresses are scalars, computed
from the program's number and from iterations. So a program computes which block its peer loads in
the same iteration, too, from the peer's number, and compares:

    %n = program_id {axis = 0}                %size = cluster_size
    for %t = %n to %end step %p {             %c = cmp %size, 2 {predicate = eq}
      %row = div %t, %columns                 %peer = select %c, xor(%n, 1), %n
      ..                                      %ahead = sub %peer, %n
      for %k = .. {                           for %t = %n to %end step %p {
        load block %row, %k                     %u = add %t, %ahead
      }                                         %paired = and %c, cmp %u, %end {predicate = lt}
    }                                           %v = select %paired, %u, %t
                                                %same = and %paired, cmp %row, div(%v, %columns)

Both find the same result, so nothing need be proven of the order in which tiles are computed. Both
must have the same number of iterations, except that the outermost loop may start at the program's
number: a program may have one more there than its peer, and is alone in it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tile.analysis.uniformity import SOURCES, Variation, uniformity
from tile.ir.core import Function, Operation, Value, clone
from tile.ir.effects import is_pure
from tile.ir.expressions import Expression, is_before
from tile.ir.ops import arith, program
from tile.ir.ops.arith import Predicate
from tile.ir.ops.descriptor import block_pointers_of
from tile.ir.types import I32
from tile.simt.ops import cluster
from tile.simt.ops.layout_inference import LayoutBuilder
from tile.simt.schedule.pipeline_loops.channels import can_halve
from tile.simt.schedule.pipeline_loops.multi_buffer import BufferedLoad

_AXIS = 0  # of the grid, along which peers differ


class CannotMulticastError(Exception):
    """Loads of a kernel cannot be multicast, for the reason that is the message."""

    def __init__(self, reason: str, op: Operation) -> None:
        super().__init__(reason)
        self.op = op


class PeerValues:
    """The values of scalars in the peer of each program, in the same iteration.

    has_peer: True if the program is in a cluster of two, once `Pairing` has been built.
    """

    def __init__(self, function: Function) -> None:
        self._variation = uniformity(function, _AXIS)
        self._peers: dict[Value, Value | None] = {}  # None: to be defined
        self.has_peer: Value | None = None

    def is_same(self, value: Value) -> bool:
        """Return True if a value is the same in both programs."""
        if value in self._variation:
            return self._variation[value] is Variation.UNIFORM
        op = value.op
        if op is None or op.defn in SOURCES:
            return False
        return is_pure(op) and not op.regions and all(map(self.is_same, op.inputs))

    def can_compute(self, value: Value) -> bool:
        """Return True if a program can compute the value in its peer."""
        op = value.op
        if value in self._peers or self.is_same(value):
            return True
        if op is None or op.regions or not is_pure(op):
            return False
        if op.defn is program.program_id:
            return True
        return op.defn not in SOURCES and all(map(self.can_compute, op.inputs))

    def define(self, value: Value, peer: Value | None) -> None:
        """State the value in the peer; None announces that it will be stated."""
        self._peers[value] = peer

    def of(self, value: Value) -> Value:
        """Return the value in the peer; in a program without one, the program's own.

        It is computed after the value itself.
        """
        if self.is_same(value):
            return value
        peer = self._peers.get(value)
        if peer is None:
            peer = self._peers[value] = self._compute(value)
        return peer

    def _compute(self, value: Value) -> Value:
        op, has_peer = value.op, self.has_peer
        assert op is not None and op.block is not None and has_peer is not None
        if op.defn is arith.hint:  # states facts of the program's own value
            return self.of(op.inputs[0])
        if op.defn is program.program_id:
            build = LayoutBuilder.after(op)
            other = build(arith.xor, value, build.constant(1, I32))
            return build(arith.select, has_peer, other, value)
        mapping = {operand: self.of(operand) for operand in op.inputs}
        return op.block.insert(clone(op, mapping), op.next).results[value.index]


@dataclass(frozen=True, eq=False)
class Pairing:
    """Loops in which the programs of a cluster do the same number of iterations at the same time.

    root: the outermost loop around all of them, if it starts at a number that differs.
    """

    peers: PeerValues
    root: Operation | None

    @classmethod
    def of(cls, function: Function, loops: Sequence[Operation]) -> Pairing:
        """Return the pairing of loops. Raises `CannotMulticastError` if there is none."""
        peers = PeerValues(function)
        starting: dict[Operation, None] = {}
        outermost: dict[Operation, None] = {}
        for loop in loops:
            *inner, root = loop, *loop.ancestors()
            outermost[root] = None
            lower, *rest = root.inputs[:3]
            for op, bounds in [(root, rest), *[(op, op.inputs[:3]) for op in inner]]:
                if not all(map(peers.is_same, bounds)):
                    raise CannotMulticastError("its end or step depends on the program", op)
            if not peers.is_same(lower):
                starting[root] = None
                if not peers.can_compute(lower):
                    raise CannotMulticastError("its start is not known in other programs", root)
        if not starting:
            return cls(peers, None)
        (root, *others) = outermost
        if others:
            raise CannotMulticastError("another loop follows, after a start by program", root)
        peers.define(root.regions[0].args[0], None)
        return cls(peers, root)

    def can_share(self, load: BufferedLoad) -> bool:
        """Return True if the block of a load can be compared, and divided."""
        pointers = block_pointers_of(load.load)
        if pointers is None or not can_halve(load):
            return False
        return all(map(self.peers.can_compute, pointers.inputs[1:]))

    def build(self, top: LayoutBuilder) -> Value:
        """Compute if a program is paired with its peer, an i1; where, is before or in the root.

        top: a builder at the top of the kernel.
        """
        size = top(cluster.cluster_size)
        has_peer = top(arith.cmp, size, top.constant(cluster.PAIR, I32), predicate=Predicate.EQ)
        self.peers.has_peer = has_peer
        if self.root is None:
            return has_peer
        lower, upper, step = self.root.inputs[:3]
        outside = LayoutBuilder.before(self.root)
        ahead = outside(arith.sub, self.peers.of(lower), lower)
        (body,) = self.root.regions
        build = LayoutBuilder(body, body.first, self.root.loc)
        index, end, by = (Expression(build, x) for x in (body.args[0], upper, step))
        other = index + Expression(build, ahead)
        exists = is_before(other, end, by)
        both = Expression(build, has_peer) & exists
        self.peers.define(index.value, both.select(other, index).value)
        paired = both.value
        paired.name = "paired"
        return paired


@dataclass(frozen=True, eq=False)
class LoopPair:
    """The pairing of one loop, a `Pair` of its channels."""

    peers: PeerValues
    loop: Operation
    paired: Value

    def same_block(self, build: LayoutBuilder, array: Sequence[Value]) -> Value | None:
        """Return an i1: the peer loads the same block of an array. None if that is unknown."""
        if not all(map(self.peers.can_compute, array)):
            return None
        same = self.paired
        for value in array:
            if self.peers.is_same(value):
                continue
            peer = self.peers.of(value)
            inside = any(map(self.loop.defines, (value, peer, same)))
            at = build if inside else LayoutBuilder.before(self.loop)
            equal = at(arith.cmp, value, peer, predicate=Predicate.EQ)
            same = at(arith.and_, same, equal)
        return same
