"""Remove layout conversions, or make them cheaper.

folding      folds chains and duplicates of conversions, and hoists them out of loops
carried      changes the layouts of loop-carried values
backwards    rematerializes a value in the layout where it is needed instead of converting it
forwards     sinks conversions below the users of the value
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

# Sweeps over a function: each may enable more rewrites in the next.
SWEEPS = 3


@module_pass("remove-conversions", before=Level.LAID_OUT)
def remove_conversions(module: Module, *, target: SimtTarget = GENERIC) -> None:
    """Remove layout conversions, and shrink those that remain.

    A conversion of a cheap value is replaced by computing it in the other layout. A conversion
    moves to where elements are fewer or narrower: above an extension or a broadcast, below a
    truncation or a reduction. A loop-carried value gets the layout in which the loop uses it, and a
    loop-invariant one is converted before the loop.

        %c = cast %x {to = f32} : <..., #a>       %y = convert_layout %x : <..., #b>
        %y = convert_layout %c : <..., #b>        %c = cast %y {to = f32} : <..., #b>

        %o = arange {...} : <..., #a>             %o = arange {...} : <..., #b>
        %p = convert_layout %o : <..., #b>
    """
    for function in module:
        for _ in range(SWEEPS):
            if not any(op.defn is convert_layout for op in function.walk()):
                break
            if not _sweep(function):
                break


def _sweep(function: Function) -> bool:
    """Apply every rewrite once; return True if a change may enable more."""
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
