"""Registers of fragments, and what a thread knows of its place."""

from __future__ import annotations

from bisect import bisect_right
from itertools import accumulate

from tile.backends.opencl.emit.body import Body, Registers, Rule
from tile.backends.opencl.emit.rows import Index, Row, array_row, bare, linear
from tile.backends.opencl.emit.types import count_of
from tile.ir.core import Operation, Value
from tile.ir.opdef import OpDef
from tile.ir.ops import program
from tile.ir.types import Fragment
from tile.simt import ops
from tile.simt.layouts.dims import REGISTER
from tile.simt.layouts.layout import LinearLayout
from tile.simt.unrolling import reached_by, register_offsets, terms, thread_images

THREAD = "thread"  # the variable that every function begins with
LANE_OF_THREAD = "lane"  # and, where several run together, the two that it is made of
PART_OF_THREAD = "part"
PARTS = (THREAD, LANE_OF_THREAD, PART_OF_THREAD)


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
    if body.rolled(op.result):
        _pick_from_array(body, op)
        return
    registers, ty = body.of(x), body.carrier(x)
    known: dict[str, str] = {}
    for number in body.of(index):
        if number not in known:
            known[number] = _picked(body, ty, registers, number)
    body.set(op, [known[number] for number in body.of(index)])


def _pick_from_array(body: Body, op: Operation) -> None:
    """A subscript for each register."""
    source, numbers = body.row(op.inputs[0]), body.row(op.inputs[1])
    array = source.array or body.fill_array(op.inputs[0], source.at).array
    body.compute(op, lambda index: f"{array}[{numbers.at(index)}]")


def _picked(body: Body, ty: str, registers: Registers, number: str) -> str:
    bit = 1
    registers = [body.settled(ty, register) for register in registers]
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


def fill(body: Body, op: Operation) -> None:
    """One scalar in all registers."""
    body.set(op, [body.scalar(op.inputs[0])] * op["count"])


def pick(body: Body, op: Operation) -> None:
    """Registers by numbers that are known."""
    chosen = op["registers"]
    if not body.rolled(op.result):
        every = [(body.of(x), at) for x in op.inputs for at in range(count_of(x.type))]
        body.set(op, [every[number][0][every[number][1]] for number in chosen])
        return
    source, before = _only_source(op)
    way = None if source is None else linear([number - before for number in chosen])
    if source is None or way is None:
        _collect(body, op)
        return
    row, (images, offset) = body.row(source), way
    moved = Row(len(chosen), lambda index: row.at(index.through(images, offset)), cost=row.cost)
    body.set(op, moved)


def _only_source(op: Operation) -> tuple[Value | None, int]:
    """The only operand that registers are picked from, if there is one; registers before it."""
    before = 0
    for value in op.inputs:
        count = count_of(value.type)
        if all(before <= number < before + count for number in op["registers"]):
            return value, before
        before += count
    return None, 0


def _collect(body: Body, op: Operation) -> None:
    """Registers of several fragments, or in an order that is no map of bits, in an array."""
    rows = [body.row(x) for x in op.inputs]
    name = body.names.new(op.result.name or "v")
    body.array(body.carrier(op.result), name, len(op["registers"]))
    ends = list(accumulate(map(len, rows)))
    statements = []
    for at, number in enumerate(op["registers"]):
        which = bisect_right(ends, number)
        register = rows[which][number - ends[which] + len(rows[which])]
        statements.append(f"{name}[{at}] = {register};")
    body.joined("", statements, " ", "")
    body.set(op, array_row(name, len(statements)))


def element(body: Body, op: Operation) -> None:
    """One register."""
    body.set(op, [body.of(op.inputs[0])[op["register"]]])


# -- layouts


def linear_index(body: Body, op: Operation) -> None:
    """What the thread's number contributes, once, and then the registers'."""
    if isinstance(op.result.type, Fragment) and body.rolled(op.result):
        body.set(op, linear_row(body, op["layout"], op.result.name or "at"))
        return
    numbers = linear_index_of(body, op["layout"], op.result.name or "at")
    if isinstance(op.result.type, Fragment):
        body.let(op, numbers)
    else:
        body.set(op, numbers)


def linear_index_of(body: Body, layout: LinearLayout, hint: str = "at") -> list[str]:
    """Where a layout leads from this thread, for each register, as expressions."""
    base, reached = _base(body, layout, hint)
    return [_moved(base, reached, number) for number in register_offsets(layout)]


def linear_row(body: Body, layout: LinearLayout, hint: str) -> Row:
    """The same as a row."""
    base, reached = _base(body, layout, hint)
    images = layout.images(REGISTER)

    def moved(index: Index) -> str:
        to = index.through(images)
        if not to.variables:
            text = _moved(base, reached, to.offset)
            return f"({text})" if " + " in text else text
        if base == "0":
            return to.text()
        overlap = reached & (to.reached | to.offset)
        return f"({base} ^ {to.text()})" if overlap else f"({base} + {to.text()})"

    return Row(1 << len(images), moved)


def _base(body: Body, layout: LinearLayout, hint: str) -> tuple[str, int]:
    """Where the thread itself leads, and the bits that this can set."""
    images = thread_images(layout)
    text = of_thread(images, body.source.abreast)
    base = text if text in ("0", *PARTS) else body.temporary("uint", text, hint)
    return base, reached_by(images)


def _moved(base: str, reached: int, by: int) -> str:
    if by == 0:
        return base
    if base == "0":
        return str(by)
    return f"({base} ^ {by})" if reached & by else f"{base} + {by}"


def of_thread(images: tuple[int, ...], abreast: int = 1) -> str:
    """The XOR of the images of the bits that are set in the thread's number.

    Of `abreast` work-items that run together, those bits are taken apart in which they differ: so a
    runtime sees that what the others give is the same for all. Then bits of their own are added:
    so it sees, too, that neighbours have numbers that follow each other.
    """
    either = "|"
    if abreast == 1:
        texts = _terms(THREAD, images)
    else:
        bits = abreast.bit_length() - 1
        either = "+"
        texts = [*_terms(LANE_OF_THREAD, images[:bits]), *_terms(PART_OF_THREAD, images[bits:])]
        if images == tuple(1 << bit for bit in range(len(images))):
            return THREAD
    overlaps, reached = False, 0
    for _, bits_of in texts:
        overlaps |= bool(reached & bits_of)
        reached |= bits_of
    text = f" {'^' if overlaps else either} ".join(text for text, _ in texts) or "0"
    return bare(text) if len(texts) == 1 else text


def _terms(name: str, images: tuple[int, ...]) -> list[tuple[str, int]]:
    """What the bits of one variable give, and which bits these can set."""
    whole = (1 << len(images)) - 1
    parts = []
    for term in terms(images):
        part = name if term.mask == whole else f"({name} & {term.mask})"
        if term.shift:
            part = f"({part} {'<<' if term.shift > 0 else '>>'} {abs(term.shift)})"
        parts.append((part, term.reached))
    return parts


RULES: dict[OpDef, Rule] = {
    ops.thread.fill: fill,
    ops.thread.pick: pick,
    ops.thread.element: element,
    program.program_id: program_id,
    program.num_programs: num_programs,
    ops.thread.thread_id: thread_id,
    ops.thread.pick_by: pick_by,
    ops.thread.linear_index: linear_index,
}
