"""Asynchronous copies to multi-buffers in shared memory, several iterations ahead."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from tile.ir.core import Operation, Trait, Value
from tile.ir.ops import arith
from tile.ir.types import I32
from tile.simt.ops import shared
from tile.simt.ops.layout_inference import LayoutBuilder
from tile.simt.schedule.pipeline_loops.address_slices import (
    BackwardSlice,
    IterationView,
    PrefetchPoint,
    iteration_mask,
)
from tile.simt.schedule.pipeline_loops.double_buffer import store_alternating
from tile.simt.schedule.pipeline_loops.multi_buffer import BufferedLoad, MultiBuffer
from tile.simt.schedule.pipeline_loops.shared_budget import OperandUse, SharedBudget
from tile.simt.schedule.pipeline_loops.tma_loads import TmaLoads
from tile.simt.schedule.pipeline_loops.wgmma_overlap import find_in_flight, keep_in_flight


def prefetch_async(
    async_loads: Sequence[BufferedLoad],
    sources: BackwardSlice,
    stages: int,
    top: Operation,
    budget: SharedBudget,
    double_buffered: Collection[OperandUse] = (),
) -> None:
    """Replace loads of a loop by async copies issued `stages` - 1 iterations ahead, before `top`.

    Each iteration first waits for its own copies. The barrier that this takes also separates the
    reads of a stage in the iteration before from the copies to that stage that are issued then.
    wgmmas that stay in flight into the next iteration (`keep_in_flight`) are complete once the
    next iteration has issued its first wgmmas; only then are the copies to the buffers that they
    read issued. Their operands `double_buffered` get two buffers each.

    TMA loads complete on mbarriers, other copies in commit groups. If all copies are TMA loads,
    they are issued after the first wgmma of an iteration.
    """
    loop = sources.loop
    in_flight = find_in_flight(loop, async_loads, budget, double_buffered)
    completed = None if in_flight is None else keep_in_flight(in_flight)
    prefetch = PrefetchPoint(sources, stages - 1, completed or _after_first_wgmma(top, async_loads))
    build = LayoutBuilder.before(loop)
    buffers = [MultiBuffer(build, load, stages) for load in async_loads]
    tma = [buffer for buffer in buffers if buffer.tma]
    cp_async = [buffer for buffer in buffers if not buffer.tma]
    copies: list[TmaLoads | CommitGroups] = [TmaLoads(build, tma, stages)] if tma else []
    if cp_async:
        copies.append(CommitGroups(cp_async, stages))
    start = build.constant(0, I32)
    for distance, view in enumerate(prefetch.prologue()):
        for each in copies:
            each.begin(view, start, distance)

    def begin(view: IterationView, args: list[Value]) -> list[Value]:
        (iteration,) = args
        iteration.name = "iteration"
        for each in copies:
            each.begin(view, iteration, stages - 1)
        return [view.build(arith.add, iteration, view.build.constant(1, I32))]

    (body,) = loop.regions
    earlier = top.prev
    (iteration,) = prefetch.steady_state([start], begin)
    at_top = LayoutBuilder(body, body.first if earlier is None else earlier.next, loop.loc)
    for each in copies:
        each.wait(at_top, iteration)
    for buffer in buffers:
        buffer.replace_load(iteration)
    store_alternating(loop, double_buffered, iteration)
    after = LayoutBuilder(build.block, loop.next, loop.loc)
    for each in copies:
        each.end(after)


def _after_first_wgmma(top: Operation, async_loads: Sequence[BufferedLoad]) -> Operation:
    """Return the insertion point of the copies.

    If all are TMA loads, that is after the first wgmma, which then need not wait until they are
    issued; else it is `top`.
    """
    op: Operation | None = top if all(load.tma for load in async_loads) else None
    while op is not None and not op.has_trait(Trait.IN_FLIGHT):
        op = op.next
    return top if op is None or op.next is None else op.next


class CommitGroups:
    """The cp.async copies of a loop, one commit group for each iteration."""

    def __init__(self, buffers: Sequence[MultiBuffer], stages: int) -> None:
        self.buffers = buffers
        self.stages = stages

    def begin(self, view: IterationView, iteration: Value, stage_offset: int) -> None:
        """Issue and commit the copies of an iteration."""
        for buffer in self.buffers:
            _copy(buffer, view, iteration, stage_offset)
        view.build.op(shared.cp_async_commit_group)

    def wait(self, build: LayoutBuilder, iteration: Value) -> None:
        """Wait for the copies of the current iteration."""
        build.op(shared.cp_async_wait_group, pending=self.stages - 2)

    def end(self, build: LayoutBuilder) -> None:
        """Wait for all copies."""
        build.op(shared.cp_async_wait_group, pending=0)


def _copy(buffer: MultiBuffer, view: IterationView, iteration: Value, stage_offset: int) -> None:
    """Issue the copy of one load for an iteration."""
    build, load = view.build, buffer.load
    with build.at(load.loc):
        stage = buffer.stage(build, iteration, stage_offset)
        build.op(
            shared.local_cp_async,
            stage,
            view.value(load["ptr"]),
            iteration_mask(view, load),
            cache=load["cache"],
            eviction=load["eviction"],
        )
