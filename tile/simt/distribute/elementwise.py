"""What each thread does as it was written, on its own registers."""

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


def same(ctx: Context, op: Operation) -> Sequence[Value]:
    """The same operation, on what a thread has of its operands."""
    return ctx.same(op)


def compare(ctx: Context, op: Operation) -> Sequence[Value]:
    """One comparison for each run of registers in which all come out the same.

    Masks such as `column < columns` do so where what they compare is divisible by enough.
    """
    layout = maybe_layout(op.result)
    if layout is None:
        return same(ctx, op)
    first, each = runs(layout, ctx.facts.of(op.result).constant)
    if len(first) == len(each):
        return same(ctx, op)
    operands = [ctx.pick(ctx.of(value), registers=first) for value in op.inputs]
    return [ctx.pick(ctx(arith.cmp, *operands, **op.attributes), registers=each)]


@lru_cache(maxsize=1024)
def runs(layout: LinearLayout, constant: tuple[int, ...]) -> tuple[Registers, Registers]:
    """The first register of each run, and to which run each register belongs.

    Along each axis all is the same in aligned runs of so many elements.
    """
    inside = 0
    for axis, most in enumerate(constant):
        for bit, step in along_axis(layout, REGISTER, axis):
            inside |= (step < most) << bit
    bits = range(register_bits(layout))
    outside = [bit for bit in bits if not inside >> bit & 1]
    places = [1 << outside.index(bit) if bit in outside else 0 for bit in bits]
    return sums(1 << bit for bit in outside), sums(places)


def operand(ctx: Context, op: Operation) -> Sequence[Value]:
    """The operand: the operation says something of it, and does nothing."""
    return [ctx.of(op.inputs[0])]


def nothing(ctx: Context, op: Operation) -> Sequence[Value]:
    """Nothing: analyses have used it."""
    return []


RULES: dict[OpDef, Rule] = {
    **{defn: same for defn in OPS if defn.elementwise},
    arith.cmp: compare,
    arith.const: same,
    arith.poison: same,
    arith.hint: operand,
    descriptor.box_pointers: operand,
    debug.assume: nothing,
    memory.addptr: same,
    memory.barrier: same,
    program.program_id: same,
    program.num_programs: same,
    ops.shared.alloc: same,
    ops.shared.slot: same,
    ops.shared.local_trans: same,
    ops.shared.copy_commit: same,
    ops.shared.copy_wait: same,
    ops.group.group_wait: same,
    ops.group.group_fence: same,
    ops.bulk.barrier_init: same,
    ops.bulk.barrier_expect: same,
    ops.bulk.barrier_wait: same,
    ops.bulk.barrier_free: same,
    ops.bulk.bulk_copy: same,
    ops.bulk.bulk_store: same,
}
