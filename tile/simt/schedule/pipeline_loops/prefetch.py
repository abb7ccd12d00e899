"""Loads one iteration ahead, into registers, and from there to shared memory if it is needed."""

from __future__ import annotations

from collections.abc import Sequence

from tile.ir.core import Operation, Value
from tile.ir.ops import arith
from tile.ir.types import I32
from tile.simt.ops import shared
from tile.simt.ops.layout_inference import LayoutBuilder
from tile.simt.schedule.pipeline_loops.address_slices import (
    BackwardSlice,
    IterationView,
    PrefetchPoint,
    load_for_iteration,
)
from tile.simt.schedule.pipeline_loops.multi_buffer import BufferedLoad, MultiBuffer


def prefetch_to_registers(
    loads: Sequence[Operation], sources: BackwardSlice, top: Operation
) -> None:
    """Load for the next iteration before `top`, and make the loaded tiles loop-carried."""
    prefetch = PrefetchPoint(sources, 1, top)
    (first,) = prefetch.prologue()
    tiles = [load_for_iteration(first, load) for load in loads]
    args = prefetch.steady_state(
        tiles, lambda view, _: [load_for_iteration(view, load) for load in loads]
    )
    for load, value in zip(loads, args, strict=True):
        load.result.replace_by(value)


def prefetch_to_shared(
    shared_loads: Sequence[BufferedLoad], sources: BackwardSlice, stages: int, top: Operation
) -> None:
    """Load for the next iteration before `top`, and store to shared memory at the body's end.

    With two stages, the next iteration's tiles do not overwrite this iteration's, so that one
    barrier an iteration is enough; one stage takes two barriers.
    """
    loop, prefetch = sources.loop, PrefetchPoint(sources, 1, top)
    (body,) = loop.regions
    assert body.last is not None
    build, end = LayoutBuilder.before(loop), LayoutBuilder.before(body.last)
    buffers = [MultiBuffer(build, load, stages) for load in shared_loads]
    start = build.constant(0, I32)
    (first,) = prefetch.prologue()
    tiles = [load_for_iteration(first, buffer.load) for buffer in buffers]
    for buffer, tile in zip(buffers, tiles, strict=True):
        _store(buffer, build, start, 0, tile)

    def load_and_store(view: IterationView, args: list[Value]) -> list[Value]:
        (iteration,) = args
        iteration.name = "iteration"
        for buffer in buffers:
            tile = load_for_iteration(view, buffer.load)
            _store(buffer, end, iteration, 1, tile)
        return [end(arith.add, iteration, end.constant(1, I32))]

    (iteration,) = prefetch.steady_state([start], load_and_store)
    for buffer in buffers:
        buffer.replace_load(iteration)


def _store(
    buffer: MultiBuffer, build: LayoutBuilder, iteration: Value, stage_offset: int, tile: Value
) -> None:
    with build.at(buffer.load.loc):
        build.op(shared.local_store, buffer.stage(build, iteration, stage_offset), tile)
