"""Warp specialization: the producer's code, and the registers of each partition's threads.

The warps behind those of the program branch to the producer's code; its first warp runs it, and all
exit at its end. `setmaxnreg` moves registers from them to the program (PTX ISA, "setmaxnreg").
"""

from __future__ import annotations

from tile.backends.nvptx.emit.function_builder import FunctionBuilder
from tile.backends.nvptx.emit.registers import warp_index
from tile.backends.nvptx.target import WARP
from tile.codegen.llvm.function_builder import Rule
from tile.ir.core import OpDef, Operation
from tile.simt import ops


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


RULES: dict[OpDef, Rule] = {ops.warp_specialize.warp_specialize: warp_specialize}
