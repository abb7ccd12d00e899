"""Rules of prints and assertions."""

from __future__ import annotations

from collections.abc import Sequence

from tile.ir.core import Operation, Value
from tile.ir.opdef import OpDef
from tile.ir.ops import debug
from tile.simt import ops
from tile.simt.distribute.context import Context, Rule
from tile.simt.distribute.memory import first_thread
from tile.simt.layout_rules import maybe_layout


def device_print(ctx: Context, op: Operation) -> Sequence[Value]:
    """Print in every thread what it holds; the layouts identify the elements."""
    layouts = [layout for layout in map(maybe_layout, op.inputs) if layout is not None]
    ctx.op(ops.thread.thread_print, *ctx.operands(op), **op.attributes, layouts=tuple(layouts))
    return []


def device_assert(ctx: Context, op: Operation) -> Sequence[Value]:
    """Check in every thread what it holds; the first thread checks a scalar."""
    condition, mask = ctx.operands(op)
    if maybe_layout(op.inputs[0]) is None:
        mask = ctx.and_(mask, first_thread(ctx))
    ctx.op(debug.device_assert, condition, mask, **op.attributes)
    return []


RULES: dict[OpDef, Rule] = {
    debug.device_print: device_print,
    debug.device_assert: device_assert,
}
