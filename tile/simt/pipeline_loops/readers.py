"""In which layouts a loop wants the tiles that it loads, and giving it them so.

A tile in shared memory can be read in any layout, so a conversion of what was loaded goes away, and
so does one behind operations that are cheap in any layout:

    %x = load %p : tile<.., #load>          %x = local_load %s : tile<.., #m>
    %y = trans %x : tile<.., #t>            %z = trans %x : tile<.., #dot>
    %z = convert_layout %y : tile<.., #dot>
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tile.ir.core import Operation, Value
from tile.ir.ops import arith, shape
from tile.simt.layout_rules import LayoutBuilder, layout_of
from tile.simt.layouts.axes import permute_axes, slice_axis
from tile.simt.layouts.layout import LinearLayout
from tile.simt.ops.layout import convert_layout
from tile.simt.product_pieces import read_layout
from tile.simt.target import SimtTarget

# From the layout of the only tile that an operation gives to that of the one it takes.
Back = Callable[[Operation, LinearLayout], LinearLayout]


def _untransposed(op: Operation, layout: LinearLayout) -> LinearLayout:
    order = op["order"]
    return permute_axes(layout, sorted(range(len(order)), key=order.__getitem__))


def _unexpanded(op: Operation, layout: LinearLayout) -> LinearLayout:
    return slice_axis(layout, len(layout.outs) + op["axis"])


CHEAP: dict[object, Back] = {
    shape.trans: _untransposed,
    shape.expand_dims: _unexpanded,
    arith.cast: lambda op, layout: layout,
    arith.bitcast: lambda op, layout: layout,
    arith.hint: lambda op, layout: layout,
}


@dataclass(frozen=True)
class Reader:
    """A conversion of a tile, the cheap operations before it, and the layout it so wants."""

    between: tuple[Operation, ...]
    conversion: Operation
    layout: LinearLayout


def readers(value: Value) -> list[Reader]:
    """The conversions of a tile in its block, in order of use."""
    found: list[Reader] = []
    for user in dict.fromkeys(value.users):
        if user.block is not value.block:
            continue
        if user.defn is convert_layout:
            found.append(Reader((), user, layout_of(user.result)))
        elif user.defn in CHEAP:
            back = CHEAP[user.defn]
            for reader in readers(user.result):
                layout = back(user, reader.layout)
                found.append(Reader((user, *reader.between), reader.conversion, layout))
    return found


def in_pieces(reader: Reader, target: SimtTarget) -> LinearLayout | None:
    """The layout as which the tile is read piece by piece; None if it is read as a whole."""
    layout = read_layout(reader.conversion, target)
    if layout is None:
        return None
    for op in reversed(reader.between):
        layout = CHEAP[op.defn](op, layout)
    return layout


def hand_over(value: Value, read: Callable[[LinearLayout], Value]) -> None:
    """Give the users of a tile, instead of it, what `read` gives in the layouts they want."""
    for reader in readers(value):
        new = read(reader.layout)
        for op in reader.between:
            new = _again(op, new)
        reader.conversion.replace_by([new])
        for op in reversed(reader.between):
            if not op.result.uses:
                op.erase()
    if value.uses:
        value.replace_by(read(layout_of(value)))


def _again(op: Operation, value: Value) -> Value:
    """A cheap operation done to another value."""
    new = LayoutBuilder.before(op)(op.defn, value, **op.attributes)
    new.name = op.result.name
    return new
