"""Lower the loads of a loop to async operations and reads of shared memory, with a schedule.

The lowered loop is a program with the same results: an iteration issues its copies, waits for them,
and reads the buffers. Its schedule says what `expand-schedules` moves to earlier iterations.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import chain

from tile.ir.core import Operation, Value, clone
from tile.ir.op_definition import Trait
from tile.ir.ops import memory, shape
from tile.ir.shared_type import Shared
from tile.simt.hopper.wgmma_layouts import stage_operands, staged_operands
from tile.simt.layouts.dims import WARP
from tile.simt.layouts.linear_layout import LinearLayout
from tile.simt.memory.expose_shared import shared_conversion
from tile.simt.ops import shared, wgmma
from tile.simt.ops.layout import convert_layout
from tile.simt.ops.layout_inference import LayoutBuilder, layout_of
from tile.simt.ops.warp_specialize import WARPGROUP_WARPS
from tile.simt.schedule.async_ops import LATENCIES, issue_stage
from tile.simt.schedule.backward_slice import backward_slice
from tile.simt.schedule.pipeline_loops.buffer_readers import (
    last_read,
    read_from_buffer,
    stage_readers,
)
from tile.simt.schedule.pipeline_loops.channels import Channel, TmaChannel
from tile.simt.schedule.pipeline_loops.loop_schedule import LoopSchedule, Point, Rank
from tile.simt.schedule.pipeline_loops.multi_buffer import BufferedLoad, count_iterations, stage
from tile.simt.schedule.pipeline_loops.select_loads import LoopPlan
from tile.simt.schedule.pipeline_loops.slice_mma import defer_last_slice
from tile.simt.schedule.pipeline_loops.wgmma_overlap import find_in_flight, schedule_in_flight
from tile.simt.schedule.resources import Resources
from tile.simt.schedule.shared_memory import OperandUse

# Of buffers with so many, copies that are issued a stage less early take less time than a second
# barrier in each iteration. H200, 2026-11-30, us before and so: convolution task 4 of goals.py by
# 64 x 64 x 128, 4 warps, 6 stages 15.8, 14.6; task 3 by 128 x 128 x 64, 8 warps, 6 20.6, 17.6; f16
# by cp.async, 4096 cubed by 128 x 256 x 32, 8 warps, 6 217, 207, 1024 cubed by 64 x 128 x 64, 4
# warps, 8 7.33, 6.80. With fewer, loads may come too late: the last one with 5 7.36, 7.63, 256 x
# 4096 x 4096 20.8, 22.9; 4096 cubed by 128 x 128 x 64, 4 warps, with 4 213, 242.
ENOUGH_STAGES = 6


def lower_shared_loads(plan: LoopPlan, schedule: LoopSchedule, point: Point) -> None:
    """Schedule the loads of a loop that threads do one iteration early, at a point.

    Those that go through shared memory are stored there at the end of the body. With two stages,
    the next iteration's tiles do not overwrite this iteration's, so that one barrier an iteration
    is enough; one stage takes two barriers.
    """
    schedule.add(point, Rank.REGISTER_LOADS, -LATENCIES[memory.load], plan.register_loads)
    if not plan.shared_loads:
        return
    early = issue_stage(memory.load, plan.shared_loads[0].stages, free=0)
    build = LayoutBuilder.before(plan.loop)
    buffers = [load.allocate(build) for load in plan.shared_loads]
    iteration, end = count_iterations(plan.loop, build, plan.loop.regions[0].last)
    for buffered, buffer in zip(plan.shared_loads, buffers, strict=True):
        at = LayoutBuilder.before(buffered.load)
        load = at.block.insert(clone(buffered.load, {}), buffered.load)
        store = at.op(shared.local_store, stage(at, buffer, iteration), load.result)
        schedule.add(point, Rank.SHARED_LOADS, early, [load])
        schedule.add(Point(end), Rank.COPIES, early, [store])
        read_from_buffer(buffered.load, stage(at, buffer, iteration))


def lower_async_loads(plan: LoopPlan, schedule: LoopSchedule, resources: Resources) -> None:
    """Make async copies of loads of a loop, which are issued as early as their buffers allow.

    Each iteration first waits for its own copies. The barrier that this takes also separates the
    reads of a stage in the iteration before from the copies to that stage that are issued then.
    wgmmas that stay in flight into the next iteration (`wgmma_overlap`) are complete once the
    next iteration has issued its first wgmmas; only then are the copies to the buffers that they
    read issued, which takes a second barrier. cp.async copies to buffers of `ENOUGH_STAGES` are
    issued in front of these wgmmas, to the stage that was read two iterations before: all warps
    have waited for that at the first barrier. The operands that are `double_buffered` get two
    buffers each.

    TMA loads complete on mbarriers, other copies in commit groups. Where a wgmma need only wait for
    copies, those of later iterations are issued after it. Copies of a loop whose iterations have
    stages of their own wait for no reader. TMA loads of rows that threads reduce are issued behind
    the barrier of the reduction (`_after_exchange`). Several warpgroups that exchange nothing else
    release stages on mbarriers, as for a producer (`_releasing_warps`): a barrier would keep them
    together. `defer_last_slice` says where loops of dots by mma have their copies issued.
    """
    loop = plan.loop
    (body,) = loop.regions
    in_flight = find_in_flight(loop, plan.async_loads, resources, plan.double_buffered)
    completed = None if in_flight is None else schedule_in_flight(in_flight, schedule)
    point = completed or _after_exchange(plan, resources) or _after_first_wgmma(plan)
    build = LayoutBuilder.before(loop)
    tma = tuple(load for load in plan.async_loads if load.tma)
    cp_async = tuple(load for load in plan.async_loads if not load.tma)
    channels: dict[Channel, Sequence[BufferedLoad]] = {}
    carried = in_flight is not None and bool(in_flight.loop_carried)
    free = 1
    if carried and not (tma or plan.resident) and plan.stages >= ENOUGH_STAGES:
        point, free = Point(), 2
    readers = 0 if carried else _releasing_warps(plan, resources)
    if tma:
        channels[TmaChannel(build, tma, readers)] = tma
    if cp_async:
        channels[Channel(build, cp_async)] = cp_async
    iteration, _ = count_iterations(loop, build, point.following or body.first)
    top = LayoutBuilder(body, body.first, loop.loc)
    addresses, indices = _clone_addresses(plan, top)
    copies: list[tuple[int, list[Operation]]] = []
    for channel, loads in channels.items():
        issued = channel.issue(top, loads, addresses, iteration)
        if loads is cp_async:
            issued = [*indices, *issued]
        early = issue_stage(loads[0].issue, plan.stages, free=0 if plan.resident else free)
        if readers and isinstance(channel, TmaChannel):
            empty = channel.wait_until_empty(top, iteration, -early)
            schedule.add(point, Rank.WAITS, 0, [empty])
        copies.append((early, issued))
    waits = [channel.wait(top, iteration) for channel in channels]
    schedule.add(Point(), Rank.WAITS, 0, waits)
    for channel, loads in channels.items():
        stages = channel.replace_loads(loads, iteration)
        if readers and isinstance(channel, TmaChannel):
            read = last_read(body, chain.from_iterable(map(stage_readers, stages)))
            channel.release(LayoutBuilder.after(read), iteration)
    _double_buffer(loop, plan.double_buffered, iteration)
    if in_flight is None and not plan.resident and not readers:
        point = defer_last_slice(loop, schedule, resources) or point
    for early, issued in copies:
        schedule.add(point, Rank.COPIES, early, issued)
    after = LayoutBuilder.after(loop)
    for channel in channels:
        channel.end(after)


def _releasing_warps(plan: LoopPlan, resources: Resources) -> int:
    """Return the warps that release the stages of a loop's TMA loads on mbarriers; 0 for barriers.

    That is where several warpgroups read them, and threads exchange nothing else through shared
    memory: without a barrier, one computes while the other's wgmmas run.
    """
    loads = plan.async_loads
    if plan.resident or not all(load.tma and load.stages > 1 for load in loads):
        return 0
    dots = [reader.op for load in loads for reader in load.operands]
    if not dots or plan.double_buffered or plan.shared_loads or plan.reloads:
        return 0
    wgmmas = [op for op in plan.loop.walk() if op.defn is wgmma.wgmma]
    uses = [(op, index) for op in wgmmas for index in staged_operands(op)]
    blocks = {*plan.loop.blocks()}
    before = {(op, index) for op, index in uses if op.inputs[index].block not in blocks}
    if resources.shared.is_used_in(plan.loop, before.union(plan.buffer_reads)):
        return 0
    warps = layout_of(dots[0].result).in_size(WARP)
    return warps if warps > WARPGROUP_WARPS else 0


def _clone_addresses(
    plan: LoopPlan, top: LayoutBuilder
) -> tuple[dict[Value, Value], list[Operation]]:
    """Compute the operands of a loop's async copies at the start of its body.

    Returns the new values by those that they stand for, and the loads that these operands, and the
    loop-carried values in them, are computed from.
    """
    loop, (body,) = plan.loop, plan.loop.regions
    operands = [value for load in plan.async_loads for value in load.load.inputs]
    sources = backward_slice(loop, operands, plan.early_loads)
    assert sources is not None, "a load was chosen that cannot be done early"
    # What the next iteration's loop-carried values are loaded by stays where it is.
    carried_on = [body.yielded[at] for at in sources.carried]
    following = backward_slice(loop, carried_on, plan.early_loads)
    assert following is not None, "a part of the slice of the operands"
    values = sources.clone_at(top, body.args[0], [body.args[1 + at] for at in sources.carried])
    copies = [values[load.result].op for load in sources.loads]
    return values, [*filter(None, copies), *following.loads]


def _double_buffer(loop: Operation, operands: Collection[OperandUse], iteration: Value) -> None:
    """Store operands where they are computed, to a stage of a buffer that has two."""

    def store(build: LayoutBuilder, value: Value, layout: LinearLayout) -> Value:
        result = Shared(tuple(value.type.shape), value.type.element, layout, stages=2)
        outside = LayoutBuilder.before(loop)
        with outside.at(build.loc or loop.loc):
            buffer = outside(shared.local_alloc, result=result)
        buffer.name = value.name
        target = stage(build, buffer, iteration)
        build.op(shared.local_store, target, value)
        return target

    stage_operands(operands, store)


def _after_first_wgmma(plan: LoopPlan) -> Point:
    """Return the point at which the copies are issued: the start of the body.

    If all are TMA loads, or if the first wgmma need only wait for copies, it is after that one,
    which then need not wait until others are issued.
    """
    if all(load.tma for load in plan.async_loads):
        ops = (op for op in plan.loop.regions[0] if op.has_trait(Trait.IN_FLIGHT))
        first = next(ops, None)
    else:
        first = _wgmma_of_copies(plan)
    return Point() if first is None else Point(first, after=True)


def _after_exchange(plan: LoopPlan, resources: Resources) -> Point | None:
    """Return the point behind the first exchange among all threads, if TMA loads their tiles.

    All threads have read the stage of the iteration before then, which need no barrier for that.
    Exchanges that do not depend on each other are one. What converts loaded tiles reads buffers.
    """
    if not plan.reloads or not all(load.tma for load in plan.async_loads):
        return None
    reads = plan.buffer_reads
    last: Operation | None = None
    behind: set[Value] = set()
    for op in plan.loop.regions[0]:
        depends = not behind.isdisjoint(op.inputs)
        exchanges = op.defn is convert_layout and op not in reads
        if exchanges and shared_conversion(op, resources.target) is not None:
            if depends:
                break
            last = op
            behind.update(op.results)
        elif depends:
            behind.update(op.results)
    return None if last is None else Point(last, after=True)


def _wgmma_of_copies(plan: LoopPlan) -> Operation | None:
    """Return the wgmma that reads copies before anything else does, if no operand is computed."""
    (body,) = plan.loop.regions
    copied = {each.load.result for each in plan.async_loads}
    for op in body:
        if copied.isdisjoint(op.inputs):
            continue
        if op.defn is not shape.trans:
            made = [x for x in op.inputs[:2] if x.op is not None and x.block is body]
            return op if op.has_trait(Trait.IN_FLIGHT) and copied.issuperset(made) else None
        copied.add(op.result)
    return None
