"""Remove redundant conversions, whatever they cost."""

from __future__ import annotations

from tile.analysis.liveness import LOOPS
from tile.ir.core import Block, Function, Operation, Value
from tile.simt.layout_rules import layout_of
from tile.simt.layouts.layout import LinearLayout
from tile.simt.ops.layout import convert_layout


def conversions(function: Function) -> list[Operation]:
    """Return the conversions of a function, in program order."""
    return [op for op in function.walk() if op.defn is convert_layout]


def fold(function: Function) -> None:
    """Fold chains of conversions, and remove those to the layout that a value has already.

    %b = convert_layout %a : #b               %c = convert_layout %a : #c
    %c = convert_layout %b : #c
    """
    for op in conversions(function):
        source = op.inputs[0].op
        while source is not None and source.defn is convert_layout:
            op.set_operand(0, source.inputs[0])
            source = op.inputs[0].op
        if layout_of(op.inputs[0]) == layout_of(op.result):
            op.replace_by([op.inputs[0]])
    for op in reversed(conversions(function)):
        if not op.result.uses:
            op.erase()


def hoist(function: Function) -> None:
    """Hoist conversions of loop-invariant values out of loops."""
    for op in conversions(function):
        at = op
        defining = op.inputs[0].block
        for outer in op.ancestors():
            if any(region is defining for region in outer.regions):
                break
            if outer.defn in LOOPS:
                at = outer
        if at is not op:
            op.unlink()
            assert at.block is not None
            at.block.insert(op, at)


def merge(function: Function) -> None:
    """Merge equal conversions."""
    _merge(function.body, {})


def _merge(block: Block, converted: dict[tuple[Value, LinearLayout], Value]) -> None:
    for op in block:
        if op.defn is convert_layout:
            key = op.inputs[0], layout_of(op.result)
            if key in converted:
                op.replace_by([converted[key]])
            else:
                converted[key] = op.result
        for region in op.regions:
            _merge(region, dict(converted))
