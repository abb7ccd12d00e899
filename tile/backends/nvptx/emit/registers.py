"""Operations on the registers of fragments, and the position of a thread in its program.

Most of them choose from lists of names and emit nothing.
"""

from __future__ import annotations

from tile.backends.nvptx.emit.arith import each
from tile.backends.nvptx.emit.function_builder import FunctionBuilder, Rule
from tile.backends.nvptx.emit.inline_asm import assemble
from tile.codegen import unroll_fragments
from tile.codegen.llvm.types import is_literal, llvm_type
from tile.codegen.unroll_fragments import image_bits, register_offsets, terms, thread_images
from tile.ir.core import OpDef, Operation
from tile.ir.ops import program
from tile.simt import ops
from tile.simt.layouts.linear_layout import LinearLayout

THREAD = "%thread"

_AXES = "xyz"


def program_id(builder: FunctionBuilder, op: Operation) -> None:
    """The number of a program is that of its CTA."""
    builder.set(op, [special(builder, f"ctaid.{_AXES[op['axis']]}")])


def num_programs(builder: FunctionBuilder, op: Operation) -> None:
    """The number of programs is that of CTAs."""
    builder.set(op, [special(builder, f"nctaid.{_AXES[op['axis']]}")])


def special(builder: FunctionBuilder, name: str) -> str:
    """Return a special register."""
    return builder.call(f"@llvm.nvvm.read.ptx.sreg.{name}", "i32")


def warp_index(builder: FunctionBuilder, threads: int) -> str:
    """Return the number of this thread's warp, or of its group of `threads` threads.

    It is read from the first lane, so that ptxas sees that it is uniform across a warp.
    """
    number = builder.hoist(f"lshr i32 {THREAD}, {threads.bit_length() - 1}")
    name = "@llvm.nvvm.shfl.sync.idx.i32"
    builder.module.declare(name, f"declare i32 {name}(i32, i32, i32, i32)")
    return builder.hoist(f"call i32 {name}(i32 -1, i32 {number}, i32 0, i32 31)")


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


def frag_gather(builder: FunctionBuilder, op: Operation) -> None:
    """Select registers by computed indices: halve the candidates by each bit of the index."""
    x, index = op.inputs
    ty = llvm_type(x.type.element)
    registers = builder.of(x)
    results: dict[str, str] = {}
    for number in builder.of(index):
        if number not in results:
            results[number] = _select(builder, ty, registers, number)
    builder.set(op, [results[number] for number in builder.of(index)])


def _select(builder: FunctionBuilder, ty: str, registers: list[str], number: str) -> str:
    bit = 1
    while len(registers) > 1:
        odd = builder.new(f"icmp ne i32 {builder.new(f'and i32 {number}, {bit}')}, 0")
        pairs = zip(registers[::2], [*registers[1::2], registers[-1]], strict=False)
        registers = [
            x if x == y else builder.new(f"select i1 {odd}, {ty} {y}, {ty} {x}") for x, y in pairs
        ]
        bit <<= 1
    return registers[0]


# -- layouts


def layout_index(builder: FunctionBuilder, op: Operation) -> None:
    """Add what the registers contribute to the contribution of the thread, computed once.

    Where the two share no bit, their XOR is a sum that cannot wrap, and the registers'
    contributions become constant offsets of one address.
    """
    layout: LinearLayout = op["layout"]
    thread = opaque_thread(builder) if op["no_cse"] else THREAD
    builder.set(op, layout_index_of(builder, layout, thread))


def layout_index_of(
    builder: FunctionBuilder, layout: LinearLayout, thread: str = THREAD
) -> list[str]:
    """Return the index that a layout gives this thread for each of its registers."""
    images = thread_images(layout)
    base, thread_bits = thread_contribution(builder, images, thread), image_bits(images)
    bases = {0: base}  # by constant: the base XORed with a constant of bits that it may have set
    return [_xor(builder, bases, thread_bits, number) for number in register_offsets(layout)]


def _xor(builder: FunctionBuilder, bases: dict[int, str], thread_bits: int, constant: int) -> str:
    """Return bases[0], whose bits are among `thread_bits`, XORed with a constant."""
    base = bases[0]
    if is_literal(base):
        return str(int(base) ^ constant)
    overlap, disjoint = constant & thread_bits, constant & ~thread_bits
    if overlap not in bases:
        bases[overlap] = builder.new(f"xor i32 {base}, {overlap}")
        builder.constant_xors[bases[overlap]] = base, overlap
    if not disjoint:
        return bases[overlap]
    total = builder.new(f"or disjoint i32 {bases[overlap]}, {disjoint}")
    builder.constant_offsets[total] = bases[overlap], disjoint
    return total


def thread_contribution(
    builder: FunctionBuilder, images: tuple[int, ...], thread: str = THREAD
) -> str:
    """Return the XOR of the images of the bits that are set in the thread's number."""
    all_bits = (1 << len(images)) - 1
    total, thread_bits = "0", 0
    for term in terms(images):
        part = thread if term.mask == all_bits else builder.new(f"and i32 {thread}, {term.mask}")
        if term.shift:
            part = builder.new(
                f"{'shl' if term.shift > 0 else 'lshr'} i32 {part}, {abs(term.shift)}"
            )
        if total == "0":
            total = part
        else:
            kind = "xor" if thread_bits & term.reached else "or disjoint"
            total = builder.new(f"{kind} i32 {total}, {part}")
        thread_bits |= term.reached
    return total


RULES: dict[OpDef, Rule] = {
    **unroll_fragments.RULES,
    program.program_id: program_id,
    program.num_programs: num_programs,
    ops.thread.thread_id: thread_id,
    ops.thread.opaque: opaque,
    ops.thread.frag_gather: frag_gather,
    ops.thread.layout_index: layout_index,
}
