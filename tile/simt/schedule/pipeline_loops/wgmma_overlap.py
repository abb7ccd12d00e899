"""Overlap wgmmas with what threads compute meanwhile, and across iterations.

The pass changes a loop whose wgmmas are all in its own block in three ways:

- wgmmas that need nothing that the iteration computes are issued first, one after the other.
- A wait comes just before the result is used, and leaves the wgmmas issued since in flight.
- A wgmma whose accumulator is only loop-carried stays in flight into the next iteration. It is
  complete when the next iteration has issued its first wgmmas and a wait has left only these in
  flight. Then the buffers that it read may be overwritten.

    for .. iter(%acc = %z) {                  for .. iter(%acc = %z) {
      %r = wgmma %k, %q, %z                 %r = wgmma %k, %q, %z
      %s = wgmma_wait %r {pending = 0}          %t = wgmma %v, %o, %z
      %p = exp2 %s                              %a = wgmma_wait %acc {pending = 2}
                                                // copies to what the last iteration read
                                                %s = wgmma_wait %r {pending = 1}
                                                %p = exp2 %s
      %t = wgmma %v, %o, %z
      %u = wgmma_wait %t {pending = 0}          %u = wgmma_wait %t {pending = 0}
      %m = mul %p, %u                           %m = mul %p, %u
      %w = wgmma %m, %q, %acc               %w = wgmma %m, %q, %a
      %x = wgmma_wait %w {pending = 0}          yield %w
      yield %x                                }
    }                                         %x = wgmma_wait %y {pending = 0}

An operand that an iteration computes is overwritten in shared memory by the next iteration, while
a wgmma that stays in flight still reads it. If shared memory allows, iterations alternate between
two buffers (*double-buffered* operands). A wgmma with such an operand in one buffer is waited for
in its iteration, after those that can be issued before its result is used.

A loop may only accumulate into an accumulator that is in flight around it: if ptxas finds another
use after a wait that leaves younger wgmmas in flight, it serializes all of them.

**Deferred dots** are issued an iteration later, so that threads compute their next operand
meanwhile.
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

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import chain

from tile.ir.core import Block, Operation, Value
from tile.ir.effects import is_pure
from tile.ir.ops import control, math, shape
from tile.ir.types import F32
from tile.simt.hopper.wgmma_layouts import staged_operands, stays_in_registers
from tile.simt.ops import wgmma
from tile.simt.ops.layout import convert_layout
from tile.simt.ops.layout_inference import (
    LayoutBuilder,
    half_layout,
    halved,
    layout_of,
    register_count,
)
from tile.simt.schedule.async_ops import LATENCIES
from tile.simt.schedule.pipeline_loops.buffer_readers import (
    dot_operands,
    operand_uses,
    register_operand_dots,
)
from tile.simt.schedule.pipeline_loops.loop_schedule import LoopSchedule, Point, Rank
from tile.simt.schedule.pipeline_loops.multi_buffer import BufferedLoad
from tile.simt.schedule.resources import Resources
from tile.simt.schedule.shared_memory import OperandUse

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
        exponentials = [op for op in self.dot.block if op.defn is math.exp2]
        largest = max(exponentials, key=lambda op: register_count(op.result), default=None)
        half = None if largest is None else _in_two_parts(largest)
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
    return None if accumulate is None else DeferredDot(accumulate, dot, wait, first)


def _in_two_parts(op: Operation) -> Operation | None:
    """Compute an operation on a tile for both halves of columns; return that for the first one.

    None, with nothing changed, unless threads hold elements of both.
    """
    (value,) = op.inputs
    if half_layout(layout_of(value), -1) is None:
        return None
    build = LayoutBuilder.before(op)
    with build.at(op.loc):
        operands = build.bisect(value, -1)
        first, second = (build.op(op.defn, x, **op.attributes) for x in operands)
        pairs, (_, order) = (
            build(shape.join, first.result, second.result),
            halved(value.type.shape, -1),
        )
        whole = build(shape.reshape, build(shape.trans, pairs, order=order), shape=value.type.shape)
        op.replace_by([build.convert(whole, layout_of(op.result))])
    return first


def _accumulation(carried: Value, dot: Operation) -> tuple[Operation, ...] | None:
    """Return the operations that make the accumulator of a dot from a carried value.

    With those that only widen values for them. None if not all of them are pure, or if anything
    else uses what they compute.
    """
    assert isinstance(carried.owner, Block)
    body, values, ops = list(carried.owner), {carried}, {dot}
    for op in body:
        if op is not dot and not values.isdisjoint(op.inputs):
            values.update(op.results)
    for op in reversed(body):
        users = {user for value in op.results for user in value.users}
        wanted = op.defn in _WIDENING or not values.isdisjoint(op.results)
        if users and users <= ops and wanted and is_pure(op):
            ops.add(op)
    users = {user for value in values for user in value.users}
    only = dot.inputs[2] in values and values.isdisjoint(dot.inputs[:2])
    return tuple(op for op in body if op in ops - {dot}) if only and users <= ops else None


_GROUP = frozenset({wgmma.wgmma, wgmma.wgmma_wait})


@dataclass(frozen=True)
class InFlightWgmma:
    """The wgmmas of a loop, in program order.

    leading: wgmmas that need nothing that the iteration computes, and are issued first; none if
        all stay where they are.
    stable: wgmmas whose operands nothing overwrites for a whole iteration, whatever else uses
        shared memory in it.
    deferred: the dot that may be issued an iteration later.
    completes: True if an iteration waits for all of them, since threads have no registers for what
        the next one would hold besides.
    rewritten: wgmmas for whose `a` operand each iteration writes registers.
    """

    loop: Operation
    dots: tuple[Operation, ...]
    leading: tuple[Operation, ...]
    stable: frozenset[Operation]
    deferred: DeferredDot | None = None
    completes: bool = False
    rewritten: frozenset[Operation] = frozenset()

    @property
    def loop_carried(self) -> list[Operation]:
        """The wgmmas that stay in flight into the next iteration, in order."""
        if self.completes:
            return []
        return [op for op in self.dots if op in self.stable and _is_loop_carried(op)]

    @property
    def point(self) -> Point:
        """After the first wgmma: what an iteration issues before any wait goes there."""
        return Point(self.leading[0] if self.leading else self.dots[-1], after=True)

    @property
    def completion(self) -> Point:
        """The point at which the wgmmas of the previous iteration are complete.

        Registers of an operand are written only then, since a wgmma in flight still reads them.
        """
        first = next((op for op in self.dots if op in self.rewritten), None)
        return self.point if first is None else Point(first)


def find_in_flight(
    loop: Operation,
    async_loads: Collection[BufferedLoad],
    resources: Resources,
    double_buffered: Collection[OperandUse] = (),
    *,
    producer: bool = False,
) -> InFlightWgmma | None:
    """Return the wgmmas of a loop if some can stay in flight and that does not cost occupancy.

    async_loads: loads that become multi-buffers.
    double_buffered: operands that get two buffers.
    producer: True if producer warps issue the loads.
    """
    in_buffers = operand_uses(chain(*[each.operands for each in async_loads]))
    dots = _wgmmas(loop)
    if _all_loop_carried(loop, in_buffers | {*double_buffered}):
        loaded = [register_operand_dots(each.load.result) for each in async_loads]
        rewritten = frozenset(filter(_converts_operand, dots)).union(*loaded)
        return InFlightWgmma(loop, dots, (), frozenset(dots), rewritten=rewritten)
    stable = frozenset(op for op in dots if _operands_stay(op, in_buffers))
    leading = tuple(op for op in dots if op in stable and _is_leading(op, in_buffers))
    if not leading:
        return None
    deferred, last = None, dots[-1]
    waits_for_threads = last in stable and last not in leading and not _is_loop_carried(last)
    # Without a producer, co-resident programs overlap as well and take fewer registers.
    if producer and waits_for_threads and resources.can_defer(dots):
        deferred = find_deferred_dot(last, leading[-1])
    if deferred is None and not resources.overlap_is_free(loop, dots, leading, producer=producer):
        if producer or (leading[1:] and resources.may_overlap(dots, leading)):
            return InFlightWgmma(loop, dots, leading, stable, completes=True)
        return None
    return InFlightWgmma(loop, dots, leading, stable, deferred)


def double_buffered(
    loop: Operation, async_loads: Iterable[BufferedLoad], shared_loads: Iterable[BufferedLoad]
) -> tuple[OperandUse, ...]:
    """Return the operands to double-buffer so that a loop's wgmmas can stay in flight.

    There are none if that would not let them stay in flight.

    shared_loads: loads that threads store to buffers of their own, which an iteration may write
        again. wgmmas that read these do not stay in flight.
    """
    in_multi_buffers, in_shared_loads = (
        operand_uses(chain(*[dot_operands(each.load.result) for each in loads]))
        for loads in (async_loads, shared_loads)
    )
    computed = [
        (dot, index)
        for dot in _wgmmas(loop)
        for index in staged_operands(dot)
        if dot.inputs[index].block is dot.block
    ]
    computed = [use for use in computed if use not in in_multi_buffers | in_shared_loads]
    return tuple(computed) if _all_loop_carried(loop, in_multi_buffers | {*computed}) else ()


def _all_loop_carried(loop: Operation, in_buffers: Collection[OperandUse]) -> bool:
    """Return True if every wgmma of a loop can stay in flight into the next iteration.

    That is: its accumulator is only loop-carried, and its operands are in registers or in buffers
    that keep them for the whole iteration. in_buffers: the operands in such buffers.
    """
    dots = _wgmmas(loop)
    return bool(dots) and all(
        _is_loop_carried(op) and _operands_stay(op, in_buffers) for op in dots
    )


def _wgmmas(loop: Operation) -> tuple[Operation, ...]:
    """Return the wgmmas of a loop, each of which has its own wait.

    The result is empty if there are others in nested regions, or if the loop calls a function.
    """
    (body,) = loop.regions
    dots = tuple(op for op in body if op.defn is wgmma.wgmma)
    inside = sum(op.defn in _GROUP for op in loop.walk())
    calls = any(op.defn is control.call for op in loop.walk())
    return () if calls or inside != 2 * len(dots) else dots


def _operands_stay(dot: Operation, in_buffers: Collection[OperandUse]) -> bool:
    """Return True if a wgmma's operands are in registers, or in buffers that keep them.

    in_buffers: the operands in buffers that nothing overwrites for a whole iteration.
    """
    stored = (i for i in staged_operands(dot) if dot.inputs[i].block is dot.block)
    return all((dot, i) in in_buffers for i in stored)


def _converts_operand(dot: Operation) -> bool:
    """Return True if a wgmma itself writes registers of its `a` operand: f32, converted to tf32."""
    value = dot.inputs[0]
    return stays_in_registers(dot) and value.type.element is F32


def _is_leading(dot: Operation, in_buffers: Collection[OperandUse]) -> bool:
    """Return True if a wgmma can be issued as soon as the loop's copies have completed."""
    body, acc = dot.block, dot.inputs[2]
    ready = (
        (dot, i) in in_buffers or value.block is not body or value.owner is body
        for i, value in enumerate(dot.inputs[:2])
    )
    return all(ready) and (acc.owner is body or acc.block is not body)


def schedule_in_flight(loop_dots: InFlightWgmma, schedule: LoopSchedule) -> Point | None:
    """Schedule wgmmas and their waits so that they overlap; return where copies can be issued.

    At the returned point, all wgmmas of the previous iteration have completed. None if they have
    completed at the start of the body.
    """
    leading, loop_carried = loop_dots.leading, loop_dots.loop_carried
    point = loop_dots.point
    if leading[1:]:
        schedule.add(point, Rank.LEADING, 0, leading[1:])
        schedule.add(point, Rank.REST, 0, ())
    for dot in loop_dots.dots:
        if dot in loop_carried:
            continue
        if dot in loop_dots.stable:
            _wait_at_use(dot)
        elif loop_carried:  # else ptxas serializes them (C7514)
            _wait_after_dots(dot)
    waits = [next(dot.result.users) for dot in loop_carried]
    if not waits:
        return None
    schedule.add(loop_dots.completion, Rank.DEFERRED_WAITS, LATENCIES[wgmma.wgmma], waits)
    return point


def completes_in_block(dot: Operation) -> bool:
    """Return True if a wgmma is waited for in its block, which does not yield the result."""
    assert dot.block is not None
    yielded = dot.block.yielded
    return all(
        user.defn is wgmma.wgmma_wait and user.block is dot.block and user.result not in yielded
        for user in dot.result.users
    )


def _is_loop_carried(dot: Operation) -> bool:
    """Return True if a wgmma's accumulator is loop-carried and has no other use in the loop."""
    (wait,) = dot.result.users
    return only_accumulates(dot, wait.result)


def only_accumulates(dot: Operation, result: Value) -> bool:
    """Return True if the result of a dot is its accumulator in the next iteration, and no more."""
    body, uses = dot.block, list(result.uses)
    assert body is not None
    if len(uses) != 1:
        return False
    ((end, index),) = uses
    if end.defn is not control.yield_ or end.block is not body:
        return False
    return list(body.args[index + 1].uses) == [(dot, 2)]


def _wait_at_use(dot: Operation) -> None:
    """Wait for a wgmma just before its result is used, so that those issued since go on."""
    wait, use = _wait_and_use(dot)
    if use is not None:
        wait.move_before(use)
        wait.loc = use.loc


def _wait_after_dots(dot: Operation) -> None:
    """Wait for a wgmma after those that can be issued before its result is used.

    Nothing else comes in front of the wait, since it might overwrite the operands. A conversion of
    the result's layout follows the wait.
    """
    wait, use = _wait_and_use(dot)
    moved = [wait]
    if use is not None and use.defn is convert_layout and len(wait.result.uses) == 1:
        moved, use = [wait, use], _first_user(use)
    following: list[Operation] = []
    op = moved[-1].next
    while op is not None and op is not use and (is_pure(op) or op.defn in _GROUP):
        following.append(op)
        op = op.next
    while following and following[-1].defn is not wgmma.wgmma:
        following.pop()
    if following and following[-1].next is not None:
        for each in moved:
            each.move_before(following[-1].next)


def _wait_and_use(dot: Operation) -> tuple[Operation, Operation | None]:
    """Return the wait for a wgmma, and the first operation of its block that uses the result."""
    (wait,) = dot.result.users
    return wait, _first_user(wait)


def _first_user(op: Operation) -> Operation | None:
    """Return the first operation of the same block that uses the result of one."""
    body = op.block
    assert body is not None
    users = {user.within(body) for user in op.result.users}
    return next((other for other in body if other in users), None)
