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

With producer warps, the wait is in the middle of the exponentials of the softmax, which is faster
than before or after them (docs/notes/scheduling.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tile.ir.core import Block, Operation, Value
from tile.ir.effects import is_pure
from tile.ir.op_definition import OpDef
from tile.ir.ops import control, math, shape
from tile.ir.types import Tile
from tile.simt.layouts.axes import permute_axes, reshape_axes
from tile.simt.ops.layout_inference import (
    LayoutBuilder,
    layout_of,
    register_count,
    split_layout,
)
from tile.simt.schedule.pipeline_loops.loop_schedule import LoopSchedule, Point, Rank

# Operations whose results are larger than their operands, which are cheaper to carry.
_WIDENING = frozenset({shape.expand_dims, shape.broadcast, shape.splat})


@dataclass(frozen=True)
class DeferredDot:
    """A dot to defer, the operations on its accumulator in front of it, and its wait.

    first: the operation of the next iteration after which the dot is issued.
    done: the operation of the next iteration after which it is waited for; None for the last.
    """

    accumulate: tuple[Operation, ...]
    dot: Operation
    wait: Operation
    first: Operation
    done: Operation | None = None

    def schedule(self, schedule: LoopSchedule) -> None:
        """Issue the dot in the next iteration, and wait for it at the end."""
        self.begins(schedule, (*self.accumulate, self.dot))
        self.ends(schedule, [self.wait])

    def begins(self, schedule: LoopSchedule, ops: Sequence[Operation]) -> None:
        """Schedule operations with the dot."""
        schedule.add(Point(self.first, after=True), Rank.DEFERRED_DOTS, 1, ops)

    def ends(self, schedule: LoopSchedule, ops: Sequence[Operation]) -> None:
        """Schedule operations with its wait."""
        if self.done is None:
            schedule.add(Point(schedule.loop.regions[0].last), Rank.REST, 1, ops)
        else:
            schedule.add(Point(self.done, after=True), Rank.DEFERRED_WAITS, 1, ops)

    def half_way(self) -> DeferredDot:
        """Return the dot, waited for when half of the exponentials of an iteration are computed.

        These are computed in two parts then.
        """
        assert self.dot.block is not None
        exponentials = _largest(self.dot.block, math.exp2)
        half = None if exponentials is None else _in_two_parts(exponentials)
        return self if half is None else replace(self, done=half)


def find_deferred_dot(dot: Operation, first: Operation) -> DeferredDot | None:
    """Return how a dot of a loop can be deferred: if nothing else uses what it accumulates to.

    Its operands are in registers or in buffers that keep them for the whole iteration.
    """
    body, (wait,) = dot.block, dot.result.users
    assert body is not None
    uses = list(wait.result.uses)
    if len(uses) != 1 or uses[0][0].defn is not control.yield_:
        return None
    accumulate = _accumulation(body.args[1 + uses[0][1]], dot)
    if accumulate is None:
        return None
    ops = {*accumulate, *_widening({*accumulate, dot})}
    return DeferredDot(tuple(op for op in body if op in ops), dot, wait, first)


def _largest(body: Block, defn: OpDef) -> Operation | None:
    """Return the operation of a kind that has the most elements."""
    ops = [op for op in body if op.defn is defn]
    return max(ops, key=lambda op: register_count(op.result), default=None)


def _in_two_parts(op: Operation) -> Operation | None:
    """Compute an operation on a tile for both halves of columns; return that for the first one.

    None, with nothing changed, unless threads hold elements of both.
    """
    ((value,), tile) = op.inputs, op.result.type
    assert isinstance(tile, Tile)
    *outer, columns = tile.shape
    if columns < 2:
        return None
    pairs = reshape_axes(layout_of(value), (*outer, 2, columns // 2))
    order = (*range(len(outer)), len(outer) + 1, len(outer))
    if split_layout(permute_axes(pairs, order)) is None:
        return None
    build = LayoutBuilder.before(op)
    with build.at(op.loc):
        value = build(shape.reshape, value, shape=(*outer, 2, columns // 2))
        parts = build.op(shape.split, build(shape.trans, value, order=order)).results
        first, second = (build.op(op.defn, part, **op.attributes) for part in parts)
        both = build(shape.trans, build(shape.join, first.result, second.result), order=order)
        whole = build(shape.reshape, both, shape=tile.shape)
        op.replace_by([build.convert(whole, layout_of(op.result))])
    return first


def _accumulation(carried: Value, dot: Operation) -> list[Operation] | None:
    """Return the operations that make the accumulator of a dot from a carried value.

    None if not all of them are pure, or if anything else uses what they compute.
    """
    (body, ops, values) = carried.owner, list[Operation](), {carried}
    assert isinstance(body, Block)
    for op in body:
        if op is not dot and not values.isdisjoint(op.inputs):
            if not is_pure(op) or len(op.results) != 1:
                return None
            ops.append(op)
            values.add(op.result)
    users = {user for value in values for user in value.users}
    only = dot.inputs[2] in values and values.isdisjoint(dot.inputs[:2])
    return ops if only and users <= {*ops, dot} else None


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
