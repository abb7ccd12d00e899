"""Pointers in loops with products of groups: added up there, and never multiplied.

An instruction that multiplies integers and one that multiplies matrices want the same ports of the
registers: each `IMAD.WIDE` of a round takes some 14 to 36 cycles from 1060 of a product of f16 of
128 x 256 x 64. LLVM and the assembler make one wherever they know that a number of 32 bits times
the size of an element is added to a pointer, also where that product was computed in front of the
loop. So in such loops numbers become bytes by a shift that LLVM does not see and the assembler
leaves one, and by how much a pointer moves on is shifted so in front of the loop.

What moves is the same for all pointers of a tile. So one register can have it, to which in each
round every copy adds where its pointer started. Left alone, LLVM and the assembler find other ways:
a register for each pointer that moves by a constant. So where pointers start, and by how much they
move, are numbers here that nothing is known of.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from tile.backends.nvptx.emit.assembler import assemble
from tile.backends.nvptx.emit.body import Body, Registers
from tile.backends.nvptx.emit.types import is_literal, is_signed, llvm_type
from tile.ir.core import Block, Operation, Value
from tile.ir.ops import memory
from tile.ir.types import Fragment, Pointer
from tile.simt import ops


@dataclass(frozen=True)
class Moving:
    """What moves in a `for`: the numbers of those that it carries and that are tiles of pointers.

    `steps` says by how many bytes, where that is no constant, for a number and a shift: computed in
    front of the loop. None if it has no products of groups, and then nothing is said to move.
    """

    pointers: tuple[int, ...]
    steps: dict[tuple[str, int], str] | None

    @classmethod
    def by(cls, body: Body, loop: Operation) -> Moving:
        """As a loop does, before which lines are written."""
        if not has_products(loop):
            return cls((), None)
        results = enumerate(loop.results)
        pointers = tuple(index for index, value in results if _is_tile_of_pointers(value))
        return cls(pointers, _steps(body, loop, pointers))

    @contextmanager
    def round(self, body: Body, region: Block) -> Iterator[None]:
        """Lines of a round."""
        for index in self.pointers:
            body.moving.update(body.of(region.args[1 + index]))
        outer, body.steps = body.steps, self.steps
        yield
        body.steps = outer


def _steps(body: Body, loop: Operation, pointers: Sequence[int]) -> dict[tuple[str, int], str]:
    (region,) = loop.regions
    assert region.last is not None
    found: dict[tuple[str, int], str] = {}
    for index in pointers:
        following = region.last.inputs[index].op
        if following is None or following.defn is not memory.addptr:
            continue
        offset, shift = following.inputs[1], following["stride"].bit_length() - 1
        if offset.block is not region:
            for by in dict.fromkeys(x for x in body.of(offset) if not is_literal(x)):
                found[by, shift] = _shifted(body, wide(body, offset, by), shift)
    return found


def has_products(loop: Operation) -> bool:
    """Whether the rounds of a `for` multiply by groups of warps."""
    return any(op.defn is ops.group.group_dot for op in loop.regions[0])


def _is_tile_of_pointers(value: Value) -> bool:
    return isinstance(value.type, Fragment) and isinstance(value.type.of, Pointer)


def started(body: Body, value: Value) -> Registers:
    """Where pointers start, each register once."""
    registers = body.of(value)
    known = {x: assemble(body, "mov.b64 $0, $1;", ["i64"], [("i64", x)])[0] for x in registers}
    return [known[x] for x in registers]


def step(body: Body, by: int) -> str:
    """A constant by which pointers move."""
    return body.first(f'call i64 asm "mov.b64 $0, {by};", "=l"()')


def in_bytes(body: Body, offset: Value, by: str, shift: int) -> str:
    """A register of an offset times a power of two, in 64 bits."""
    if body.steps is None:
        extended = wide(body, offset, by)
        return body.new(f"shl i64 {extended}, {shift}") if shift else extended
    return body.steps.get((by, shift)) or _shifted(body, wide(body, offset, by), shift)


def wide(body: Body, offset: Value, by: str) -> str:
    """A register of an offset, in 64 bits by its own sign."""
    ty = llvm_type(offset.type.element)
    extend = "sext" if is_signed(offset.type.element) else "zext"
    return by if ty == "i64" else body.new(f"{extend} {ty} {by} to i64")


def _shifted(body: Body, number: str, shift: int) -> str:
    """A number of 64 bits times a power of two, by an instruction that LLVM does not know."""
    text = f"shl.b64 $0, $1, {shift};"
    return assemble(body, text, ["i64"], [("i64", number)])[0] if shift else number
