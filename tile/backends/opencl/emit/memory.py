"""Loads and stores of global memory, in vectors, each under its mask.

OpenCL C has no words for cache modifiers and eviction priorities: they are not written.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from tile.backends.opencl.emit.arith import Element
from tile.backends.opencl.emit.body import Body, Rule, each
from tile.backends.opencl.emit.rolling import once
from tile.backends.opencl.emit.rows import Index, Row, array_row, bare
from tile.backends.opencl.emit.types import constant, count_of, is_signed, natural
from tile.ir.core import Operation
from tile.ir.opdef import OpDef
from tile.ir.ops import memory
from tile.ir.types import I1, Pointer

GLOBAL = "__global"
LOCAL = "__local"
_PARTS = "0123456789abcdef"


def addptr(body: Body, op: Operation) -> None:
    """The offset is extended by its own sign."""
    ty = op.inputs[1].type.element
    wide = "long" if is_signed(ty) else "ulong"

    def moved(pointer: str, by: str) -> str:
        if by in ("0", "0L", "0UL"):
            return pointer
        return (
            f"{pointer} + ({wide}){natural(ty, by)}"
            if ty.bits < 64
            else f"{pointer} + ({wide}){by}"
        )

    each(body, op, moved)


def barrier(body: Body, op: Operation) -> None:
    """All threads of the program."""
    body.barrier()


# -- single elements and vectors


def from_memory(body: Body, ty: Element, x: str) -> str:
    """A register of what memory holds."""
    if ty is I1:
        return f"{x} != 0"
    if isinstance(ty, Pointer):
        return f"({body.source.carrier(ty)}){x}"
    return x


def to_memory(body: Body, ty: Element, x: str) -> str:
    """What memory holds of a register."""
    if ty is I1 or isinstance(ty, Pointer):
        return f"({body.source.stored(ty)}){x}"
    return x


def read(body: Body, ty: Element, pointer: str) -> str:
    """One element behind a pointer, as an expression."""
    return from_memory(body, ty, f"*{pointer}")


def read_vector(
    body: Body,
    ty: Element,
    space: str,
    pointer: str,
    count: int,
    mask: str = "true",
    other: Sequence[str] | None = None,
) -> list[str]:
    """The elements of a vector behind a pointer, as expressions."""
    kind = f"{body.source.stored(ty)}{count}"
    name = body.names.new("vector")
    text = f"*(const {space} {kind} *)({pointer})"
    if mask == "true":
        body.line(f"{kind} {name} = {text};")
    else:
        first = "0" if other is None else ", ".join(to_memory(body, ty, x) for x in other)
        body.line(f"{kind} {name} = ({kind})({first});")
        body.line(f"if ({mask}) {name} = {text};")
    return [from_memory(body, ty, f"{name}.s{_PARTS[i]}") for i in range(count)]


def vector_of(body: Body, ty: Element, registers: Sequence[str]) -> str:
    """A vector of registers."""
    kind = f"{body.source.stored(ty)}{len(registers)}"
    return f"({kind})({', '.join(to_memory(body, ty, x) for x in registers)})"


# -- operations


def load(body: Body, op: Operation) -> None:
    """Where the mask is false, `other`, or 0."""
    element = op.result.type.element
    pointers = body.of(op.inputs[0])
    mask = None if op["mask"] is None else body.of(op["mask"])
    other = None if op["other"] is None else body.of(op["other"])
    step = op["vector"]
    if body.rolled(op.result):
        _load_row(body, op, element, step)
        return
    if step == 1:
        texts = []
        for number, pointer in enumerate(pointers):
            allowed = "true" if mask is None else mask[number]
            instead = None if other is None else other[number]
            texts.append(_guarded(body, op, element, pointer, allowed, instead))
        body.let(op, texts)
        return
    results: list[str] = []
    for first in range(0, len(pointers), step):
        allowed = "true" if mask is None else mask[first]
        rest = None if other is None else other[first : first + step]
        results += read_vector(body, element, GLOBAL, pointers[first], step, allowed, rest)
    body.let(op, results)


def _load_row(body: Body, op: Operation, element: Element, step: int) -> None:
    """An element or a vector in each round of a loop."""
    pointers = body.row(op.inputs[0])
    mask = None if op["mask"] is None else body.row(op["mask"])
    other = None if op["other"] is None else body.row(op["other"])
    if step > 1:
        read_rows(
            body,
            op,
            GLOBAL,
            step,
            lambda index: (pointers.at(index), "true" if mask is None else mask.at(index)),
            other,
        )
        return

    def one(index: Index) -> str:
        allowed = "true" if mask is None else mask.at(index)
        instead = None if other is None else other.at(index)
        return _guarded(body, op, element, pointers.at(index), allowed, instead)

    body.compute(op, one, pure=False)


def read_rows(
    body: Body,
    op: Operation,
    space: str,
    step: int,
    place: Callable[[Index], tuple[str, str]],
    other: Row | None = None,
) -> None:
    """Fill an array by vectors of `step`; `place` gives the pointer and the mask of a vector."""
    result = op.result
    count, element = count_of(result.type), result.type.element
    name = body.names.new(result.name or "v")
    body.array(body.carrier(result), name, count)
    row = array_row(name, count)
    with body.loop(count // step, step) as index:
        pointer, mask = place(index)
        rest = None if other is None else [other.at(index.plus(i)) for i in range(step)]
        parts = read_vector(body, element, space, pointer, step, mask, rest)
        texts = [f"{row.at(index.plus(i))} = {part};" for i, part in enumerate(parts)]
        body.joined("", texts, " ", "")
    body.set(op, row)


def _guarded(
    body: Body, op: Operation, element: Element, pointer: str, mask: str, other: str | None
) -> str:
    if op["volatile"]:
        pointer = f"(volatile __global {body.source.stored(element)} *){pointer}"
    text = read(body, element, pointer)
    if mask == "true":
        return text
    if other is None:
        other = constant(0, element, body.source.device.fp16)
    if body.source.carrier(element) == "half":
        text, other = f"(half){text}", f"(half){other}"
    other = body.settled(body.source.carrier(element), other)
    return other if mask == "false" else f"{mask} ? {text} : {other}"


def store(body: Body, op: Operation) -> None:
    """A statement for each vector."""
    pointers, values = (body.of(value) for value in op.inputs[:2])
    element = op.inputs[1].type.element
    masks = ["true"] * len(pointers) if op["mask"] is None else body.of(op["mask"])
    step = op["vector"]
    if body.rolled(op.inputs[1]):
        _store_row(body, op, step)
        return
    for first in range(0, len(pointers), step):
        write(body, element, GLOBAL, pointers[first], values[first : first + step], masks[first])


def _store_row(body: Body, op: Operation, step: int) -> None:
    """An element or a vector in each round of a loop."""
    pointers, values = (body.row(value) for value in op.inputs[:2])
    mask = None if op["mask"] is None else body.row(op["mask"])
    element = op.inputs[1].type.element
    with body.loop(len(values) // step, step) as index:
        pointer = pointers.at(index)
        allowed = "true" if mask is None else mask.at(index)
        registers = [values.at(index.plus(i)) for i in range(step)]
        write(body, element, GLOBAL, pointer, registers, allowed)


def write(
    body: Body, ty: Element, space: str, pointer: str, registers: Sequence[str], mask: str
) -> None:
    """Write a vector, or one element."""
    if len(registers) == 1:
        body.when(mask, f"{behind(pointer)} = {to_memory(body, ty, registers[0])};")
        return
    kind = f"{body.source.stored(ty)}{len(registers)}"
    text = vector_of(body, ty, registers)
    body.when(mask, f"*({space} {kind} *)({pointer}) = {text};")


# A sum of a name and of what is the same for all work-items.
_SUM = re.compile(r"\(((?:\(int\))?\w+) \+ (.+)\)")


def signed(body: Body, offset: str) -> str:
    """An offset in local memory; a number with a sign, where work-items run together.

    Intel's runtime sees that neighbours access neighbours in what is extended by its sign, since
    `int` may be taken not to wrap, and not in what is extended by zeros.
    """
    if body.source.abreast == 1 or offset.isdecimal():
        return offset
    whole = bare(offset) != offset
    parts = _SUM.fullmatch(offset) if whole else None
    if parts is not None:
        return f"((int){parts[1]} + {parts[2]})"
    return f"(int){offset}" if whole or once(offset) else f"(int)({offset})"


def behind(pointer: str) -> str:
    """What a pointer leads to; that of a buffer and an offset is an element.

    Unsigned sums may wrap, so that a compiler cannot tell that neighbours access neighbours; of
    sums of pointers it can.
    """
    base, plus, offset = pointer.partition(" + ")
    if not (plus and base.isidentifier()):
        return f"*{pointer}" if pointer.isidentifier() else f"*({pointer})"
    parts = _SUM.fullmatch(offset)
    if parts is None:
        return f"{base}[{bare(offset)}]"
    return f"({base} + {parts[1]})[{bare(parts[2])}]"


RULES: dict[OpDef, Rule] = {
    memory.addptr: addptr,
    memory.load: load,
    memory.store: store,
    memory.barrier: barrier,
}
