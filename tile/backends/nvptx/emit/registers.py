"""Fragments as lists of registers, and where a thread is in its program: no moves at all."""

from __future__ import annotations

from tile.backends.nvptx.emit.assembler import assemble
from tile.backends.nvptx.emit.body import Body, Rule
from tile.backends.nvptx.emit.types import is_literal, llvm_type
from tile.ir.core import Operation
from tile.ir.opdef import OpDef
from tile.ir.ops import program
from tile.simt import ops, unrolling
from tile.simt.layouts.layout import LinearLayout
from tile.simt.unrolling import reached_by, register_offsets, terms, thread_images

THREAD = "%thread"

_AXES = "xyz"


def program_id(body: Body, op: Operation) -> None:
    """The number of a block of threads."""
    body.set(op, [special(body, f"ctaid.{_AXES[op['axis']]}")])


def num_programs(body: Body, op: Operation) -> None:
    """How many blocks of threads there are."""
    body.set(op, [special(body, f"nctaid.{_AXES[op['axis']]}")])


def special(body: Body, name: str) -> str:
    """A special register."""
    return body.call(f"@llvm.nvvm.read.ptx.sreg.{name}", "i32")


def of_warp(body: Body, threads: int) -> str:
    """The number of this thread's warp, or of its group of so many threads.

    It is taken from the first lane, so that the assembler sees that a warp has one.
    """
    number = body.first(f"lshr i32 {THREAD}, {threads.bit_length() - 1}")
    name = "@llvm.nvvm.shfl.sync.idx.i32"
    body.module.declare(name, f"declare i32 {name}(i32, i32, i32, i32)")
    return body.first(f"call i32 {name}(i32 -1, i32 {number}, i32 0, i32 31)")


def thread_id(body: Body, op: Operation) -> None:
    """The number of the thread, which every function reads at its top."""
    body.set(op, [number_again(body) if op["again"] else THREAD])


def number_again(body: Body) -> str:
    """The thread's number, of which LLVM and the assembler do not know that they have it.

    Else they would keep what they once computed from it in registers. The assembler sees through
    moves, but not through what lanes hand to each other, though it be to themselves.
    """
    text = "shfl.sync.bfly.b32 $0, $1, 0, 31, -1;"
    return body.once(
        body.block, lambda: assemble(body, text, ["i32"], [("i32", THREAD)], convergent=True)[0]
    )


def pick_by(body: Body, op: Operation) -> None:
    """Registers by numbers that are computed: halved by one bit of the number after the other."""
    x, index = op.inputs
    ty = llvm_type(x.type.element)
    registers = body.of(x)
    results: dict[str, str] = {}
    for number in body.of(index):
        if number not in results:
            results[number] = _picked(body, ty, registers, number)
    body.set(op, [results[number] for number in body.of(index)])


def _picked(body: Body, ty: str, registers: list[str], number: str) -> str:
    bit = 1
    while len(registers) > 1:
        odd = body.new(f"icmp ne i32 {body.new(f'and i32 {number}, {bit}')}, 0")
        pairs = zip(registers[::2], [*registers[1::2], registers[-1]], strict=False)
        registers = [
            x if x == y else body.new(f"select i1 {odd}, {ty} {y}, {ty} {x}") for x, y in pairs
        ]
        bit <<= 1
    return registers[0]


# -- layouts


def linear_index(body: Body, op: Operation) -> None:
    """What the thread's number contributes, once, and then the registers'.

    Where no bit is in both, their XOR is a sum that cannot wrap, so that the registers' parts
    become offsets of one address.
    """
    layout: LinearLayout = op["layout"]
    thread = number_again(body) if op["again"] else THREAD
    body.set(op, linear_index_of(body, layout, thread))


def linear_index_of(body: Body, layout: LinearLayout, thread: str = THREAD) -> list[str]:
    """Where a layout leads from this thread, for each register."""
    images = thread_images(layout)
    base, reached = of_thread(body, images, thread), reached_by(images)
    moved = {0: base}  # the base XORed with those of a register's bits that it may have, too
    return [_moved(body, moved, reached, number) for number in register_offsets(layout)]


def _moved(body: Body, moved: dict[int, str], reached: int, by: int) -> str:
    """A number with bits among `reached`, XORed with a constant."""
    base = moved[0]
    if is_literal(base):
        return str(int(base) ^ by)
    crossed, apart = by & reached, by & ~reached
    if crossed not in moved:
        moved[crossed] = body.new(f"xor i32 {base}, {crossed}")
        body.crossed[moved[crossed]] = base, crossed
    if not apart:
        return moved[crossed]
    total = body.new(f"or disjoint i32 {moved[crossed]}, {apart}")
    body.sums[total] = moved[crossed], apart
    return total


def of_thread(body: Body, images: tuple[int, ...], thread: str = THREAD) -> str:
    """The XOR of the images of the bits that are set in the thread's number."""
    whole = (1 << len(images)) - 1
    total, reached = "0", 0
    for term in terms(images):
        part = thread if term.mask == whole else body.new(f"and i32 {thread}, {term.mask}")
        if term.shift:
            part = body.new(f"{'shl' if term.shift > 0 else 'lshr'} i32 {part}, {abs(term.shift)}")
        if total == "0":
            total = part
        else:
            kind = "xor" if reached & term.reached else "or disjoint"
            total = body.new(f"{kind} i32 {total}, {part}")
        reached |= term.reached
    return total


RULES: dict[OpDef, Rule] = {
    **unrolling.RULES,
    program.program_id: program_id,
    program.num_programs: num_programs,
    ops.thread.thread_id: thread_id,
    ops.thread.pick_by: pick_by,
    ops.thread.linear_index: linear_index,
}
