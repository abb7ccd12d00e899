"""Double-buffer the wgmma operands that an iteration computes and stores to shared memory.

A wgmma that stays in flight into the next iteration (`wgmma_overlap`) still reads its operand
there, and the next iteration would overwrite it. If shared memory allows, iterations alternate
between two buffers:

    %y = exp2 %x                              %stage = local_subview %m, %iteration
    %r = wgmma %a, %y, %acc               local_store %stage, %y
    %s = wgmma_wait %r {pending = 0}          %r = wgmma %a, %stage, %acc
                                              %s = wgmma_wait %r {pending = 1}
"""

from __future__ import annotations

from collections.abc import Collection

from tile.ir.core import Operation, Trait, Value
from tile.ir.types import Shared
from tile.simt.hopper.wgmma_operands import stage_operands, staged_operands
from tile.simt.layouts.linear_layout import LinearLayout
from tile.simt.ops import shared
from tile.simt.ops.layout_inference import LayoutBuilder
from tile.simt.schedule.pipeline_loops.buffer_readers import dot_operands
from tile.simt.schedule.pipeline_loops.positions import Position
from tile.simt.schedule.pipeline_loops.wgmma_overlap import all_loop_carried
from tile.simt.schedule.shared_memory import OperandUse


def double_buffered(
    loop: Operation, async_loads: Collection[Operation], shared_loads: Collection[Operation]
) -> list[OperandUse]:
    """Return the operands to double-buffer so that a loop's wgmmas can stay in flight.

    The list is empty if that would not let them stay in flight.

    async_loads: loads that become multi-buffers.
    shared_loads: loads that threads store to buffers of their own, which an iteration may write
        again. wgmmas that read these do not stay in flight.
    """
    body = loop.regions[0]
    in_multi_buffers = _operand_uses(async_loads)
    in_shared_loads = _operand_uses(shared_loads)
    computed = [
        (dot, index)
        for dot in body
        if dot.has_trait(Trait.IN_FLIGHT)
        for index in staged_operands(dot)
        if dot.inputs[index].block is body
        and (dot, index) not in in_multi_buffers | in_shared_loads
    ]
    return computed if all_loop_carried(loop, in_multi_buffers | {*computed}) else []


def _operand_uses(loads: Collection[Operation]) -> set[OperandUse]:
    return {(use.op, use.index) for load in loads for use in dot_operands(load.result)}


def store_alternating(loop: Operation, operands: Collection[OperandUse], at: Position) -> None:
    """Store operands where they are computed, to a stage of a buffer that has two."""

    def store(build: LayoutBuilder, value: Value, layout: LinearLayout) -> Value:
        result = Shared(tuple(value.type.shape), value.type.element, layout, stages=2)
        outside = LayoutBuilder.before(loop)
        with outside.at(build.loc or loop.loc):
            buffer = outside(shared.local_alloc, result=result)
        buffer.name = value.name
        stage = at.stage(build, buffer)
        build.op(shared.local_store, stage, value)
        return stage

    stage_operands(operands, store)
