"""Change the layouts of loop-carried values and results of branches.

%r = for ... iter(%a = %x) : #a {         %y = convert_layout %x : #b
%b = convert_layout %a : #b             %r = for ... iter(%b = %y) : #b {
%c = add %b, %b : #b                      %c = add %b, %b : #b
%d = convert_layout %c : #a               yield %c
yield %d                                }
}                                         %s = convert_layout %r : #a
"""

from __future__ import annotations

from collections.abc import Set

from tile.analysis.liveness import LOOPS
from tile.ir.core import Block, Function, Operation, Value
from tile.ir.types import Tile, with_layout
from tile.simt.carried import CARRYING, Carried, Use, carried, conversion_loc, used
from tile.simt.costs import conversion
from tile.simt.layout_rules import LayoutBuilder, layout_of
from tile.simt.layouts.layout import LinearLayout
from tile.simt.ops.layout import convert_layout
from tile.simt.remove_conversions.backwards import OUTSIDE, Plan


def move_carried(function: Function) -> bool:
    """Carry values in the layouts with the least to convert; return True if any changed."""
    changed = False
    for op in list(function.walk()):
        if op.defn in CARRYING:
            for group in carried(op):
                changed |= _move(op, group)
    return changed


def _move(op: Operation, group: Carried) -> bool:
    own = layout_of(group.result)
    candidates = dict.fromkeys([own, *_candidates(group)])
    if len(candidates) == 1:
        return False
    best = min(candidates, key=lambda layout: _cost(op, group, layout))
    if best == own:
        return False
    _relocate(op, group, best)
    return True


def _candidates(group: Carried) -> list[LinearLayout]:
    """Return the layouts from which and to which a carried value is converted."""
    handed = [value.op for value in (*group.inits, *group.yields)]
    sources = [op.inputs[0] for op in handed if op is not None and _converts(op)]
    results = [user.result for value in group.values for user in value.users if _converts(user)]
    return [layout_of(value) for value in (*sources, *results)]


def _converts(op: Operation) -> bool:
    return op.defn is convert_layout


def _cost(op: Operation, group: Carried, layout: LinearLayout) -> float:
    """Return the cost of the conversions if a value is carried in a layout."""
    iterations = OUTSIDE if op.defn in LOOPS else 1
    available = frozenset((value, layout) for value in group.values)
    arriving = [
        (use, Plan(_block(use), available=available)) for use in (*group.starts, *group.ends)
    ]
    total = 0.0
    for use, plan in arriving:
        cost = plan.cost(used(use), layout)
        total += cost * iterations if use in group.ends else cost
    # The operations that compute the next value are then done in that layout, too.
    rematerialized = {
        value.op for _, plan in arriving for (value, _), done in plan.chosen.items() if done
    }
    inside = sum(_leaving(value, layout, rematerialized) for value in group.arguments)
    return total + iterations * inside + _leaving(group.result, layout, rematerialized)


def _block(use: Use) -> Block:
    block = use[0].block
    assert block is not None
    return block


def _leaving(value: Value, layout: LinearLayout, rematerialized: Set[Operation | None]) -> float:
    """Return the cost to use a value that has a layout."""
    layouts = {
        layout_of(user.result) if _converts(user) else layout_of(value)
        for user in value.users
        if user not in rematerialized
    }
    assert isinstance(value.type, Tile)
    return sum(conversion(value.type, layout, other) for other in layouts)


def _relocate(op: Operation, group: Carried, layout: LinearLayout) -> None:
    """Carry a value in another layout, with conversions to and from it."""
    own = group.result.type
    for user, index in (*group.starts, *group.ends):
        value = used((user, index))
        b = LayoutBuilder(_block((user, index)), user, conversion_loc(value, [user]))
        user.set_operand(index, b.convert(value, layout))
    for value in group.values:
        users = list(value.uses)
        value.type = with_layout(own, layout)
        if users:
            following = op.next if value is group.result else value.block.first
            loc = conversion_loc(value, [user for user, _ in users])
            back = LayoutBuilder(value.block, following, loc)(convert_layout, value, result=own)
            for user, index in users:
                user.set_operand(index, back)
