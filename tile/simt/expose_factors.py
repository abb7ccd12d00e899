"""Factors of `group_dot` that are tiles become buffers: a part of `expose-shared`.

    %r = group_dot %a, %b, %acc {...}         %m = alloc : shared<64x64xf16, #a>
                                              local_store %m, %a
                                              ..
                                              %r = group_dot %m, %n, %acc {...}

A tile is stored where it is made, once for all products that read it in one layout: what is made in
front of a loop is stored there. A left factor that is as the instruction takes it from registers
stays in these.
"""

from __future__ import annotations

from tile.errors import CompilationError
from tile.ir.core import Function, Operation, Value
from tile.ir.types import Shared, Tile
from tile.simt import ops
from tile.simt.group_layouts import factor_along, run_axis, stays_in_registers
from tile.simt.layout_rules import LayoutBuilder, layout_of
from tile.simt.layouts.fragments import Operand
from tile.simt.layouts.layout import LinearLayout


def store_factors(function: Function) -> None:
    """Make the factors of a function's products buffers."""
    buffers: dict[tuple[Value, LinearLayout], Value] = {}
    for op in list(function.walk()):
        if op.defn is ops.group.group_dot:
            for index in stored_factors(op):
                _store(op, index, buffers)


def stored_factors(op: Operation) -> list[int]:
    """Which operands of a `group_dot` are to become buffers."""
    in_registers = stays_in_registers(op)
    return [
        index
        for index in (0, 1)
        if isinstance(op.inputs[index].type, Tile) and not (index == 0 and in_registers)
    ]


def _store(op: Operation, index: int, buffers: dict[tuple[Value, LinearLayout], Value]) -> None:
    value = op.inputs[index]
    layout = stored_layout(op, index)
    known = buffers.get((value, layout))
    if known is None:
        known = buffers[value, layout] = _stored(value, layout)
    op.set_operand(index, known)


def stored_layout(op: Operation, index: int) -> LinearLayout:
    """The layout of a factor's buffer: neighbours of a thread side by side, if that can be read."""
    value, operand = op.inputs[index], (Operand.LEFT, Operand.RIGHT)[index]
    assert isinstance(value.type, Tile)
    along = run_axis(layout_of(value))
    for axis in (along, 1 - along):
        found = factor_along(op, operand, value.type, axis)
        if found is not None:
            return found
    raise CompilationError(f"no buffer of {value.type} is read by group_dot", loc=op.loc)


def _stored(value: Value, layout: LinearLayout) -> Value:
    made, block = value.op, value.block
    build = LayoutBuilder(block, block.first if made is None else made.next)
    build.loc = made.loc if made is not None else None
    ty = value.type
    mem = build(ops.shared.alloc, result=Shared(tuple(ty.shape), ty.element, layout))
    build.op(ops.shared.local_store, mem, value)
    mem.name = value.name
    return mem
