"""Rules of loops, branches and calls, which stay the same on a thread's values."""

from __future__ import annotations

from collections.abc import Sequence

from tile.ir.core import Operation, Value
from tile.ir.opdef import OpDef
from tile.ir.ops import control
from tile.simt.distribute.context import Context, Rule


def regions(ctx: Context, op: Operation) -> Sequence[Value]:
    """Lower an operation with regions."""
    loc = ctx.loc
    new = [ctx.region(region) for region in op.regions]
    ctx.loc = loc
    return ctx.clone(op, new)


def plain(ctx: Context, op: Operation) -> Sequence[Value]:
    """Lower a call or a terminator."""
    return ctx.clone(op)


RULES: dict[OpDef, Rule] = {
    control.for_: regions,
    control.while_: regions,
    control.if_: regions,
    control.call: plain,
    control.yield_: plain,
    control.condition: plain,
    control.return_: plain,
}
