"""Conversions that are not needed, whatever they cost."""

from __future__ import annotations

from tile.analysis.liveness import LOOPS
from tile.ir.core import Block, Function, Operation, Value
from tile.simt.layout_rules import layout_of
from tile.simt.layouts.layout import LinearLayout
from tile.simt.ops.layout import convert_layout


def conversions(function: Function) -> list[Operation]:
    """The conversions of a function, in program order."""
    return [op for op in function.walk() if op.defn is convert_layout]


def fold(function: Function) -> None:
    """Convert straight from where a value is first, and not at all to where it is already.

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
    """Move conversions of what a loop does not change out of it."""
    for op in conversions(function):
        at = op
        home = op.inputs[0].block
        for outer in op.ancestors():
            if any(region is home for region in outer.regions):
                break
            if outer.defn in LOOPS:
                at = outer
        if at is not op:
            op.unlink()
            assert at.block is not None
            at.block.insert(op, at)


def merge(function: Function) -> None:
    """Convert once what is converted twice to one layout."""
    _merge(function.body, {})


def _merge(block: Block, known: dict[tuple[Value, LinearLayout], Value]) -> None:
    for op in block:
        if op.defn is convert_layout:
            key = op.inputs[0], layout_of(op.result)
            if key in known:
                op.replace_by([known[key]])
            else:
                known[key] = op.result
        for region in op.regions:
            _merge(region, dict(known))
