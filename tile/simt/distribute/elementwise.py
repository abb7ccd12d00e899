"""What each thread does as it was written, on its own registers."""

from __future__ import annotations

from collections.abc import Sequence

from tile.ir.core import Operation, Value
from tile.ir.opdef import OPS, OpDef
from tile.ir.ops import arith, debug, memory, program
from tile.simt import ops
from tile.simt.distribute.context import Context, Rule


def same(ctx: Context, op: Operation) -> Sequence[Value]:
    """The same operation, on what a thread has of its operands."""
    return ctx.same(op)


def operand(ctx: Context, op: Operation) -> Sequence[Value]:
    """The operand: the operation says something of it, and does nothing."""
    return [ctx.of(op.inputs[0])]


def nothing(ctx: Context, op: Operation) -> Sequence[Value]:
    """Nothing: analyses have used it."""
    return []


RULES: dict[OpDef, Rule] = {
    **{defn: same for defn in OPS if defn.elementwise},
    arith.const: same,
    arith.poison: same,
    arith.hint: operand,
    debug.assume: nothing,
    memory.addptr: same,
    memory.barrier: same,
    program.program_id: same,
    program.num_programs: same,
    ops.shared.alloc: same,
    ops.shared.slot: same,
    ops.shared.copy_commit: same,
    ops.shared.copy_wait: same,
}
