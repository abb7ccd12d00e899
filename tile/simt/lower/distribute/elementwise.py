"""Rules of operations that each thread does on its own registers.

They are elementwise operations, tiles that are made without data, and operations that only renumber
elements. Under `trans`, `reshape` and `expand_dims` a thread's registers stay as they are, by the
rules of layout inference. The others repeat registers, or join and split fragments.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from tile.ir.core import Operation, Value
from tile.ir.op_definition import OpDef
from tile.ir.ops import arith, debug, descriptor, memory, shape
from tile.ir.ops.arith import Predicate
from tile.ir.ops.inline_asm import inline_asm
from tile.ir.types import count_of
from tile.simt import ops
from tile.simt.layouts.axes import Registers, along_axis, axis_mask, register_bits, sums
from tile.simt.layouts.dims import REGISTER
from tile.simt.layouts.linear_layout import LinearLayout
from tile.simt.lower.distribute.context import Context, Rule
from tile.simt.ops.layout_inference import layout_of, maybe_layout


def once_a_run(ctx: Context, op: Operation) -> Sequence[Value]:
    """Build one comparison or division for each run of registers that have the same result.

    Masks such as `column < columns` have such runs if `columns` is sufficiently divisible. So have
    quotients of numbers that count up: those of a channels-last image's pixels by its channels.
    """
    layout = maybe_layout(op.result)
    if layout is None:
        return ctx.clone(op)
    first, each = constant_runs(layout, ctx.constant_runs(op.result))
    if len(first) == len(each):
        return ctx.clone(op)
    operands = [ctx.pick(ctx.of(value), registers=first) for value in op.inputs]
    return [ctx.pick(ctx(op.defn, *operands, **op.attributes), registers=each)]


@lru_cache(maxsize=1024)
def constant_runs(layout: LinearLayout, constant: tuple[int, ...]) -> tuple[Registers, Registers]:
    """Return the first register of each run, and the run of each register.

    constant: the length of the aligned runs of equal elements along each axis.
    """
    return split_registers(layout, run_bits(layout, constant))


def run_bits(layout: LinearLayout, constant: tuple[int, ...]) -> int:
    """Return the bits of a register's number that are its place in a run of equal elements."""
    inside = 0
    for axis, extent in enumerate(constant):
        for bit, step in along_axis(layout, REGISTER, axis):
            inside |= (step < extent) << bit
    return inside


def split_registers(layout: LinearLayout, inside: int) -> tuple[Registers, Registers]:
    """Return the first register of each run, and the run of each register."""
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


def splat(ctx: Context, op: Operation) -> Sequence[Value]:
    """Build a register for each of the thread's elements."""
    return [ctx(ops.thread.frag_splat, ctx.of(op.inputs[0]), count=_count(op))]


def arange(ctx: Context, op: Operation) -> Sequence[Value]:
    """Build the images of the thread's registers under the layout, plus the start."""
    index = ctx.index(layout_of(op.result))
    start = op["start"]
    if start != 0:
        index = ctx.once(arith.add, index, ctx.number(start, index.type))
    return [index]


def broadcast(ctx: Context, op: Operation) -> Sequence[Value]:
    """Repeat each register."""
    x = op.inputs[0]
    return [ctx.pick(ctx.of(x), registers=_repeated(layout_of(op.result), x.type.shape))]


@lru_cache(maxsize=1024)
def _repeated(layout: LinearLayout, extents: Sequence[int]) -> Registers:
    """Return, for each register of the result, the one of the operand that it repeats."""
    varying = 0
    for axis, extent in enumerate(extents):
        if extent != 1:
            varying |= axis_mask(layout, axis)
    columns, bits = [], 0
    for column in layout.images(REGISTER):
        columns.append(1 << bits if column & varying else 0)
        bits += bool(column & varying)
    return sums(columns)


def join(ctx: Context, op: Operation) -> Sequence[Value]:
    """Interleave the registers of two fragments."""
    a, b = (ctx.of(value) for value in op.inputs)
    if maybe_layout(op.inputs[0]) is None:
        return [_pair(ctx, layout_of(op.result), a, b)]
    count = count_of(a.type)
    return [ctx.pick(a, b, registers=sums([count, *(1 << bit for bit in _bits(count))]))]


def _pair(ctx: Context, layout: LinearLayout, a: Value, b: Value) -> Value:
    """Build a tile of two scalars, in any layout."""
    index = ctx.index(layout)
    zero = ctx.number(0, index.type)
    first = ctx.once(arith.cmp, index, zero, predicate=Predicate.EQ)
    both = [ctx(ops.thread.frag_splat, x, count=count_of(index.type)) for x in (a, b)]
    return ctx(arith.select, first, *both)


def split(ctx: Context, op: Operation) -> Sequence[Value]:
    """Return the registers that hold the first of a pair, and those that hold the second."""
    x = ctx.of(op.inputs[0])
    pair = layout_of(op.inputs[0]).images(REGISTER).index(1)
    others = [1 << bit for bit in _bits(count_of(x.type)) if bit != pair]
    parts = [tuple(r | member << pair for r in sums(others)) for member in (0, 1)]
    if not op.results[0].type.shape:
        return [ctx(ops.thread.frag_extract, x, register=part[0]) for part in parts]
    return [ctx.pick(x, registers=part) for part in parts]


def group_contiguous(ctx: Context, op: Operation) -> Sequence[Value]:
    """Clone inline PTX; elements that are contiguous along the last axes form a group.

    They often share a register already, while an order by rows would take it apart.
    """
    layout = maybe_layout(op.results[0])
    if op["pack"] == 1 or layout is None:
        return ctx.clone(op)
    images = layout.images(REGISTER)
    order = sorted(range(len(images)), key=images.__getitem__)
    if order == [*range(len(images))]:
        return ctx.clone(op)
    gathered = sums([1 << bit for bit in order])
    scattered = sums([1 << order.index(bit) for bit in range(len(images))])
    operands = [ctx.pick(ctx.of(value), registers=gathered) for value in op.inputs]
    types = [ctx.type_of(value.type) for value in op.results]
    results = ctx.copy(op, operands, types, []).results
    return [ctx.pick(value, registers=scattered) for value in results]


def _bits(count: int) -> range:
    return range(count.bit_length() - 1)


def _count(op: Operation) -> int:
    return layout_of(op.result).in_size(REGISTER)


RULES: dict[OpDef, Rule] = {
    arith.cmp: once_a_run,
    arith.div: once_a_run,
    arith.rem: once_a_run,
    arith.const: Context.clone,
    arith.poison: Context.clone,
    arith.hint: forward_operand,
    descriptor.descriptor_pointers: forward_operand,
    descriptor.im2col_pointers: forward_operand,
    debug.assume: erase,
    inline_asm: group_contiguous,
    memory.addptr: Context.clone,
    ops.wgmma.wgmma_wait: Context.clone,
    shape.splat: splat,
    shape.arange: arange,
    shape.trans: forward_operand,
    shape.reshape: forward_operand,
    shape.expand_dims: forward_operand,
    shape.broadcast: broadcast,
    shape.join: join,
    shape.split: split,
}
