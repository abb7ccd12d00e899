"""Stage wgmma operands in shared memory: a part of `expose-shared`.

    %r = wgmma %a, %b, %acc {...}         %m = local_alloc : shared<64x64xf16, #a>
                                              local_store %m, %a
                                              ..
                                              %r = wgmma %m, %n, %acc {...}

A tile is stored where it is computed, once for all wgmmas that read it in one layout: a
loop-invariant operand is stored in front of the loop. An `a` operand that has the register layout
of the instruction, and is computed in the same iteration, stays in registers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

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

# Store a tile to a buffer of a layout where a builder is, and return the buffer.
Store = Callable[[LayoutBuilder, Value, LinearLayout], Value]


def stage_wgmma_operands(function: Function) -> None:
    """Replace the tile operands of a function's wgmmas by buffers."""
    dots = [op for op in function.walk() if op.defn is ops.wgmma.wgmma]
    operands = [(op, index) for op in dots for index in staged_operands(op)]
    stage_operands(operands, lambda build, value, layout: build.store(value, layout, value.name))


def stage_operands(operands: Iterable[tuple[Operation, int]], store: Store) -> None:
    """Replace operands of wgmmas, given by their indices, by buffers that `store` makes."""
    buffers: dict[tuple[Value, LinearLayout], Value] = {}
    for op, index in operands:
        value, layout = op.inputs[index], staged_layout(op, index)
        if (value, layout) not in buffers:
            buffers[value, layout] = store(_after(value), value, layout)
        op.set_operand(index, buffers[value, layout])


def staged_operands(op: Operation) -> list[int]:
    """Return the indices of the operands of a `wgmma` that become buffers."""
    in_registers = stays_in_registers(op)
    return [
        index
        for index in (0, 1)
        if isinstance(op.inputs[index].type, Tile) and not (index == 0 and in_registers)
    ]


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


def _after(value: Value) -> LayoutBuilder:
    """Return a builder just after a value is computed."""
    if value.op is not None:
        return LayoutBuilder.after(value.op)
    return LayoutBuilder(value.block, value.block.first)
