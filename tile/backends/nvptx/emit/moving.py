"""Pointers that a loop with products of groups moves on: as one number that moves, and constants.

What moves is the same for all pointers of a tile. So one register can have it, to which in each
round every copy adds where its pointer started. Left alone, LLVM and the assembler find other ways:
a register for each pointer that moves by a constant; and where it is known that a pointer starts at
`base + index * 2`, a multiplication `index * 2 + (base + moved)` in each round, which waits for the
instructions that multiply matrices to let go of the registers' ports, and holds up the copies
behind it. So where pointers start, and by how much they move, are numbers here that nothing is
known of.
"""

from __future__ import annotations

from tile.backends.nvptx.emit.assembler import assemble
from tile.backends.nvptx.emit.body import Body, Registers
from tile.ir.core import Operation, Value
from tile.ir.types import Fragment, Pointer
from tile.simt import ops


def moved_by(loop: Operation) -> list[int]:
    """Which of the values that a `for` carries are pointers of a tile, if it has such products."""
    if not any(op.defn is ops.group.group_dot for op in loop.regions[0]):
        return []
    return [index for index, value in enumerate(loop.results) if _is_tile_of_pointers(value)]


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
