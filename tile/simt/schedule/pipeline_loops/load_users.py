"""Fold the layout conversions of loaded tiles into loads from shared memory.

A tile in shared memory can be read in any layout. So a conversion of the loaded tile goes away,
and so does a conversion after operations that are cheap in any layout:

    %x = load %p : tile<.., #load>          %x = local_load %s : tile<.., #m>
    %y = trans %x : tile<.., #t>            %z = trans %x : tile<.., #dot>
    %z = convert_layout %y : tile<.., #dot>
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tile.ir.core import Operation, Value
from tile.ir.ops import arith, shape
from tile.simt.layouts.linear_layout import LinearLayout
from tile.simt.ops.layout import convert_layout
from tile.simt.ops.layout_inference import LayoutBuilder, layout_of, operand_layout
from tile.simt.schedule.dot_slices import sliced_load_layout
from tile.simt.target import SimtTarget

# Operations that cost the same in any layout.
CHEAP_IN_ANY_LAYOUT = frozenset(
    {shape.trans, shape.expand_dims, arith.cast, arith.bitcast, arith.hint}
)


@dataclass(frozen=True)
class LoadUser:
    """A layout conversion of a tile, and the cheap operations `between` the tile and it.

    layout: the layout of the tile for which the conversion is an identity.
    """

    between: tuple[Operation, ...]
    conversion: Operation
    layout: LinearLayout


def load_users(value: Value) -> list[LoadUser]:
    """Return the layout conversions of a tile in its block, in order of use."""
    conversions: list[LoadUser] = []
    for user in dict.fromkeys(value.users):
        if user.block is not value.block:
            continue
        if user.defn is convert_layout:
            conversions.append(LoadUser((), user, layout_of(user.result)))
        elif user.defn in CHEAP_IN_ANY_LAYOUT:
            for later in load_users(user.result):
                layout = operand_layout(user, later.layout)
                conversions.append(LoadUser((user, *later.between), later.conversion, layout))
    return conversions


def sliced_layout(user: LoadUser, target: SimtTarget) -> LinearLayout | None:
    """Return the layout in which the tile is read slice by slice; None if it is read whole."""
    layout = sliced_load_layout(user.conversion, target)
    if layout is None:
        return None
    for op in reversed(user.between):
        layout = operand_layout(op, layout)
    return layout


def replace_by_local_load(value: Value, read: Callable[[LinearLayout], Value]) -> None:
    """Replace a tile by what `read` returns for the layouts that its users take."""
    for user in load_users(value):
        new = read(user.layout)
        for op in user.between:
            new = _clone_on(op, new)
        user.conversion.replace_by([new])
        for op in reversed(user.between):
            if not op.result.uses:
                op.erase()
    if value.uses:
        value.replace_by(read(layout_of(value)))


def _clone_on(op: Operation, value: Value) -> Value:
    """Return the result of a cheap operation on another value."""
    new = LayoutBuilder.before(op)(op.defn, value, **op.attributes)
    new.name = op.result.name
    return new
