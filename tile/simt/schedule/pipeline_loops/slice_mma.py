"""Dots of mma instructions, of which an iteration leaves the last k-slice to the next one.

Warps wait together for the tiles of an iteration. Then all of them load operands from shared
memory before any has some to multiply, and the tensor cores are idle. So the operands of the last
slice stay in registers, and are multiplied while those of the next iteration are loaded:

    %a = local_load %m                        %a0 = local_load_slice %m, %0 {axis = -1}
    %b = local_load %n                        %b0 = local_load_slice %n, %0 {axis = -2}
    %d = mma_dot %a, %b, %c                   %a1 = local_load_slice %m, %1 {axis = -1}
    yield %d                                  %b1 = local_load_slice %n, %1 {axis = -2}
                                              %d0 = mma_dot %a0, %b0, %c
                                              %d = mma_dot %a1, %b1, %d0 {schedule = (1, 1)}
                                              yield %d

Copies for later iterations are issued after the loads of the first slice, for which warps wait.
Sums stay in the order of k. docs/notes/scheduling.md has figures.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import starmap
from typing import NamedTuple

from tile.ir.core import Operation, Value
from tile.ir.shared_type import Shared
from tile.ir.types import I32, Tile, number_of, with_layout, with_shape
from tile.simt import ops
from tile.simt.layouts.axes import unsliced
from tile.simt.layouts.dims import WARP
from tile.simt.layouts.linear_layout import LinearLayout
from tile.simt.layouts.mma_fragments import MmaShape, Operand, matrix_layout
from tile.simt.layouts.shared_access import ldmatrix_access, shared_access
from tile.simt.ops.layout_inference import LayoutBuilder, layout_of, register_count
from tile.simt.ops.thread import is_ldmatrix_element
from tile.simt.schedule.buffered_operands import RELABELED, BufferedOperand
from tile.simt.schedule.dot_slices import K_AXES
from tile.simt.schedule.pipeline_loops.loop_schedule import LoopSchedule, Point, Rank
from tile.simt.schedule.pipeline_loops.wgmma_overlap import only_accumulates
from tile.simt.schedule.resources import Resources

# The most bytes of k of a slice: 1024 cubed of f64 in steps of 32 elements takes 44.7 us in slices
# of 128 bytes, 44.1 of 64 (H200, 2026-11-30).
SLICE_BYTES = 64
# Registers of a thread besides sums and slices, of which two are live, and three with a deferred
# one (ptxas 13.0, sm_90: 127 and 158 to 174 for 64 and 24). A program that is alone then loses more
# than it gains: int8 by 128 x 128 x 64 with 8 warps, 4096 cubed, 199 us and 226, f16 by 128 x 128 x
# 64 349 and 364 (H200, without wgmma, 2026-11-30).
OTHERS, DEFERRED_OTHERS = 16, 24
# With more registers, ptxas 13.0 spills where copies are issued between slices, so that they follow
# the first one: f16 by 128 x 128 x 32 with 4 warps takes 308 us so, 320 as a whole. More than two
# slices do not pay then: f64 by 128 x 64 x 32 with 4 warps takes 2777 us, 2561 as a whole.
MOST_REGISTERS = 240
# Of more slices the last one is too little: a convolution by 16 x 64 x 256 with 4 warps takes 11.8
# us as a whole, and more than 13.3 in 16 slices.
MOST_SLICES = 8


def defer_last_slice(loop: Operation, schedule: LoopSchedule, resources: Resources) -> Point | None:
    """Slice the dot of a loop along k, and defer its last slice.

    That is the loop's only dot, of tiles in buffers, whose result it only carries on. Returns the
    point at which copies for later iterations delay no loads of the first slice; None if there is
    no such dot, or if it stays as it is.
    """
    (body,) = loop.regions
    dots = [op for op in body if op.defn is ops.mma.mma_dot]
    if len(dots) != 1 or not only_accumulates(dots[0], dots[0].result):
        return None
    plan = _plan(dots[0], loop, resources)
    operands = [BufferedOperand.of(value, RELABELED) for value in dots[0].inputs[: len(K_AXES)]]
    sources = [source for source in operands if source is not None and source.is_single]
    if plan is None or len(sources) < len(operands):
        return None
    build = LayoutBuilder.before(dots[0])
    buffers = [source.buffer(build) for source in sources]
    if any(starmap(partial(_conflict, dots[0], plan.instruction, resources), enumerate(buffers))):
        return None
    loads, slices = _slices(build, dots[0], buffers, plan.instruction)
    for source in sources:
        source.erase()
    schedule.add(Point(loads), Rank.DEFERRED_DOTS, 1, [slices[-1]])
    return Point(slices[0], after=True) if plan.is_tight else Point(loads)


class _Plan(NamedTuple):
    """The instruction of a slice. is_tight: registers hardly hold three slices."""

    instruction: MmaShape
    is_tight: bool


def _plan(dot: Operation, loop: Operation, resources: Resources) -> _Plan | None:
    """Return how a dot is sliced; None if it cannot be, or if that does not pay."""
    a, b, acc = dot.inputs
    target, extent, element = resources.target, a.type.shape[-1], number_of(a.type)
    m, n, k, _ = dot["shape"]
    instructions = [
        instruction
        for instruction in target.mma_shapes
        if (instruction.m, instruction.n) == (m, n)
        and 2 * instruction.k <= extent <= MOST_SLICES * instruction.k
        and instruction.k <= k
        and element.bytes_of(instruction.k) <= SLICE_BYTES
        and target.has_mma(instruction, element)
    ]
    # Where several warps have the same sums: 16 x 16 x 128, 4 warps, 13.0 us as a whole and 14.1.
    if not instructions or not all(layout_of(acc).images(WARP)):
        return None
    largest = max(instructions, key=lambda instruction: instruction.k)
    warps, sums = layout_of(acc).in_size(WARP), register_count(acc)
    operands = (register_count(a) + register_count(b)) * largest.k // extent
    before, after = sums + 2 * operands + OTHERS, sums + 3 * operands + DEFERRED_OTHERS

    def programs(registers: int) -> int:
        each = min(registers, target.registers) * warps * target.warp_size
        return resources.programs(resources.shared.loops.get(loop, 0), each)

    isolated = programs(after) == 1 < programs(before)
    is_tight = after > MOST_REGISTERS
    if isolated or (is_tight and extent > 2 * largest.k):
        return None
    spills = resources.would_spill(sums + 2 * operands, warps)
    return None if spills else _Plan(largest, is_tight)


def _conflict(
    dot: Operation, instruction: MmaShape, resources: Resources, at: int, mem: Value
) -> bool:
    """Return True if slices of an operand take more wavefronts to load than all of it at once.

    Layouts of buffers are chosen for the latter. ldmatrix has no conflicts.
    """
    held, whole, banks = mem.type, layout_of(dot.inputs[at]), resources.target.banks
    slice_layout = _slice_type(dot, instruction, at).layout
    assert isinstance(held, Shared)
    assert isinstance(slice_layout, LinearLayout)
    bits, buffer = held.element.storage_bits, held.layout
    assert isinstance(buffer, LinearLayout)
    by_ldmatrix = resources.target.has_ldmatrix and is_ldmatrix_element(held.of)
    if by_ldmatrix and ldmatrix_access(whole, buffer, bits) is not None:
        return False

    def wavefronts(layout: LinearLayout) -> int:
        access = shared_access(layout, buffer, bits, banks)
        each, _ = access.wavefronts_each(bits, banks)
        return each * len(access.registers) * access.offsets.in_size(WARP)

    return wavefronts(unsliced(slice_layout, K_AXES[at], held.shape)) > wavefronts(whole)


def _slices(
    build: LayoutBuilder, dot: Operation, buffers: Sequence[Value], instruction: MmaShape
) -> tuple[Operation, Sequence[Operation]]:
    """Replace a dot by those of its slices; return the first load of the second, and the dots."""
    count, total = dot.inputs[0].type.shape[-1] // instruction.k, dot.inputs[2]
    operands = [_loaded_slice(build, dot, buffers, instruction, at) for at in range(count)]
    attributes = {**dot.attributes, "shape": instruction}
    dots = []
    for pair in operands:
        dots.append(build.op(dot.defn, *pair, total, **attributes))
        total = dots[-1].result
    total.name = dot.result.name
    dot.replace_by([total])
    second = operands[1][0].op
    assert second is not None
    return second, dots


def _loaded_slice(
    build: LayoutBuilder,
    dot: Operation,
    buffers: Sequence[Value],
    instruction: MmaShape,
    number: int,
) -> Sequence[Value]:
    """Load slice number `number` of the operands of a dot from their buffers."""
    index = build.constant(number, I32)
    return [
        build(
            *(ops.shared.local_load_slice, mem, index),
            axis=K_AXES[at],
            result=_slice_type(dot, instruction, at),
        )
        for at, mem in enumerate(buffers)
    ]


def _slice_type(dot: Operation, instruction: MmaShape, at: int) -> Tile:
    """Return the type of a slice of an operand."""
    value = dot.inputs[at]
    extents = [*value.type.shape]
    extents[K_AXES[at]] = instruction.k
    layout = matrix_layout(extents, instruction, [*Operand][at], dot["warps"])
    ty = with_layout(with_shape(tuple(extents), value.type.element), layout)
    assert isinstance(ty, Tile)
    return ty
