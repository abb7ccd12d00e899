"""Reassociation of XORs, so that the registers of an index share one part that they compute."""

from __future__ import annotations

from tile.ir.builder import Builder
from tile.ir.core import Operation, Value
from tile.ir.effects import constant_of
from tile.ir.module import Module
from tile.ir.op_definition import Level
from tile.ir.ops import arith
from tile.ir.passes import module_pass
from tile.ir.types import Fragment
from tile.simt import ops
from tile.simt.layouts.dims import REGISTER
from tile.simt.layouts.linear_layout import LinearLayout
from tile.simt.target import GENERIC, SimtTarget


@module_pass("reassociate-xor", before=Level.THREAD)
def reassociate_xor(module: Module, *, target: SimtTarget = GENERIC) -> None:
    """XOR a scalar into the thread's part of an index before the constants of its registers.

    In the block of an fma_dot whose accumulator takes over half of a thread's registers. The
    registers of the index then differ by constants, and share one register of the thread until
    they are used. It costs one more instruction where the scalar is known at last, since a loop was
    unrolled.

        %i = layout_index {layout = #a} : ..    %t = layout_index {layout = #thread} : i32
        %y = frag_splat %s {count = 4} : ..     %u = xor %t, %s : i32
        %x = xor %i, %y : frag<4xi32>           %v = frag_splat %u {count = 4} : frag<4xi32>
        %d = fma_dot ..                         %c = layout_index {layout = #registers} : ..
                                                %x = xor %v, %c : frag<4xi32>
                                                %d = fma_dot ..
    """
    for dot in [op for op in module.walk() if _takes_most_registers(op, target)]:
        assert dot.block is not None
        for op in [op for op in dot.block if op.defn is arith.xor]:
            index, operand = op.inputs
            scalar = ops.thread.splatted(operand)
            if scalar is None or scalar is operand or constant_of(scalar) is not None:
                continue
            if _is_index(index):
                _reassociate(op, scalar)


def _takes_most_registers(op: Operation, target: SimtTarget) -> bool:
    """Return True for an fma_dot whose accumulator takes over half of a thread's registers."""
    if op.defn is not ops.mma.fma_dot:
        return False
    accumulator = op.result.type
    assert isinstance(accumulator, Fragment)
    return 2 * accumulator.count * accumulator.element.bits > 32 * target.registers


def _is_index(value: Value) -> bool:
    op = value.op
    return op is not None and op.defn is ops.thread.layout_index and not op["no_cse"]


def _reassociate(op: Operation, scalar: Value) -> None:
    index = op.inputs[0].op
    assert index is not None
    build, count = Builder.before(op), index["layout"].in_size(REGISTER)
    of_thread, of_registers = _parts(index["layout"])
    thread = Builder.before(index)(ops.thread.layout_index, layout=of_thread)
    total = build(ops.thread.frag_splat, build(arith.xor, thread, scalar), count=count)
    constants = build(ops.thread.layout_index, layout=of_registers)
    op.replace_by([build(arith.xor, total, constants)])


def _parts(layout: LinearLayout) -> tuple[LinearLayout, LinearLayout]:
    """Return a layout of lane and warp alone, and one in which these have no part."""
    threads = [(name, images) for name, images in layout.ins if name != REGISTER]
    none = [(name, (0,) * len(images)) for name, images in threads]
    registers = (REGISTER, layout.images(REGISTER))
    return LinearLayout(tuple(threads), layout.outs), LinearLayout((registers, *none), layout.outs)
