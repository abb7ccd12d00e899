"""Emit operations on the registers of fragments, and indices that layouts give a thread.

Most of them choose from lists of names and emit nothing.
"""

from __future__ import annotations

from tile.codegen import emitter
from tile.codegen.emitter import register_offsets, thread_images
from tile.codegen.llvm.function_builder import THREAD, FunctionBuilder, Rule
from tile.codegen.llvm.types import is_literal, llvm_type
from tile.ir.core import Operation
from tile.ir.op_definition import OpDef
from tile.simt import ops
from tile.simt.layouts.f2 import terms, union
from tile.simt.layouts.linear_layout import LinearLayout


def thread_id(builder: FunctionBuilder, op: Operation) -> None:
    """The number of the thread is there from the start of a function."""
    builder.set(op, [THREAD])


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
    builder.set(op, layout_index_of(builder, op["layout"]))


def layout_index_of(
    builder: FunctionBuilder, layout: LinearLayout, thread: str = THREAD
) -> list[str]:
    """Return the index that a layout gives this thread for each of its registers."""
    images = thread_images(layout)
    base, thread_bits = thread_contribution(builder, images, thread), union(images)
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
    **emitter.RULES,
    ops.thread.thread_id: thread_id,
    ops.thread.frag_gather: frag_gather,
    ops.thread.layout_index: layout_index,
}
