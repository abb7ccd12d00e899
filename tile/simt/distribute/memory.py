"""Accesses to global memory: loads and stores in vectors, and what only one thread may do.

A vector is of neighbours in memory, aligned, in registers of one thread. Axis information says how
many neighbours there are along an axis, the layout how many of them a thread holds. If these are
not the lowest registers they are picked to be so before the access, and picked back behind it.

Where several threads hold copies, the first holder alone writes: the one whose number has zeros in
the bits that lead to copies.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from tile.ir.core import Operation, Value
from tile.ir.opdef import OpDef
from tile.ir.ops import arith, memory
from tile.ir.ops.arith import Predicate
from tile.ir.ops.memory import pointee
from tile.simt import ops
from tile.simt.atomic_vectors import atomic_vector
from tile.simt.distribute.context import Context, Rule, count_of
from tile.simt.distribute.registers import Registers, axis_mask, inverse, sums
from tile.simt.layout_rules import maybe_layout
from tile.simt.layouts.dims import LANE, REGISTER, WARP
from tile.simt.layouts.layout import LinearLayout

# -- vectors


@lru_cache(maxsize=1024)
def vector_order(layout: LinearLayout, axis: int, most: int) -> tuple[int, Registers]:
    """How many neighbours along an axis, up to `most`, a thread holds in an aligned run.

    And its registers in the order that has them in a row.
    """
    mask = axis_mask(layout, axis)
    unit = mask & -mask
    registers = layout.images(REGISTER)
    everything = layout.columns
    low: list[int] = []
    while 2 << len(low) <= most and unit & mask and unit in registers:
        if sum(bool(column & unit) for column in everything) > 1:
            break
        low.append(registers.index(unit))
        unit <<= 1
    rest = [bit for bit in range(len(registers)) if bit not in low]
    return 1 << len(low), sums(1 << bit for bit in [*low, *rest])


def vector_of(ctx: Context, ptr: Value, mask: Value | None) -> tuple[int, Registers]:
    """The widest vectors through pointers, and the order of registers that they need."""
    layout = maybe_layout(ptr)
    if layout is None:
        return 1, ()
    size = pointee("a vector", ptr.type).itemsize
    fact = ctx.facts.of(ptr)
    found: tuple[int, Registers] = (1, ())
    for axis in range(len(layout.outs)):
        most = min(fact.vector(axis, size), ctx.target.vector_bits // (8 * size))
        if mask is not None:
            most = min(most, ctx.facts.of(mask).constant[axis])
        if most > found[0]:
            found = max(found, vector_order(layout, axis, most), key=lambda known: known[0])
    return found


# -- one of several threads that hold copies


@lru_cache(maxsize=1024)
def copies_of(layout: LinearLayout) -> LinearLayout | None:
    """Which copy of its elements a (lane, warp) holds, from 0; None if there is but one."""
    free = 0
    ins = []
    for name in (LANE, WARP):
        columns = []
        for column in layout.images(name):
            columns.append(0 if column else 1 << free)
            free += not column
        ins.append((name, tuple(columns)))
    return LinearLayout(tuple(ins), (("copy", free),)) if free else None


def first_holder(ctx: Context, layout: LinearLayout) -> Value | None:
    """Whether this thread is the first that holds its elements, an i1; None if it is the only."""
    copies = copies_of(layout)
    return None if copies is None else ctx.no_bit(copies)


def first_thread(ctx: Context) -> Value:
    """Whether this is the first thread of the program, an i1."""
    number = ctx.once(ops.thread.thread_id)
    return ctx.once(arith.cmp, number, ctx.number(0), predicate=Predicate.EQ)


def _alone(ctx: Context, ptr: Value, mask: Value | None) -> Value | None:
    """The mask, and that this thread is the one to write; `mask` is a thread's own."""
    layout = maybe_layout(ptr)
    if layout is None:
        return ctx.and_(mask, first_thread(ctx))
    holder = first_holder(ctx, layout)
    if holder is not None:
        holder = ctx.filled(holder, count_of(ctx.of(ptr)))
    return ctx.and_(mask, holder)


# -- rules


def load(ctx: Context, op: Operation) -> Sequence[Value]:
    """Every thread reads what it holds, in vectors; a scalar every thread."""
    other = op["other"]
    other = None if other is None else ctx.of(other)
    return [read(ctx, op.inputs[0], op["mask"], other, **op.attributes)]


def read(
    ctx: Context, ptr: Value, mask: Value | None, other: Value | None, **attributes: Any
) -> Value:
    """What is where a tile of pointers leads; `other` is a thread's own already."""
    vector, order = vector_of(ctx, ptr, mask)
    operands = [ctx.of(ptr), None if mask is None else ctx.of(mask), other]
    if vector > 1:
        operands = [_ordered(ctx, value, order) for value in operands]
    result = ctx(memory.load, *operands, **{**attributes, "vector": vector})
    return ctx.pick(result, registers=inverse(order)) if vector > 1 else result


def store(ctx: Context, op: Operation) -> Sequence[Value]:
    """Every thread writes what it holds, in vectors, and of several that hold it the first."""
    ptr = op.inputs[0]
    mask = op["mask"]
    own = _alone(ctx, ptr, None if mask is None else ctx.of(mask))
    vector, order = vector_of(ctx, ptr, mask)
    operands: list[Value | None] = [*ctx.operands(op)[:2], own]
    if vector > 1:
        operands = [_ordered(ctx, value, order) for value in operands]
    ctx.op(memory.store, *operands, **{**op.attributes, "vector": vector})
    return []


def _ordered(ctx: Context, value: Value | None, order: Registers) -> Value | None:
    return None if value is None else ctx.pick(value, registers=order)


def atomic(ctx: Context, op: Operation) -> Sequence[Value]:
    """The first thread that holds an element does it, and has the result."""
    *operands, mask = ctx.operands(op)
    own = _alone(ctx, op.inputs[0], mask)
    return [ctx(op.defn, *operands, own, **op.attributes)]


def atomic_rmw(ctx: Context, op: Operation) -> Sequence[Value]:
    """In vectors, where the machine has some that give no result and nobody wants one."""
    most = atomic_vector(op, ctx.target)
    if most == 1:
        return atomic(ctx, op)
    ptr, _, mask = op.operands
    assert ptr is not None
    vector, order = vector_of(ctx, ptr, mask)
    vector = min(vector, most)
    *operands, own = ctx.operands(op)
    operands.append(_alone(ctx, ptr, own))
    if vector > 1:
        operands = [_ordered(ctx, value, order) for value in operands]
    result = ctx(op.defn, *operands, **{**op.attributes, "vector": vector})
    return [result]


RULES: dict[OpDef, Rule] = {
    memory.load: load,
    memory.store: store,
    memory.atomic_rmw: atomic_rmw,
    memory.atomic_cas: atomic,
}
