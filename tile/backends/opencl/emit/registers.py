"""Registers of fragments, and what a thread knows of its place."""

from __future__ import annotations

from tile.backends.opencl.emit.body import Body, Rule
from tile.ir.core import Operation
from tile.ir.opdef import OpDef
from tile.ir.ops import program
from tile.ir.types import Fragment
from tile.simt import ops, unrolling
from tile.simt.layouts.layout import LinearLayout
from tile.simt.unrolling import reached_by, register_offsets, terms, thread_images

THREAD = "thread"  # the variable that every function begins with


def program_id(body: Body, op: Operation) -> None:
    """A work-group's number."""
    body.let(op, [f"get_group_id({op['axis']})"])


def num_programs(body: Body, op: Operation) -> None:
    """How many work-groups there are."""
    body.let(op, [f"get_num_groups({op['axis']})"])


def thread_id(body: Body, op: Operation) -> None:
    """The variable itself."""
    body.set(op, [THREAD])


def pick_by(body: Body, op: Operation) -> None:
    """A choice by each bit of the number, from the lowest."""
    x, index = op.inputs
    registers, ty = body.of(x), body.carrier(x)
    known: dict[str, str] = {}
    for number in body.of(index):
        if number not in known:
            known[number] = _picked(body, ty, registers, number)
    body.set(op, [known[number] for number in body.of(index)])


def _picked(body: Body, ty: str, registers: list[str], number: str) -> str:
    bit = 1
    while len(registers) > 1:
        pairs = list(zip(registers[::2], registers[1::2], strict=True))
        if any(x != y for x, y in pairs):
            names = body.names.registers("picked", len(pairs))
            texts = [f"{number} & {bit} ? {y} : {x}" for x, y in pairs]
            body.declare(ty, names, texts)
            registers = names
        else:
            registers = [x for x, _ in pairs]
        bit <<= 1
    return registers[0]


# -- layouts


def linear_index(body: Body, op: Operation) -> None:
    """What the thread's number contributes, once, and then the registers'."""
    numbers = linear_index_of(body, op["layout"], op.result.name or "at")
    if isinstance(op.result.type, Fragment):
        body.let(op, numbers)
    else:
        body.set(op, numbers)


def linear_index_of(body: Body, layout: LinearLayout, hint: str = "at") -> list[str]:
    """Where a layout leads from this thread, for each register, as expressions."""
    images = thread_images(layout)
    text, reached = of_thread(images), reached_by(images)
    base = text if text in ("0", THREAD) else body.temporary("uint", text, hint)
    return [_moved(base, reached, number) for number in register_offsets(layout)]


def _moved(base: str, reached: int, by: int) -> str:
    if by == 0:
        return base
    if base == "0":
        return str(by)
    return f"({base} ^ {by})" if reached & by else f"{base} + {by}"


def of_thread(images: tuple[int, ...]) -> str:
    """The XOR of the images of the bits that are set in the thread's number."""
    whole = (1 << len(images)) - 1
    parts = []
    overlaps = False
    reached = 0
    for term in terms(images):
        part = THREAD if term.mask == whole else f"({THREAD} & {term.mask})"
        if term.shift:
            part = f"({part} {'<<' if term.shift > 0 else '>>'} {abs(term.shift)})"
        overlaps |= bool(reached & term.reached)
        reached |= term.reached
        parts.append(part)
    text = (" ^ " if overlaps else " | ").join(parts) or "0"
    return text[1:-1] if len(parts) == 1 and text.startswith("(") else text


RULES: dict[OpDef, Rule] = {
    **unrolling.RULES,
    program.program_id: program_id,
    program.num_programs: num_programs,
    ops.thread.thread_id: thread_id,
    ops.thread.pick_by: pick_by,
    ops.thread.linear_index: linear_index,
}
