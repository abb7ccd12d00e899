"""Rules of operations that each thread does on its own registers."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from tile.ir.core import Operation, Value
from tile.ir.opdef import OPS, OpDef
from tile.ir.ops import arith, debug, descriptor, memory, program
from tile.simt import ops
from tile.simt.distribute.context import Context, Rule
from tile.simt.distribute.registers import Registers, along_axis, register_bits, sums
from tile.simt.layout_rules import maybe_layout
from tile.simt.layouts.dims import REGISTER
from tile.simt.layouts.layout import LinearLayout


def clone(ctx: Context, op: Operation) -> Sequence[Value]:
    """Build the same operation on a thread's operands."""
    return ctx.clone(op)


def compare(ctx: Context, op: Operation) -> Sequence[Value]:
    """Build one comparison for each run of registers that have the same result.

    Masks such as `column < columns` have such runs if `columns` is sufficiently divisible.
    """
    layout = maybe_layout(op.result)
    if layout is None:
        return clone(ctx, op)
    first, each = constant_runs(layout, ctx.axes.of(op.result).constant)
    if len(first) == len(each):
        return clone(ctx, op)
    operands = [ctx.pick(ctx.of(value), registers=first) for value in op.inputs]
    return [ctx.pick(ctx(arith.cmp, *operands, **op.attributes), registers=each)]


@lru_cache(maxsize=1024)
def constant_runs(layout: LinearLayout, constant: tuple[int, ...]) -> tuple[Registers, Registers]:
    """Return the first register of each run, and the run of each register.

    constant: the length of the aligned runs of equal elements along each axis.
    """
    inside = 0
    for axis, extent in enumerate(constant):
        for bit, step in along_axis(layout, REGISTER, axis):
            inside |= (step < extent) << bit
    bits = range(register_bits(layout))
    outside = [bit for bit in bits if not inside >> bit & 1]
    columns = [1 << outside.index(bit) if bit in outside else 0 for bit in bits]
    return sums(1 << bit for bit in outside), sums(columns)


def forward_operand(ctx: Context, op: Operation) -> Sequence[Value]:
    """Return the operand of an operation that only states something about it."""
    return [ctx.of(op.inputs[0])]


def erase(ctx: Context, op: Operation) -> Sequence[Value]:
    """Erase an operation that only analyses use."""
    return []


RULES: dict[OpDef, Rule] = {
    **{defn: clone for defn in OPS if defn.elementwise},
    arith.cmp: compare,
    arith.const: clone,
    arith.poison: clone,
    arith.hint: forward_operand,
    descriptor.box_pointers: forward_operand,
    debug.assume: erase,
    memory.addptr: clone,
    memory.barrier: clone,
    program.program_id: clone,
    program.num_programs: clone,
    ops.shared.alloc: clone,
    ops.shared.slot: clone,
    ops.shared.local_trans: clone,
    ops.shared.copy_commit: clone,
    ops.shared.copy_wait: clone,
    ops.group.group_wait: clone,
    ops.group.group_fence: clone,
    ops.bulk.barrier_init: clone,
    ops.bulk.barrier_expect: clone,
    ops.bulk.barrier_wait: clone,
    ops.bulk.barrier_free: clone,
    ops.bulk.bulk_copy: clone,
    ops.bulk.bulk_store: clone,
}
