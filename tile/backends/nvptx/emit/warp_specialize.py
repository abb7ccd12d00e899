"""Warp specialization: the producer's code, the registers of each partition's threads, and order.

The warps behind those of the program branch to the producer's code; its first warp runs it, and all
exit at its end. `setmaxnreg` moves registers from them to the program (PTX ISA, "setmaxnreg").

Warpgroups of the program are ordered by named barriers, one for each to wait on.
"""

from __future__ import annotations

from tile.backends.nvptx.emit.function_builder import FunctionBuilder
from tile.backends.nvptx.emit.inline_asm import assemble
from tile.backends.nvptx.emit.registers import warp_index
from tile.backends.nvptx.target import WARP
from tile.codegen.llvm.function_builder import Rule
from tile.ir.core import Operation
from tile.ir.op_definition import OpDef
from tile.simt import ops
from tile.simt.ops.order import ALL
from tile.simt.ops.warp_specialize import WARPGROUP_WARPS


def warp_specialize(builder: FunctionBuilder, op: Operation) -> None:
    """Branch by the warp's number; the program's code follows."""
    producer, run, end, program = map(builder.label, ("producer", "run", "end", "program"))
    warps = builder.module.threads // WARP
    warp = warp_index(builder, WARP)
    producer_registers, program_registers = op["registers"]
    builder.branch(builder.new(f"icmp uge i32 {warp}, {warps}"), producer, program)
    builder.start_block(producer)
    with builder.dominance_scope():
        _set_registers(builder, "dec", producer_registers)
        builder.branch(builder.new(f"icmp eq i32 {warp}, {warps}"), run, end)
        builder.start_block(run)
        builder.in_producer = True
        builder.emit(op.regions[0])
        builder.in_producer = False
        builder.jump(end)
    builder.start_block(end)
    builder.do("ret void")
    builder.start_block(program)
    _set_registers(builder, "inc", program_registers)
    builder.in_program = True


def _set_registers(builder: FunctionBuilder, change: str, count: int) -> None:
    if builder.module.options.maxnreg is not None:  # which all threads keep
        return
    name = f"@llvm.nvvm.setmaxnreg.{change}.sync.aligned.u32"
    builder.call(name, "void", ("i32", str(count)))


_WARPGROUP = WARPGROUP_WARPS * WARP
_FIRST_BARRIER = 2  # after those of all warps, and of the program's
_MOST_WARPGROUPS = 4


def order_wait(builder: FunctionBuilder, op: Operation) -> None:
    """Wait on the barrier of this warpgroup."""
    _order(builder, op, "sync", warp_index(builder, _WARPGROUP))


def order_arrive(builder: FunctionBuilder, op: Operation) -> None:
    """Arrive on the barrier of the next warpgroup."""
    last = builder.module.threads // _WARPGROUP - 1
    group = warp_index(builder, _WARPGROUP)
    is_last = builder.new(f"icmp eq i32 {group}, {last}")
    following = builder.new(f"add i32 {group}, 1")
    _order(builder, op, "arrive", builder.new(f"select i1 {is_last}, i32 0, i32 {following}"))


def _order(builder: FunctionBuilder, op: Operation, verb: str, group: str) -> None:
    only = op["only"]
    guard = "true"
    if only != ALL:
        guard = builder.new(f"icmp eq i32 {warp_index(builder, _WARPGROUP)}, {only}")
    number = builder.new(f"add i32 {group}, {_FIRST_BARRIER}")
    text = f"barrier.cta.{verb}.aligned $0, {2 * _WARPGROUP};"
    assemble(builder, text, [], [("i32", number)], guard=guard, memory=True, convergent=True)


def warpgroup_barrier(builder: FunctionBuilder, op: Operation) -> None:
    """Wait on a barrier of this warpgroup's own."""
    first = _FIRST_BARRIER + _MOST_WARPGROUPS
    number = builder.new(f"add i32 {warp_index(builder, _WARPGROUP)}, {first}")
    text = f"barrier.cta.sync.aligned $0, {_WARPGROUP};"
    assemble(builder, text, [], [("i32", number)], memory=True, convergent=True)


RULES: dict[OpDef, Rule] = {
    ops.warp_specialize.warp_specialize: warp_specialize,
    ops.order.order_wait: order_wait,
    ops.order.order_arrive: order_arrive,
    ops.order.warpgroup_barrier: warpgroup_barrier,
}
