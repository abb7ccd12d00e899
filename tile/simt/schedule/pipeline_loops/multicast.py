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

from tile.analysis.uniformity import SOURCES, Variation, uniformity
from tile.ir.core import Function, Operation, Value, clone
from tile.ir.effects import is_pure
from tile.ir.expressions import Expression, is_before
from tile.ir.ops import arith, program
from tile.ir.ops.arith import Predicate
from tile.ir.ops.descriptor import block_pointers_of
from tile.simt.ops import cluster
from tile.simt.ops.layout_inference import LayoutBuilder
from tile.simt.schedule.pipeline_loops.multi_buffer import BufferedLoad

_AXIS = 0  # of the grid, along which peers differ


class UnsuitableLoopError(Exception):
    """Loads cannot be multicast, or get a producer, for the reason that is the message."""

    def __init__(self, reason: str, op: Operation) -> None:
        super().__init__(reason)
        self.op = op


class Pairing:
    """Loops in which the programs of a cluster do the same number of iterations at the same time.

    root: the outermost loop around all of them, if it starts at a number that differs.
    has_peer, paired: once `build` has computed them, an i1: the cluster has both programs; and the
        other one is in the same iteration.
    """

    def __init__(self, function: Function, loops: Sequence[Operation]) -> None:
        """Raises `UnsuitableLoopError` if such loops are no pairing."""
        self.variation = uniformity(function, _AXIS)
        self.peers: dict[Value, Value] = {}
        self.root: Operation | None = None
        self.has_peer: Value
        self.paired: Value
        roots = dict.fromkeys([loop, *loop.ancestors()][-1] for loop in loops)
        for op in (op for loop in loops for op in (loop, *loop.ancestors())):
            if not all(map(self.is_same, op.inputs[op in roots : 3])):
                raise UnsuitableLoopError("its end or step depends on the program", op)
        for root in roots:
            lower = root.inputs[0]
            if not self.is_same(lower):
                if not self.can_compute(lower):
                    raise UnsuitableLoopError("its start is not known in other programs", root)
                if len(roots) > 1:
                    raise UnsuitableLoopError(
                        "another loop follows, after a start by program", root
                    )
                self.root = root

    def is_same(self, value: Value) -> bool:
        """Return True if a value of the kernel is the same in both programs."""
        return self.variation[value] is Variation.UNIFORM

    def can_compute(self, value: Value) -> bool:
        """Return True if a program can compute the value in its peer."""
        if self.is_same(value) or (self.root and value is self.root.regions[0].args[0]):
            return True
        op = value.op
        if op is None or op.regions or not is_pure(op):
            return False
        if op.defn is program.program_id:
            return True
        return op.defn not in SOURCES and all(map(self.can_compute, op.inputs))

    def peer(self, value: Value) -> Value:
        """Return the value in the peer, in the same iteration; without a peer, the program's own.

        It is computed after the value itself.
        """
        if self.is_same(value):
            return value
        if value not in self.peers:
            self.peers[value] = self._compute(value)
        return self.peers[value]

    def _compute(self, value: Value) -> Value:
        op = value.op
        assert op is not None and op.block is not None
        if op.defn is arith.hint:  # states facts of the program's own value
            return self.peer(op.inputs[0])
        if op.defn is program.program_id:
            own = Expression(LayoutBuilder.after(op), value)
            return Expression(own.build, self.has_peer).select(own ^ 1, own).value
        mapping = {operand: self.peer(operand) for operand in op.inputs}
        return op.block.insert(clone(op, mapping), op.next).results[value.index]

    def can_share(self, load: BufferedLoad) -> bool:
        """Return True if the block of a load can be compared, and divided."""
        pointers = block_pointers_of(load.load)
        if pointers is None or not load.can_halve:
            return False
        return all(map(self.can_compute, pointers.inputs[1:]))

    def build(self, top: LayoutBuilder) -> None:
        """Compute if a program is paired with its peer; where, is before or in the root.

        top: a builder at the top of the kernel.
        """
        size = Expression(top, top(cluster.cluster_size))
        self.has_peer = self.paired = size.equals(cluster.PAIR).value
        if self.root is None:
            return
        lower, upper, step = self.root.inputs[:3]
        outside = LayoutBuilder.before(self.root)
        ahead = outside(arith.sub, self.peer(lower), lower)
        (body,) = self.root.regions
        build = LayoutBuilder(body, body.first, self.root.loc)
        index, end, by = (Expression(build, x) for x in (body.args[0], upper, step))
        other = index + Expression(build, ahead)
        both = Expression(build, self.has_peer) & is_before(other, end, by)
        self.peers[index.value] = both.select(other, index).value
        self.paired = both.value
        self.paired.name = "paired"

    def same_block(self, build: LayoutBuilder, array: Sequence[Value]) -> Value | None:
        """Return an i1: the peer loads the same block of an array. None if that is unknown.

        build: a builder in one of the loops.
        """
        loop, same = build.block.parent, self.paired
        assert loop is not None
        if not all(map(self.can_compute, array)):
            return None
        for value in array:
            if self.is_same(value):
                continue
            peer = self.peer(value)
            inside = any(map(loop.defines, (value, peer, same)))
            at = build if inside else LayoutBuilder.before(loop)
            equal = at(arith.cmp, value, peer, predicate=Predicate.EQ)
            same = at(arith.and_, same, equal)
        return same
