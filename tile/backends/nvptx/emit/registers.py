"""Operations on the registers of fragments, shuffles, and the position of a thread in its program.

Most of the first choose from lists of names and emit nothing. Shuffles move 32-bit registers
between the lanes of a warp.
"""

from __future__ import annotations

from collections.abc import Callable

from tile.backends.nvptx.emit.function_builder import FunctionBuilder
from tile.backends.nvptx.emit.inline_asm import assemble
from tile.backends.nvptx.emit.vectors import (
    as_integers,
    from_integers,
    pack,
    unpack,
)
from tile.codegen.llvm import registers as llvm
from tile.codegen.llvm.arith import each
from tile.codegen.llvm.function_builder import THREAD, Rule
from tile.codegen.llvm.memory import from_memory, to_memory
from tile.codegen.llvm.types import is_literal, llvm_type
from tile.ir.core import Operation
from tile.ir.op_definition import OpDef
from tile.ir.ops import program
from tile.ir.ops.reduce import ReduceKind
from tile.ir.types import F32, I1, I8, Pointer, Scalar, number_of
from tile.simt import ops

LAST_LANE = 31
LAUNCH_DEPENDENTS = 'call void asm sideeffect "griddepcontrol.launch_dependents;", "~{memory}"()'
Move = Callable[[str], str]


def shuffle_idx(builder: FunctionBuilder, op: Operation) -> None:
    """Read the register of a lane given by number."""
    lane = builder.scalar(op.inputs[1])
    _move_registers(builder, op, lambda register: _sync(builder, "idx", register, lane))


def shuffle_xor(builder: FunctionBuilder, op: Operation) -> None:
    """Read the register of the lane whose number differs by XOR with a mask."""
    _move_registers(builder, op, lambda register: _sync(builder, "bfly", register, str(op["mask"])))


def warp_reduce(builder: FunctionBuilder, op: Operation) -> None:
    """Emit one `redux` for each register."""
    element = number_of(op.result.type)
    ty, kind = llvm_type(element), _REDUX.get(op["kind"], str(op["kind"]))
    suffix = "b32"
    if kind in ("add", "min", "max"):
        suffix = "f32" if element is F32 else "s32" if element.is_int_signed() else "u32"
    nan = ".NaN" if op["propagate_nan"] and element is F32 else ""
    text = f"redux.sync.{kind}{nan}.{suffix} $0, $1, -1;"

    def combine(x: str) -> str:
        return assemble(builder, text, [ty], [(ty, x)], convergent=True)[0]

    builder.set(op, [combine(x) for x in builder.of(op.inputs[0])])


_REDUX = {ReduceKind.SUM: "add"}


def _sync(builder: FunctionBuilder, kind: str, register: str, lane: str) -> str:
    operands = (("i32", "-1"), ("i32", register), ("i32", lane), ("i32", str(LAST_LANE)))
    return builder.call(f"@llvm.nvvm.shfl.sync.{kind}.i32", "i32", *operands, pure=False)


def _move_registers(builder: FunctionBuilder, op: Operation, move: Move) -> None:
    x = op.inputs[0]
    element: Scalar | Pointer = x.type.element
    registers = builder.of(x)
    per_register = 32 // element.storage_bits
    packed_count = len(registers) - len(registers) % per_register if per_register > 1 else 0
    results: list[str] = []
    if packed_count:
        moved = [move(register) for _, register in pack(builder, element, registers[:packed_count])]
        results = unpack(builder, element, moved)
    for register in registers[packed_count:]:
        results.append(_move_element(builder, element, register, move))
    builder.set(op, results)


def _move_element(
    builder: FunctionBuilder, element: Scalar | Pointer, register: str, move: Move
) -> str:
    """Move an element of 32 bits or more, or one that is left over from packing."""
    stored = I8 if element is I1 else element
    (register,) = to_memory(builder, element, [register])
    moved = [move(register) for register in as_integers(builder, stored, register)]
    return from_memory(builder, element, [from_integers(builder, stored, moved)])[0]


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


def launch_dependents(builder: FunctionBuilder, op: Operation) -> None:
    """Let the next launch begin, if this one may overlap with it."""
    if builder.module.dependent_launch:
        builder.do(LAUNCH_DEPENDENTS)


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
    program.launch_dependents: launch_dependents,
    program.num_programs: num_programs,
    ops.thread.thread_id: thread_id,
    ops.thread.opaque: opaque,
    ops.thread.layout_index: layout_index,
    ops.thread.shuffle_idx: shuffle_idx,
    ops.thread.shuffle_xor: shuffle_xor,
    ops.thread.warp_reduce: warp_reduce,
}
