"""Fewer and cheaper conversions between layouts.

folding      conversions of conversions, equal ones, and those in loops that could be before them
carried      other layouts for what loops and branches carry
backwards    computing a value where it is needed, rather than converting it
forwards     converting what is computed of a value, rather than the value
"""

from __future__ import annotations

from tile.ir.core import Function, Module
from tile.ir.levels import Level
from tile.ir.passes import module_pass
from tile.simt.ops.layout import convert_layout
from tile.simt.remove_conversions.backwards import compute_where_needed
from tile.simt.remove_conversions.carried import move_carried
from tile.simt.remove_conversions.folding import fold, hoist, merge
from tile.simt.remove_conversions.forwards import convert_later
from tile.simt.target import GENERIC, SimtTarget
from tile.transforms.dce import remove_dead

# Rounds over a function; what one makes possible, the next does.
ROUNDS = 3


@module_pass("remove-conversions", before=Level.LAID_OUT)
def remove_conversions(module: Module, *, target: SimtTarget = GENERIC) -> None:
    """Do with fewer conversions, and with smaller ones.

    A conversion of what takes little to compute gives way to computing it in the other layout. It
    moves to where elements are fewer or narrower: before an extension or a broadcast, behind a
    truncation or a reduction. What a loop carries is in the layout in which the loop uses it, and
    what is the same in all rounds is converted before the loop.

        %c = cast %x {to = f32} : <..., #a>       %y = convert_layout %x : <..., #b>
        %y = convert_layout %c : <..., #b>        %c = cast %y {to = f32} : <..., #b>

        %o = arange {...} : <..., #a>             %o = arange {...} : <..., #b>
        %p = convert_layout %o : <..., #b>
    """
    for function in module:
        for _ in range(ROUNDS):
            if not any(op.defn is convert_layout for op in function.walk()):
                break
            if not _round(function):
                break


def _round(function: Function) -> bool:
    """One attempt at everything; whether anything changed that may allow for more."""
    fold(function)
    hoist(function)
    merge(function)
    changed = move_carried(function)
    changed |= compute_where_needed(function)
    changed |= convert_later(function)
    if changed:
        fold(function)
        merge(function)
    remove_dead(function)
    return changed
