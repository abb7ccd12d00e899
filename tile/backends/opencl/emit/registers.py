"""Registers of fragments, and what a thread knows of its place."""

from __future__ import annotations

from tile.backends.opencl.emit.body import Body, Rule
from tile.ir.core import Operation
from tile.ir.opdef import OpDef
from tile.ir.ops import program
from tile.ir.types import Fragment
from tile.simt import ops
from tile.simt.layouts.dims import LANE, REGISTER, WARP
from tile.simt.layouts.layout import LinearLayout

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


def fill(body: Body, op: Operation) -> None:
    """One operand for all."""
    body.set(op, body.of(op.inputs[0]) * op["count"])


def pick(body: Body, op: Operation) -> None:
    """Other names for what is there."""
    registers = [register for value in op.inputs for register in body.of(value)]
    body.set(op, [registers[number] for number in op["registers"]])


def element(body: Body, op: Operation) -> None:
    """One of them."""
    body.set(op, [body.of(op.inputs[0])[op["register"]]])


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
    threads = (*layout.images(LANE), *layout.images(WARP))
    reached = 0
    for image in threads:
        reached |= image
    text = of_thread(threads)
    base = text if text in ("0", THREAD) else body.temporary("uint", text, hint)
    registers = [0]
    for image in layout.images(REGISTER) if REGISTER in layout.in_dims else ():
        registers += [number ^ image for number in registers]
    return [_moved(base, reached, number) for number in registers]


def _moved(base: str, reached: int, by: int) -> str:
    if by == 0:
        return base
    if base == "0":
        return str(by)
    return f"({base} ^ {by})" if reached & by else f"{base} + {by}"


def of_thread(images: tuple[int, ...]) -> str:
    """The XOR of the images of the bits that are set in the thread's number.

    Bits that move equally far do so together.
    """
    moved: dict[int, int] = {}
    for bit, image in enumerate(images):
        for place in range(image.bit_length()):
            if image >> place & 1:
                moved[place - bit] = moved.get(place - bit, 0) | 1 << bit
    whole = (1 << len(images)) - 1
    parts = []
    overlaps = False
    reached = 0
    for by, bits in sorted(moved.items()):
        part = THREAD if bits == whole else f"({THREAD} & {bits})"
        if by:
            part = f"({part} {'<<' if by > 0 else '>>'} {abs(by)})"
        bits = bits << by if by > 0 else bits >> -by
        overlaps |= bool(reached & bits)
        reached |= bits
        parts.append(part)
    text = (" ^ " if overlaps else " | ").join(parts) or "0"
    return text[1:-1] if len(parts) == 1 and text.startswith("(") else text


RULES: dict[OpDef, Rule] = {
    program.program_id: program_id,
    program.num_programs: num_programs,
    ops.thread.thread_id: thread_id,
    ops.thread.fill: fill,
    ops.thread.pick: pick,
    ops.thread.element: element,
    ops.thread.pick_by: pick_by,
    ops.thread.linear_index: linear_index,
}
