"""Loops, branches and calls: the same on what a thread has of the values they carry."""

from __future__ import annotations

from collections.abc import Sequence

from tile.ir.core import Operation, Value
from tile.ir.opdef import OpDef
from tile.ir.ops import control
from tile.simt.distribute.context import Context, Rule


def regions(ctx: Context, op: Operation) -> Sequence[Value]:
    """An operation with regions, which are written anew."""
    loc = ctx.loc
    new = [ctx.region(region) for region in op.regions]
    ctx.loc = loc
    return ctx.same(op, new)


def plain(ctx: Context, op: Operation) -> Sequence[Value]:
    """A call, or what ends a block."""
    return ctx.same(op)


RULES: dict[OpDef, Rule] = {
    control.for_: regions,
    control.while_: regions,
    control.if_: regions,
    control.call: plain,
    control.yield_: plain,
    control.condition: plain,
    control.return_: plain,
}
