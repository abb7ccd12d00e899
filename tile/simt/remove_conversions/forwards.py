"""Sink conversions below operations on the converted value.

The operations after a conversion are done in the layout before it, as long as each is the only user
of the one before, and the conversion moves to where there is least to convert: below a truncation
or a reduction, or where another conversion follows.
"""

from __future__ import annotations

from dataclasses import dataclass

from tile.ir.builder import Builder
from tile.ir.core import Function, Operation, Value
from tile.ir.ops import combine, reduce, shape
from tile.ir.types import Tile, with_layout
from tile.simt.costs import conversion, work
from tile.simt.layout_rules import layout_of
from tile.simt.layouts.layout import LinearLayout
from tile.simt.operand_layouts import forward, is_flexible
from tile.simt.ops.layout import convert_layout
from tile.simt.remove_conversions.backwards import Plan, set_layout
from tile.simt.remove_conversions.folding import conversions

# The operations after a conversion that are considered.
STEPS = 16

_REDUCTIONS = frozenset({reduce.reduce, reduce.arg_reduce, combine.reduce_by})


def convert_later(function: Function) -> bool:
    """Sink conversions below operations where that costs less; return True if one moved."""
    changed = False
    for op in conversions(function):
        path = _best(op)
        if path:
            _move(op, path)
            changed = True
    return changed


@dataclass(frozen=True)
class _Step:
    """An operation to be done in another layout, and the layout of its result then."""

    op: Operation
    taken: LinearLayout
    result: LinearLayout


def _best(convert: Operation) -> list[_Step]:
    """Return the operations that are cheaper to do before a conversion."""
    source = convert.inputs[0]
    before = conversion(_tile(source), layout_of(source), layout_of(convert.result))
    plan = Plan(source.block, convert)
    steps: list[_Step] = []
    best, least, spent = 0, float(before), 0.0
    value, layout = convert.result, layout_of(source)
    while len(steps) < STEPS and (user := _only_user(value)) is not None:
        if user.defn is convert_layout:
            # The two conversions merge.
            end = layout_of(user.result)
            saved = conversion(_tile(value), layout_of(value), end)
            if spent + conversion(_tile(value), layout, end) - saved < least:
                best = len(steps)
            break
        if not _movable(user, value):
            break
        result = forward(user, layout)
        others = [v for v in user.inputs if v is not value and isinstance(v.type, Tile)]
        spent += sum(plan.cost(v, layout) - _saved(v, layout) for v in others)
        spent += work(user, layout) - work(user, layout_of(value))
        steps.append(_Step(user, layout, result))
        value, layout = user.results[0], result
        total = spent + sum(
            conversion(_tile(v), result, layout_of(v))
            for v in user.results
            if isinstance(v.type, Tile)
        )
        if total < least:
            best, least = len(steps), total
        if len(user.results) > 1 or not isinstance(value.type, Tile):
            break
    return steps[:best]


def _saved(value: Value, layout: LinearLayout) -> int:
    """Return the cost of the conversion that gives a value for one use, if from `layout`."""
    op = value.op
    if op is None or op.defn is not convert_layout or len(value.uses) > 1:
        return 0
    source = layout_of(op.inputs[0])
    return conversion(_tile(value), source, layout_of(value)) if source == layout else 0


def _only_user(value: Value) -> Operation | None:
    users = {*value.users}
    return users.pop() if len(users) == 1 else None


def _movable(op: Operation, value: Value) -> bool:
    """Return True if an operation can be done in the value's layout before its conversion."""
    if op.block is not value.block or op.defn is shape.broadcast:
        return False
    return op.defn in _REDUCTIONS or is_flexible(op)


def _move(convert: Operation, steps: list[_Step]) -> None:
    """Do some operations before a conversion, which then follows the last of them."""
    value = convert.inputs[0]
    plan = Plan(value.block, convert)
    converted = convert.result
    for step in steps:
        for other in dict.fromkeys(step.op.inputs):
            if other is not converted and isinstance(other.type, Tile):
                plan.cost(other, step.taken)
        for index, operand in enumerate(step.op.operands):
            if operand is converted:
                step.op.set_operand(index, value)
            elif operand is not None and isinstance(operand.type, Tile):
                step.op.set_operand(index, plan.make(operand, step.taken))
        value = converted = step.op.results[0]
        _relocate(step.op, step.result, last=step is steps[-1])
    if not convert.result.uses:
        convert.erase()


def _relocate(op: Operation, layout: LinearLayout, *, last: bool) -> None:
    """Give the results of an operation another layout; convert those of the last one back."""
    assert op.block is not None
    b = Builder(op.block, op.next, op.loc)
    for value in op.results:
        if not isinstance(value.type, Tile):
            continue
        ty = value.type
        if len(op.results) == 1:
            set_layout(op, layout)
        else:
            value.type = with_layout(value.type, layout)
        if last:
            users = list(value.uses)
            back = b(convert_layout, value, result=ty)
            for user, index in users:
                user.set_operand(index, back)


def _tile(value: Value) -> Tile:
    assert isinstance(value.type, Tile)
    return value.type
