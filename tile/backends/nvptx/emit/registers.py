"""Operations on the registers of fragments, and the position of a thread in its program.

Most of them choose from lists of names and emit nothing.
"""

from __future__ import annotations

from tile.backends.nvptx.emit.function_builder import FunctionBuilder
from tile.backends.nvptx.emit.inline_asm import assemble
from tile.codegen.llvm import registers as llvm
from tile.codegen.llvm.arith import each
from tile.codegen.llvm.function_builder import THREAD, Rule
from tile.codegen.llvm.types import is_literal, llvm_type
from tile.ir.core import Operation
from tile.ir.op_definition import OpDef
from tile.ir.ops import program
from tile.simt import ops

_AXES = "xyz"


def program_id(builder: FunctionBuilder, op: Operation) -> None:
    """Read the number of the CTA, which is that of the program."""
    builder.set(op, [special(builder, f"ctaid.{_AXES[op['axis']]}")])


def num_programs(builder: FunctionBuilder, op: Operation) -> None:
    """Read the number of CTAs, which is that of programs."""
    builder.set(op, [special(builder, f"nctaid.{_AXES[op['axis']]}")])


def multiprocessor_id(builder: FunctionBuilder, op: Operation) -> None:
    """The number of the multiprocessor, which is the same for all threads of a CTA."""
    builder.set(op, [special(builder, "smid")])


def global_timer(builder: FunctionBuilder, op: Operation) -> None:
    """Read the timer at this place, neither earlier nor from an earlier value."""
    text = "mov.u64 $0, %globaltimer;"
    builder.set(op, assemble(builder, text, ["i64"], [], memory=True))


def special(builder: FunctionBuilder, name: str) -> str:
    """Return a special register."""
    return builder.call(f"@llvm.nvvm.read.ptx.sreg.{name}", "i32")


def warp_index(builder: FunctionBuilder, threads: int) -> str:
    """Return the number of this thread's warp, or of its group of `threads` threads.

    It is read from the first lane, so that ptxas sees that it is uniform across a warp.
    """
    number = builder.in_prologue(f"lshr i32 {THREAD}, {threads.bit_length() - 1}")
    name = "@llvm.nvvm.shfl.sync.idx.i32"
    builder.module.declare(name, f"declare i32 {name}(i32, i32, i32, i32)")
    return builder.in_prologue(f"call i32 {name}(i32 -1, i32 {number}, i32 0, i32 31)")


def thread_id(builder: FunctionBuilder, op: Operation) -> None:
    """The number of the thread, which every function reads at its top."""
    builder.set(op, [opaque_thread(builder) if op["no_cse"] else THREAD])


def opaque_thread(builder: FunctionBuilder) -> str:
    """Return the thread's number as a new value that LLVM and ptxas do not recognize.

    Otherwise they would keep in registers what they once computed from it. ptxas sees through
    moves, but not through a shuffle, even one of each lane with itself.
    """
    text = "shfl.sync.bfly.b32 $0, $1, 0, 31, -1;"
    return builder.cached(
        builder.block,
        lambda: assemble(builder, text, ["i32"], [("i32", THREAD)], convergent=True)[0],
    )


def opaque(builder: FunctionBuilder, op: Operation) -> None:
    """Move each register by inline PTX, which LLVM does not see through."""
    ty = llvm_type(op.result.type.element)

    def move(x: str) -> str:
        source, operands = (x, []) if is_literal(x) else ("$1", [(ty, x)])
        return assemble(builder, f"mov.b{ty[1:]} $0, {source};", [ty], operands)[0]

    each(builder, op, move)


def layout_index(builder: FunctionBuilder, op: Operation) -> None:
    """Add what the registers contribute to the contribution of the thread."""
    thread = opaque_thread(builder) if op["no_cse"] else THREAD
    builder.set(op, llvm.layout_index_of(builder, op["layout"], thread))


RULES: dict[OpDef, Rule] = {
    **llvm.RULES,
    program.program_id: program_id,
    program.multiprocessor_id: multiprocessor_id,
    program.global_timer: global_timer,
    program.num_programs: num_programs,
    ops.thread.thread_id: thread_id,
    ops.thread.opaque: opaque,
    ops.thread.layout_index: layout_index,
}
