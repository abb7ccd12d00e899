"""Rules of global memory accesses, prints and assertions.

A vector is of contiguous, aligned elements in memory, in registers of one thread. Axis info bounds
the number of contiguous elements along an axis, and the layout the number of them that a thread
holds. If these are not the lowest registers, registers are permuted before the access, and back
after it.

Where pointers are equal in runs of registers, as those to the parameters of a channel, each run is
loaded once. Where several threads hold copies, only the first holder writes: the one whose number
has zeros in the bits that lead to copies.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import lru_cache, reduce
from typing import Any

from tile.ir.core import Operation, Value
from tile.ir.op_definition import OpDef, Trait
from tile.ir.ops import arith, debug, memory
from tile.ir.ops.arith import Predicate
from tile.ir.ops.memory import pointee
from tile.ir.types import count_of
from tile.simt import ops
from tile.simt.layouts.axes import Registers, axis_mask, inverse, sums
from tile.simt.layouts.dims import LANE, REGISTER, WARP
from tile.simt.layouts.linear_layout import LinearLayout
from tile.simt.lower.distribute.context import Context, Rule
from tile.simt.lower.distribute.elementwise import run_bits, split_registers
from tile.simt.ops.layout_inference import maybe_layout
from tile.simt.target import atomic_vector_width

# -- vectors


@lru_cache(maxsize=1024)
def vector_order(layout: LinearLayout, axis: int, limit: int) -> tuple[int, Registers]:
    """Return the length of a thread's aligned runs of contiguous elements along an axis.

    limit: the greatest length to return.
    Second is the order of registers in which runs are contiguous.
    """
    mask = axis_mask(layout, axis)
    unit = mask & -mask
    registers = layout.images(REGISTER)
    everything = layout.columns
    low: list[int] = []
    while 2 << len(low) <= limit and unit & mask and unit in registers:
        if sum(bool(column & unit) for column in everything) > 1:
            break
        low.append(registers.index(unit))
        unit <<= 1
    rest = [bit for bit in range(len(registers)) if bit not in low]
    return 1 << len(low), sums(1 << bit for bit in [*low, *rest])


def vector_of(
    ctx: Context, ptr: Value, mask: Value | None, layout: LinearLayout | None = None
) -> tuple[int, Registers]:
    """Return the widest vector through pointers, and the order of registers that it needs.

    layout: that of the pointers, or of some of their registers.
    """
    layout = layout or maybe_layout(ptr)
    if layout is None:
        return 1, ()
    size = pointee("a vector", ptr.type).itemsize
    fact = ctx.axes.of(ptr)
    best: tuple[int, Registers] = (1, ())
    for axis in range(len(layout.outs)):
        limit = min(fact.vector(axis, size), ctx.target.vector_bits // (8 * size))
        if mask is not None:
            limit = min(limit, ctx.axes.of(mask).constant[axis])
        if limit > best[0]:
            best = max(best, vector_order(layout, axis, limit), key=lambda candidate: candidate[0])
    return best


# -- the first of several threads that hold copies


@lru_cache(maxsize=1024)
def copies_of(layout: LinearLayout) -> LinearLayout | None:
    """Return the number of the copy that a (lane, warp) holds; None if there is only one copy."""
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
    """Return, as an i1, whether this thread is the first holder; None if it is the only one."""
    copies = copies_of(layout)
    return None if copies is None else ctx.no_bit(copies)


def mask_first_holder(
    ctx: Context, layout: LinearLayout, count: int, mask: Value | None = None
) -> Value | None:
    """Return the AND of a mask of `count` registers and of whether this is the first holder."""
    holder = first_holder(ctx, layout)
    return ctx.and_(mask, None if holder is None else ctx.splat(holder, count))


def first_thread(ctx: Context) -> Value:
    """Return, as an i1, whether this is the first thread of the program."""
    number = ctx.once(ops.thread.thread_id)
    return ctx.once(arith.cmp, number, ctx.number(0), predicate=Predicate.EQ)


def _mask_writer(ctx: Context, ptr: Value, mask: Value | None) -> Value | None:
    """Return the AND of the thread's mask and of whether this thread is to write."""
    layout = maybe_layout(ptr)
    if layout is None:
        return ctx.and_(mask, first_thread(ctx))
    return mask_first_holder(ctx, layout, count_of(ctx.of(ptr).type), mask)


# -- rules


def load(ctx: Context, op: Operation) -> Sequence[Value]:
    """Load each thread's elements in vectors, equal ones once; every thread loads a scalar."""
    ptr, mask, other = op["ptr"], op["mask"], op["other"]
    layout = maybe_layout(ptr)
    if layout is not None and not op["volatile"]:
        shared = _load_equal(ctx, op, layout)
        if shared is not None:
            return [shared]
    other = None if other is None else ctx.of(other)
    return [read(ctx, ptr, mask, other, **op.attributes)]


def _load_equal(ctx: Context, op: Operation, layout: LinearLayout) -> Value | None:
    """Load elements at equal addresses once; None if that takes as many loads.

    Without `other` the masks may differ: if one of them is true, so is that of the load. The bias
    of a matmul's columns is loaded once for all rows of a thread, and not for those within bounds
    alone.
    """
    ptr, mask, other = op["ptr"], op["mask"], op["other"]
    inside = run_bits(layout, ctx.axes.of(ptr).constant)
    if other is not None:
        inside &= run_bits(layout, ctx.constant_runs(other))
    if not inside:
        return None
    unequal = 0 if mask is None else inside & ~run_bits(layout, ctx.axes.of(mask).constant)
    if other is not None:
        inside, unequal = inside & ~unequal, 0
    first, each = split_registers(layout, inside)
    vector, order = vector_of(ctx, ptr, mask, _without(layout, inside))
    if len(first) // vector >= len(each) // vector_of(ctx, ptr, mask)[0]:
        return None
    masks = _any_of(ctx, mask, first, unequal)
    operands = [ctx.pick(ctx.of(ptr), registers=first), masks]
    operands.append(None if other is None else ctx.pick(ctx.of(other), registers=first))
    attributes = {**op.attributes, "vector": vector}
    result = ctx(memory.load, *_ordered(ctx, operands, order), **attributes)
    result = ctx.pick(result, registers=inverse(order)) if order else result
    return ctx.pick(result, registers=each)


def _any_of(ctx: Context, mask: Value | None, first: Registers, bits: int) -> Value | None:
    """Return the OR of the masks of registers that differ from the first ones in some bits."""
    if mask is None:
        return None
    differences = sums(1 << bit for bit in range(bits.bit_length()) if bits >> bit & 1)
    masks = [ctx.pick(ctx.of(mask), registers=tuple(x | y for x in first)) for y in differences]
    return reduce(lambda x, y: ctx(arith.or_, x, y), masks)


@lru_cache(maxsize=1024)
def _without(layout: LinearLayout, bits: int) -> LinearLayout:
    """Return a layout without some bits of the register's number."""
    ins = [
        (name, tuple(x for bit, x in enumerate(columns) if name != REGISTER or not bits >> bit & 1))
        for name, columns in layout.ins
    ]
    return LinearLayout(tuple(ins), layout.outs)


def read(
    ctx: Context, ptr: Value, mask: Value | None, other: Value | None, **attributes: Any
) -> Value:
    """Load through a thread's pointers; `other` is a fragment already."""
    vector, order = vector_of(ctx, ptr, mask)
    operands = _ordered(ctx, [ctx.of(ptr), None if mask is None else ctx.of(mask), other], order)
    result = ctx(memory.load, *operands, **{**attributes, "vector": vector})
    return ctx.pick(result, registers=inverse(order)) if order else result


def _ordered(ctx: Context, values: Sequence[Value | None], order: Registers) -> list[Value | None]:
    """Return fragments with their registers in an order; () keeps the order."""
    return [x if x is None or not order else ctx.pick(x, registers=order) for x in values]


def write(ctx: Context, op: Operation) -> Sequence[Value]:
    """Write in vectors; of the threads that hold an element, the first one writes it.

    Only that thread has the result of an atomic operation. Atomic operations have vectors only on
    targets that support them (`atomic_vector_width`).
    """
    *operands, mask = ctx.operands(op)
    own = _mask_writer(ctx, op.inputs[0], mask)
    order: Registers = ()
    attributes = op.attributes
    most = atomic_vector_width(op, ctx.target) if op.has_trait(Trait.ATOMIC) else sys.maxsize
    if most > 1:
        vector, order = vector_of(ctx, op.inputs[0], op["mask"])
        attributes = {**attributes, "vector": min(vector, most)}
    return ctx.op(op.defn, *_ordered(ctx, [*operands, own], order), **attributes).results


def device_print(ctx: Context, op: Operation) -> Sequence[Value]:
    """Print each thread's elements, which the layouts identify."""
    layouts = [layout for layout in map(maybe_layout, op.inputs) if layout is not None]
    ctx.op(ops.thread.thread_print, *ctx.operands(op), **op.attributes, layouts=tuple(layouts))
    return []


def device_assert(ctx: Context, op: Operation) -> Sequence[Value]:
    """Check each thread's elements; the first thread checks a scalar."""
    condition, mask = ctx.operands(op)
    if maybe_layout(op.inputs[0]) is None:
        mask = ctx.and_(mask, first_thread(ctx))
    ctx.op(debug.device_assert, condition, mask, **op.attributes)
    return []


RULES: dict[OpDef, Rule] = {
    memory.load: load,
    memory.store: write,
    memory.atomic_rmw: write,
    memory.atomic_cas: write,
    debug.device_print: device_print,
    debug.device_assert: device_assert,
}
