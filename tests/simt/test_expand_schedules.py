"""Loops compute the same whatever their schedule is."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.sampling import examples
from tests.simt.pipeline_loops.copying import run
from tests.simt.pipeline_loops.dots import Dot
from tests.simt.test_pipeline_loops import BOUNDS, arguments_of, parsed
from tile.ir.core import Operation
from tile.ir.module import Module
from tile.ir.op_definition import Level
from tile.ir.ops import control, dot, memory
from tile.ir.verifier import verify
from tile.simt.ops import shared
from tile.simt.schedule.expand_schedules import expand_schedules
from tile.simt.schedule.pipeline_loops import pipeline_loops
from tile.simt.target import CP_ASYNC

ORDERS = st.integers(-1, 3)


def loop_of(module: Module) -> Operation:
    (loop,) = [op for op in module.walk() if op.defn is control.for_]
    return loop


def schedule_copies(loop: Operation, stages: int, data: Any) -> None:
    """Draw when copies run, and when what reads them does, within the stages of their buffers."""
    deferred = stages > 1 and data.draw(st.booleans(), "deferred")
    distance = data.draw(st.integers(0, stages - 1 - deferred), "distance")
    copied = data.draw(ORDERS, "order of copies")
    read = data.draw(ORDERS, "order of reads")
    for op in loop.regions[0]:
        if op.defn in (shared.local_cp_async, shared.cp_async_commit_group):
            # Copies of this iteration come before its reads.
            op.schedule = -distance, copied if distance else -2
        elif op.defn is shared.cp_async_wait_group:
            op.schedule = 0, -2 + (not distance)
        elif op.defn in (shared.local_load, dot.dot):
            in_next = deferred and (op.defn is dot.dot or data.draw(st.booleans(), "late read"))
            op.schedule = int(in_next), read if not in_next else data.draw(ORDERS, "order")
    if deferred:  # a dot follows what it reads, if that runs in the same iteration
        order = max(op.schedule[1] for op in loop.regions[0] if op.schedule and op.schedule[0] > 0)
        for op in loop.regions[0]:
            if op.defn is dot.dot:
                op.schedule = 1, order


def schedule_loads(loop: Operation, data: Any) -> None:
    """Draw when loads to registers run."""
    for op in loop.regions[0]:
        if op.defn is memory.load:
            op.schedule = -data.draw(st.integers(0, 3), "distance"), data.draw(ORDERS, "order")
        elif op.defn is dot.dot:
            op.schedule = data.draw(st.integers(0, 1), "deferred"), 4


@examples(12)
@given(data=st.data())
def test_any_schedule_has_the_same_results(data: Any) -> None:
    """The interpreter completes copies as late as it may, and finds stages that are overwritten."""
    bounds = data.draw(st.sampled_from(BOUNDS[:8]))
    form = Dot(carried=data.draw(st.booleans()), masked=True)
    copies = data.draw(st.booleans(), "copies")
    stages = data.draw(st.integers(2, 4), "stages")
    module = parsed(form)
    if copies:
        pipeline_loops(module, target=CP_ASYNC, num_stages=stages)
        schedule_copies(loop_of(module), stages, data)
    else:
        schedule_loads(loop_of(module), data)
    expand_schedules(module)
    verify(module, Level.LAID_OUT)
    assert all(op.schedule is None for op in module.walk())
    wanted, actual = arguments_of(form, bounds), arguments_of(form, bounds)
    run(parsed(form), wanted)
    run(module, actual)
    assert np.array_equal(wanted[2], actual[2])
