"""Refuses tiles of which each thread would hold far more than it has registers for."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from tile.errors import OutOfResourcesError
from tile.ir.core import Operation, Value
from tile.ir.types import Tile
from tile.simt import ops
from tile.simt.distribute.registers import register_bits
from tile.simt.layouts.layout import LinearLayout

if TYPE_CHECKING:
    from tile.simt.distribute.context import Context

WORD_BITS = 32

# A tile of more registers than the machine has can be worked on in memory, slowly; one that is
# larger than this many times all registers is a mistake.
MOST = 4

# What these give goes from one to the next in registers: of more than there are, each round of a
# loop would move nearly all to memory and back.
_ADDING = frozenset({ops.group.group_dot, ops.matrix.matrix_dot})


def words(value: Value) -> int:
    """The registers of 32 bits in which a thread holds a value."""
    layout = value.type.layout if isinstance(value.type, Tile) else None
    if not isinstance(layout, LinearLayout):
        return 1
    return max(1, (value.type.element.bits << register_bits(layout)) // WORD_BITS)


def check_fits(ctx: Context, op: Operation) -> None:
    """Raise `OutOfResourcesError` if a result is more than a thread can hold."""
    for value in op.results:
        if words(value) > _most(ctx, op):
            raise _too_large(ctx, op, value)


def _most(ctx: Context, op: Operation) -> int:
    return ctx.target.registers * (1 if op.defn in _ADDING else MOST)


def _too_large(ctx: Context, op: Operation, value: Value) -> OutOfResourcesError:
    target = ctx.target
    what = "an accumulator of matrix instructions" if op.defn in _ADDING else "a tile"
    there = sorted(_tiles_at(ctx, op), key=words, reverse=True)
    factor = 1
    while words(there[0]) // factor > target.registers:
        factor *= 2
    wanted, greatest = ctx.num_warps * factor, target.max_threads // target.warp_size
    advice = (
        f"with num_warps = {wanted} instead of {ctx.num_warps} it is {words(there[0]) // factor}"
        if wanted <= greatest
        else f"with the most warps, {greatest}, that is still too much: make the tile smaller"
    )
    return OutOfResourcesError(
        f"{_spelled(value)} takes {words(value)} registers of 32 bits in each thread; {target} has "
        f"{target.registers}, and {what} may take up to {_most(ctx, op)}; {advice}",
        loc=op.loc,
        notes=[f"{_spelled(v)}: {words(v)} registers a thread" for v in there],
    )


def _tiles_at(ctx: Context, op: Operation) -> Iterable[Value]:
    """The tiles that are made on the line of an operation."""
    for other in ctx.old.walk():
        if other is op or (op.loc and other.loc and _line(other) == _line(op)):
            yield from (value for value in other.results if isinstance(value.type, Tile))


def _line(op: Operation) -> tuple[str, int]:
    return ("", 0) if op.loc is None else (op.loc.file, op.loc.line)


def _spelled(value: Value) -> str:
    shape = "x".join(map(str, value.type.shape))
    line = value.op.loc.line if value.op is not None and value.op.loc is not None else "?"
    name = f"`{value.name}`" if value.name else "a tile"
    return f"line {line}: {name} of {shape} {value.type.element}"
