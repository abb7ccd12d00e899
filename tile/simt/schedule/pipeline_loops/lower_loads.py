"""Lower the loads of a loop to async operations and reads of shared memory, with a schedule.

The lowered loop is a program with the same results: an iteration issues its copies, waits for them,
and reads the buffers. Its schedule says what `expand-schedules` moves to earlier iterations.
"""

from __future__ import annotations

from collections.abc import Sequence

from tile.ir.core import Operation, Trait, Value, clone
from tile.ir.ops import arith
from tile.ir.types import I32
from tile.simt.ops import shared
from tile.simt.ops.layout_inference import LayoutBuilder
from tile.simt.schedule.backward_slice import add_loop_carried, backward_slice
from tile.simt.schedule.pipeline_loops.double_buffer import store_alternating
from tile.simt.schedule.pipeline_loops.loop_schedule import LoopSchedule, Point, Rank
from tile.simt.schedule.pipeline_loops.multi_buffer import MultiBuffer
from tile.simt.schedule.pipeline_loops.select_loads import LoopPlan
from tile.simt.schedule.pipeline_loops.shared_budget import SharedBudget
from tile.simt.schedule.pipeline_loops.tma_loads import TmaLoads
from tile.simt.schedule.pipeline_loops.wgmma_overlap import find_in_flight, schedule_in_flight

LOAD_LATENCY = 1  # iterations by which loads to registers are early


def lower_shared_loads(plan: LoopPlan, schedule: LoopSchedule, point: Point) -> None:
    """Schedule the loads of a loop that threads do one iteration early, at a point.

    Those that go through shared memory are stored there at the end of the body. With two stages,
    the next iteration's tiles do not overwrite this iteration's, so that one barrier an iteration
    is enough; one stage takes two barriers.
    """
    stage = -LOAD_LATENCY
    schedule.add(point, Rank.REGISTER_LOADS, stage, plan.register_loads)
    if not plan.shared_loads:
        return
    build = LayoutBuilder.before(plan.loop)
    buffers = [MultiBuffer(build, load, plan.shared_stages) for load in plan.shared_loads]
    iteration, end = _count_iterations(plan.loop, build, plan.loop.regions[0].last)
    for buffer in buffers:
        at = LayoutBuilder.before(buffer.load)
        load = at.block.insert(clone(buffer.load, {}), buffer.load)
        store = at.op(shared.local_store, buffer.stage(at, iteration), load.result)
        schedule.add(point, Rank.SHARED_LOADS, stage, [load])
        schedule.add(Point(end), Rank.COPIES, stage, [store])
        buffer.replace_load(iteration)


def lower_async_loads(plan: LoopPlan, schedule: LoopSchedule, budget: SharedBudget) -> None:
    """Make async copies of loads of a loop, which are issued `plan.stages` - 1 iterations early.

    Each iteration first waits for its own copies. The barrier that this takes also separates the
    reads of a stage in the iteration before from the copies to that stage that are issued then.
    wgmmas that stay in flight into the next iteration (`wgmma_overlap`) are complete once the
    next iteration has issued its first wgmmas; only then are the copies to the buffers that they
    read issued. The operands that are `double_buffered` get two buffers each.

    TMA loads complete on mbarriers, other copies in commit groups. If all copies are TMA loads,
    they are issued after the first wgmma of an iteration.
    """
    loop, stages = plan.loop, plan.stages
    (body,) = loop.regions
    # Found first, so that addresses are computed in the order of the program.
    sources = backward_slice(loop, [x for load in plan.async_loads for x in load.load.inputs])
    assert sources is not None, "a load was chosen that cannot be done early"
    in_flight = find_in_flight(loop, plan.async_loads, budget, plan.double_buffered)
    completed = None if in_flight is None else schedule_in_flight(in_flight, schedule)
    point = completed or _after_first_wgmma(plan)
    distance = stages - 1
    if in_flight is not None and in_flight.deferred is not None and distance > 1:
        # The dot of the iteration before still reads one of the stages.
        distance -= 1
        in_flight.deferred.schedule(schedule, in_flight.leading[-1])
    build = LayoutBuilder.before(loop)
    buffers = [MultiBuffer(build, load, stages) for load in plan.async_loads]
    tma = [buffer for buffer in buffers if buffer.tma]
    cp_async = [buffer for buffer in buffers if not buffer.tma]
    kinds: list[TmaLoads | CommitGroups] = [TmaLoads(build, tma, stages)] if tma else []
    if cp_async:
        kinds.append(CommitGroups(cp_async))
    iteration, _ = _count_iterations(loop, build, point.following or body.first)
    top = LayoutBuilder(body, body.first, loop.loc)
    mapping = sources.clone_at(top, body.args[0], [body.args[1 + at] for at in sources.carried])
    issued = [op for each in kinds for op in each.issue(top, mapping, iteration)]
    waits = [each.wait(top, iteration) for each in kinds]
    schedule.add(Point(), Rank.WAITS, 0, waits)
    schedule.add(point, Rank.COPIES, -distance, issued)
    for buffer in buffers:
        buffer.replace_load(iteration)
    store_alternating(loop, plan.double_buffered, iteration)
    after = LayoutBuilder(build.block, loop.next, loop.loc)
    for each in kinds:
        each.end(after)


def _count_iterations(
    loop: Operation, before: LayoutBuilder, point: Operation | None
) -> tuple[Value, Operation]:
    """Let a loop count its iterations from 0; the count is advanced in front of `point`.

    Returns the count, and the first operation that advances it.
    """
    build = LayoutBuilder(loop.regions[0], point, loop.loc)
    start, first = before.constant(0, I32), build.constant(1, I32)
    (iteration,) = add_loop_carried(loop, [start], lambda args: [build(arith.add, args[0], first)])
    iteration.name = "iteration"
    assert first.op is not None
    return iteration, first.op


def _after_first_wgmma(plan: LoopPlan) -> Point:
    """Return the point at which the copies are issued: the start of the body.

    If all are TMA loads, it is after the first wgmma, which then need not wait until they are
    issued.
    """
    if not all(load.tma for load in plan.async_loads):
        return Point()
    ops = (op for op in plan.loop.regions[0] if op.has_trait(Trait.IN_FLIGHT))
    first = next(ops, None)
    return Point() if first is None else Point(first, after=True)


class CommitGroups:
    """The cp.async copies of a loop, one commit group for each iteration."""

    def __init__(self, buffers: Sequence[MultiBuffer]) -> None:
        self.buffers = buffers

    def issue(
        self, build: LayoutBuilder, mapping: dict[Value, Value], iteration: Value
    ) -> list[Operation]:
        """Issue and commit the copies of an iteration."""
        copies = [_copy(buffer, build, mapping, iteration) for buffer in self.buffers]
        return [*copies, build.op(shared.cp_async_commit_group)]

    def wait(self, build: LayoutBuilder, iteration: Value) -> Operation:
        """Wait for the copies of an iteration."""
        return build.op(shared.cp_async_wait_group, pending=0)

    def end(self, build: LayoutBuilder) -> None:
        """Wait for all copies."""
        build.op(shared.cp_async_wait_group, pending=0)


def _copy(
    buffer: MultiBuffer, build: LayoutBuilder, mapping: dict[Value, Value], iteration: Value
) -> Operation:
    """Issue the copy of one load."""
    load = buffer.load
    with build.at(load.loc):
        ptr, mask = (mapping.get(load[name], load[name]) for name in ("ptr", "mask"))
        hints = {name: load[name] for name in ("cache", "eviction")}
        return build.op(shared.local_cp_async, buffer.stage(build, iteration), ptr, mask, **hints)
