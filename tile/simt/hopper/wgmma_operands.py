"""Stage wgmma operands in shared memory: a part of `expose-shared`.

    %r = wgmma %a, %b, %acc {...}         %m = local_alloc : shared<64x64xf16, #a>
                                              local_store %m, %a
                                              ..
                                              %r = wgmma %m, %n, %acc {...}

A tile is stored where it is computed, once for all wgmmas that read it in one layout: a
loop-invariant operand is stored in front of the loop. An `a` operand that has the register layout
of the instruction stays in registers.
"""

from __future__ import annotations

from tile.errors import CompilationError
from tile.ir.core import Function, Operation, Value
from tile.ir.types import Tile
from tile.simt import ops
from tile.simt.hopper.wgmma_layouts import (
    contiguous_axis,
    stays_in_registers,
    wgmma_buffer_layout,
)
from tile.simt.layouts.linear_layout import LinearLayout
from tile.simt.layouts.mma_fragments import Operand
from tile.simt.ops.layout_inference import LayoutBuilder, layout_of


def stage_wgmma_operands(function: Function) -> None:
    """Replace the tile operands of a function's wgmmas by buffers."""
    buffers: dict[tuple[Value, LinearLayout], Value] = {}
    for op in list(function.walk()):
        if op.defn is ops.wgmma.wgmma:
            for index in staged_operands(op):
                _store(op, index, buffers)


def staged_operands(op: Operation) -> list[int]:
    """Return the indices of the operands of a `wgmma` that become buffers."""
    in_registers = stays_in_registers(op)
    return [
        index
        for index in (0, 1)
        if isinstance(op.inputs[index].type, Tile) and not (index == 0 and in_registers)
    ]


def _store(op: Operation, index: int, buffers: dict[tuple[Value, LinearLayout], Value]) -> None:
    value = op.inputs[index]
    layout = staged_layout(op, index)
    mem = buffers.get((value, layout))
    if mem is None:
        mem = buffers[value, layout] = _stored(value, layout)
    op.set_operand(index, mem)


def staged_layout(op: Operation, index: int) -> LinearLayout:
    """Return the layout of an operand's buffer: contiguous as in threads, if wgmma reads that."""
    value, operand = op.inputs[index], (Operand.LEFT, Operand.RIGHT)[index]
    assert isinstance(value.type, Tile)
    along = contiguous_axis(layout_of(value))
    for axis in (along, 1 - along):
        buffer_layout = wgmma_buffer_layout(op, operand, value.type, axis)
        if buffer_layout is not None:
            return buffer_layout
    raise CompilationError(f"no buffer of {value.type} is read by wgmma", loc=op.loc)


def _stored(value: Value, layout: LinearLayout) -> Value:
    made, block = value.op, value.block
    build = LayoutBuilder(block, block.first if made is None else made.next)
    build.loc = made.loc if made is not None else None
    return build.store(value, layout, value.name)
