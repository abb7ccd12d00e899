"""Refuse tiles that would take far more registers in each thread than the target has."""

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

REGISTER_BITS = 32

# A tile of more registers than the machine has can be spilled, slowly; one that is larger than this
# many times all registers is a mistake.
MAX_OVERSUBSCRIPTION = 4

# The accumulators of these stay in registers from one to the next: if there were more than
# registers, each iteration of a loop would spill and reload nearly all of them.
_ACCUMULATING = frozenset({ops.group.group_dot, ops.matrix.matrix_dot})


def register_count(value: Value) -> int:
    """Return the number of 32-bit registers in which a thread holds a value."""
    layout = value.type.layout if isinstance(value.type, Tile) else None
    if not isinstance(layout, LinearLayout):
        return 1
    return max(1, (value.type.element.bits << register_bits(layout)) // REGISTER_BITS)


def check_fits(ctx: Context, op: Operation) -> None:
    """Raise `OutOfResourcesError` if a result is more than a thread can hold."""
    for value in op.results:
        if register_count(value) > _limit(ctx, op):
            raise _too_large(ctx, op, value)


def _limit(ctx: Context, op: Operation) -> int:
    return ctx.target.registers * (1 if op.defn in _ACCUMULATING else MAX_OVERSUBSCRIPTION)


def _too_large(ctx: Context, op: Operation, value: Value) -> OutOfResourcesError:
    target = ctx.target
    kind = "an accumulator of matrix instructions" if op.defn in _ACCUMULATING else "a tile"
    tiles = sorted(_tiles_at(ctx, op), key=register_count, reverse=True)
    scale = 1
    while register_count(tiles[0]) // scale > target.registers:
        scale *= 2
    warps, max_warps = ctx.num_warps * scale, target.max_threads // target.warp_size
    scaled = register_count(tiles[0]) // scale
    advice = (
        f"with num_warps = {warps} instead of {ctx.num_warps} it is {scaled}"
        if warps <= max_warps
        else f"with the most warps, {max_warps}, that is still too much: make the tile smaller"
    )
    return OutOfResourcesError(
        f"{_describe(value)} takes {register_count(value)} registers of 32 bits in each thread; "
        f"{target} has {target.registers}, and {kind} may take up to {_limit(ctx, op)}; {advice}",
        loc=op.loc,
        notes=[f"{_describe(v)}: {register_count(v)} registers a thread" for v in tiles],
    )


def _tiles_at(ctx: Context, op: Operation) -> Iterable[Value]:
    """Yield the tiles that are made on the source line of an operation."""
    for other in ctx.old.walk():
        if other is op or (op.loc and other.loc and _line(other) == _line(op)):
            yield from (value for value in other.results if isinstance(value.type, Tile))


def _line(op: Operation) -> tuple[str, int]:
    return ("", 0) if op.loc is None else (op.loc.file, op.loc.line)


def _describe(value: Value) -> str:
    shape = "x".join(map(str, value.type.shape))
    line = value.op.loc.line if value.op is not None and value.op.loc is not None else "?"
    name = f"`{value.name}`" if value.name else "a tile"
    return f"line {line}: {name} of {shape} {value.type.element}"
