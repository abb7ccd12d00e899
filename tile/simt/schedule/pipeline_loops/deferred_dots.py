"""Dots that are issued an iteration later, so that threads compute their next operand meanwhile.

In attention the second dot of an iteration needs what threads compute from the first one. Tensor
cores are idle then. If the second dot and the rescaling of its accumulator are deferred, they run
while threads compute the softmax of the next iteration:

    %r = wgmma %q, %k, %0                     %r = wgmma %q, %k, %0
    %s = wgmma_wait %r                        %b = mul %a, %shrink           // of the
    %p, %shrink = softmax %s                  %t = wgmma %p, %v, %b          // last iteration
    %b = mul %a, %shrink                      %s = wgmma_wait %r {pending = 1}
    %t = wgmma %p, %v, %b                     %p, %shrink = softmax %s
    %u = wgmma_wait %t                        %u = wgmma_wait %t {pending = 0}
"""

from __future__ import annotations

from dataclasses import dataclass

from tile.ir.core import Operation, Value
from tile.ir.effects import is_pure
from tile.ir.ops import control, shape
from tile.simt.schedule.pipeline_loops.loop_schedule import LoopSchedule, Point, Rank

# Operations whose results are larger than their operands, which are cheaper to carry.
_WIDENING = frozenset({shape.expand_dims, shape.broadcast, shape.splat})


@dataclass(frozen=True)
class DeferredDot:
    """A dot to defer, the operations on its accumulator in front of it, and its wait."""

    accumulate: tuple[Operation, ...]
    dot: Operation
    wait: Operation

    def schedule(self, schedule: LoopSchedule, first: Operation) -> None:
        """Issue the dot in the next iteration after `first`, and wait for it at the end."""
        (body,) = schedule.loop.regions
        ops = (*self.accumulate, self.dot)
        schedule.add(Point(first, after=True), Rank.DEFERRED_DOTS, 1, ops)
        schedule.add(Point(body.last), Rank.REST, 1, [self.wait])


def find_deferred_dot(dot: Operation) -> DeferredDot | None:
    """Return how a dot of a loop can be deferred: if nothing else uses what it accumulates to.

    Its operands are in registers or in buffers that keep them for the whole iteration.
    """
    body, (wait,) = dot.block, dot.result.users
    assert body is not None
    uses = list(wait.result.uses)
    if len(uses) != 1 or uses[0][0].defn is not control.yield_:
        return None
    carried = body.args[1 + uses[0][1]]
    ops: set[Operation] = {dot}
    if not _collect(dot.inputs[2], carried, ops):
        return None
    ops |= _widening(ops)
    if any(user not in ops for op in (*ops - {dot},) for user in op.result.users):
        return None
    if any(user not in ops for user in carried.users):
        return None
    return DeferredDot(tuple(op for op in body if op in ops and op is not dot), dot, wait)


def _collect(value: Value, carried: Value, ops: set[Operation]) -> bool:
    """Add what computes a value from a carried one; False if not all of it is pure."""
    if value is carried:
        return True
    op = value.op
    if op is None or op.block is not carried.owner or not is_pure(op) or len(op.results) != 1:
        return False
    dependent = [operand for operand in op.inputs if _depends(operand, carried)]
    ops.add(op)
    return bool(dependent) and all(_collect(operand, carried, ops) for operand in dependent)


def _depends(value: Value, carried: Value) -> bool:
    """Return True if a value is computed from a carried one within the iteration."""
    if value is carried:
        return True
    op = value.op
    if op is None or op.block is not carried.owner:
        return False
    return any(_depends(operand, carried) for operand in op.inputs)


def _widening(ops: set[Operation]) -> set[Operation]:
    """Return operations that only widen values for some operations, and theirs."""
    widening: set[Operation] = set()
    worklist = [value.op for op in ops for value in op.inputs]
    while worklist:
        op = worklist.pop()
        if op is None or op.defn not in _WIDENING or op in widening:
            continue
        if all(user in ops or user in widening for user in op.result.users):
            widening.add(op)
            worklist += [value.op for value in op.inputs]
    return widening
