"""Layout inference at the LAID_OUT level: a result's layout from its operands', and backward.

Every tile has a layout of (register, lane, warp), in this order, with as many lanes and warps as
the program has. Several lanes or warps may hold copies of an element: these bases are zero. Several
registers of a thread never do, and every nonzero basis is linearly independent of the others. So a
reduction along an axis recognizes copies by their zero bases.

*Forward* (`result_layouts`): most operations keep the layout that all their operands share. Those
that rename axes have rules here and emit no instructions: `trans`, `reshape`, `expand_dims`,
`broadcast`, `join`, `split` only relabel the elements that registers hold. The layouts of `arange`,
`splat` and the like can be chosen freely.

*Backward* (`operand_layout`), the inverse: operand layouts that give a result a required layout.
Operations whose result can be required in any layout are *flexible*: they compute each element
alone, or only rename axes.

    required of the result                        of the operand
    expand_dims {axis = -1} : (i, 0) is here      i is here
    trans {order = (1, 0)} : (i, j) is here       (j, i) is here
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

from tile.errors import stamp
from tile.ir.builder import Builder
from tile.ir.core import Operation, Value
from tile.ir.effects import is_pure
from tile.ir.op_definition import Level, OpDef
from tile.ir.ops import arith, control, descriptor, dot, indexing, memory, reduce, shape
from tile.ir.ops.inline_asm import inline_asm
from tile.ir.shared_type import Shared
from tile.ir.types import Fragment, Tile, listed, require, with_layout
from tile.ir.verifier import condition
from tile.simt import ops
from tile.simt.layouts.axes import expand_axis, permute_axes, reshape_axes, slice_axis
from tile.simt.layouts.dims import LANE, REGISTER, WARP, axis_name, bits_of
from tile.simt.layouts.f2 import basis
from tile.simt.layouts.linear_layout import LinearLayout, identity1d
from tile.simt.layouts.mma_fragments import MmaShape, Operand, fma_operand_layouts, matrix_layout

# The layout of each result; None where it may be any.
Layouts = list[LinearLayout | None]
Rule = Callable[[Operation], Layouts]

RULES: dict[OpDef, Rule] = {}


def tile_type(value: Value) -> Tile:
    """Return the type of a tile."""
    assert isinstance(value.type, Tile), f"{value} is not a tile"
    return value.type


def layout_of(value: Value) -> LinearLayout:
    """Return the layout of a laid-out tile."""
    layout = tile_type(value).layout
    assert isinstance(layout, LinearLayout), f"{value} has no layout"
    return layout


def maybe_layout(value: Value | None) -> LinearLayout | None:
    """Return the layout of a tile; None for a scalar, an absent operand, or a tile without one."""
    layout = value.type.layout if value is not None and isinstance(value.type, Tile) else None
    return layout if isinstance(layout, LinearLayout) else None


def register_count(value: Value) -> int:
    """Return the number of 32-bit registers in which a thread holds a value."""
    layout, count = maybe_layout(value), 1
    if isinstance(value.type, Fragment):
        count = value.type.count
    elif layout is not None:
        count = layout.in_size(REGISTER)
    return max(1, value.type.element.bits * count // 32)


def result_layouts(op: Operation) -> Layouts:
    """Infer the layouts of the results. Raises `TypeRuleError` if the operands' do not fit."""
    return RULES.get(op.defn, same_layout)(op)


# -- changes of layouts


def without_register_copies(layout: LinearLayout) -> LinearLayout:
    """Return the layout without registers that hold copies, in its (register, lane, warp)."""
    ins = tuple(
        (name, tuple(c for c in columns if c) if name == REGISTER else columns)
        for name, columns in layout.ins
    )
    return LinearLayout(ins, layout.outs)


def reduced_layout(layout: LinearLayout, axis: int) -> LinearLayout:
    """Return the layout after a reduction along an axis, counted from the right."""
    return without_register_copies(slice_axis(layout, axis % len(layout.outs)))


def broadcast_operand_layout(layout: LinearLayout, extents: Sequence[int]) -> LinearLayout:
    """Return the layout of an operand that broadcasts to this: extent 1 where `extents` has 1."""
    sizes = {
        name: 1 if extent == 1 else 1 << bits
        for (name, bits), extent in zip(layout.outs, extents, strict=True)
    }
    return without_register_copies(layout.wrap_outs(sizes))


def spread_layout(layout: LinearLayout, extents: Sequence[int]) -> LinearLayout | None:
    """Return a layout of which the operand of a broadcast has this one; None if no lanes are idle.

    Lanes that hold copies of the operand share the new axis. Of its elements two are adjacent in a
    thread, as in the result of a dot, and what lanes do not share is in its registers.
    """
    axes = [
        axis
        for axis, ((_, bits), extent) in enumerate(zip(layout.outs, extents, strict=True))
        if extent > 1 << bits
    ]
    idle = [index for index, column in enumerate(layout.images(LANE)) if not column]
    if len(axes) != 1 or not idle or not all(layout.images(WARP)):
        return None
    (axis,) = axes
    bits, low = extents[axis].bit_length() - 1, bits_of(layout.outs[axis + 1 :])
    ins = {
        name: [(column >> low << low + bits) | (column & (1 << low) - 1) for column in columns]
        for name, columns in layout.ins
    }
    first, *rest = [1 << low + bit for bit in range(bits)]
    for index, column in zip(idle, rest, strict=False):
        ins[LANE][index] = column
    ins[REGISTER] = [first, *ins[REGISTER], *rest[len(idle) :]]
    outs = tuple(
        (name, bits if position == axis else count)
        for position, (name, count) in enumerate(layout.outs)
    )
    return LinearLayout(tuple((name, tuple(columns)) for name, columns in ins.items()), outs)


def joined_layout(layout: LinearLayout) -> LinearLayout:
    """Return the layout of pairs: one register of each operand, along a new last axis."""
    last = axis_name(len(layout.outs))
    pairs = identity1d(2, REGISTER, last) * expand_axis(layout, len(layout.outs))
    return canonical_order(pairs, len(layout.outs) + 1)


def split_layout(layout: LinearLayout) -> LinearLayout | None:
    """Return the layout of each half of pairs; None unless a thread holds both in two registers."""
    pair = LinearLayout(((REGISTER, (1,)),), layout.outs)
    (column,) = pair.images(REGISTER)
    registers = layout.images(REGISTER)
    others = [c for name, columns in layout.ins for c in columns if c & 1 and c != column]
    if column not in registers or others:
        return None
    remaining = tuple(c >> 1 for c in registers if c != column)
    rest = tuple((name, tuple(c >> 1 for c in columns)) for name, columns in layout.ins[1:])
    return LinearLayout(((REGISTER, remaining), *rest), layout.outs[:-1])


def halved(extents: Sequence[int], axis: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return a shape with an axis of 2 for two parts along an axis, and the order with it last."""
    at = len(extents) + axis
    shape = (*extents[:at], 2, extents[at] // 2, *extents[at + 1 :])
    return shape, (*[other for other in range(len(shape)) if other != at], at)


def half_layout(layout: LinearLayout, axis: int) -> LinearLayout | None:
    """Return the layout of each half along an axis; None unless a thread holds parts of both."""
    if layout.shape[axis] == 1:
        return None
    shape, order = halved(layout.shape, axis)
    return split_layout(permute_axes(reshape_axes(layout, shape), order))


def canonical_order(layout: LinearLayout, rank: int) -> LinearLayout:
    """Return the layout with its inputs and outputs in canonical order."""
    names = [axis_name(axis) for axis in range(rank)]
    return layout.transpose_ins(REGISTER, LANE, WARP).transpose_outs(*names)


# -- rules


def same_layout(op: Operation) -> Layouts:
    """Require all tiles of the operation to have one layout, from which the results' follow."""
    layouts = [layout for layout in map(maybe_layout, op.operands) if layout is not None]
    for other in layouts[1:]:
        require(
            other == layouts[0],
            f"{op.name} takes tiles of one layout, not {layouts[0]} and {other}",
        )
    result = result_layout(op, layouts[0]) if layouts else None
    return [result if isinstance(value.type, Tile) else None for value in op.results]


def any_layout(op: Operation) -> Layouts:
    """Leave the layouts of the results open."""
    return [None] * len(op.results)


def _broadcast(op: Operation) -> Layouts:
    result = maybe_layout(op.result)
    if result is not None:
        operand = layout_of(op.inputs[0])
        required = broadcast_operand_layout(result, op.inputs[0].type.shape)
        require(operand == required, f"broadcast to {result} takes {required}, not {operand}")
    return [None]


def _split(op: Operation) -> Layouts:
    operand = layout_of(op.inputs[0])
    part = split_layout(operand)
    require(
        part is not None,
        f"split takes pairs that each thread holds in two registers, not {operand}",
    )
    return [part if isinstance(value.type, Tile) else None for value in op.results]


def _index(op: Operation) -> Layouts:
    return [layout_of(op.inputs[1])]


def _dot(op: Operation) -> Layouts:
    a, _, acc = op.inputs
    _check_operands(op, fma_operand_layouts(layout_of(acc), a.type.shape[-1]))
    return [layout_of(acc)]


def _matrix_dot(op: Operation) -> Layouts:
    acc = op.inputs[2]
    shape, warps = MmaShape(*op["shape"]), op["warps"]
    layouts = [
        matrix_layout(value.type.shape, shape, operand, warps)
        for value, operand in zip(op.inputs, Operand, strict=True)
    ]
    _check_operands(op, (layouts[0], layouts[1]))
    require(layout_of(acc) == layouts[2], f"{op.name} adds to {layouts[2]}, not {layout_of(acc)}")
    return [layouts[2]]


def _group_dot(op: Operation) -> Layouts:
    """Check the accumulator. Operands may have any layout: `expose-shared` stages them."""
    acc = op.inputs[2]
    shape, groups = MmaShape(*op["shape"]), op["warpgroups"]
    layout = matrix_layout(acc.type.shape, shape, Operand.ACCUMULATOR, groups)
    require(layout_of(acc) == layout, f"{op.name} adds to {layout}, not {layout_of(acc)}")
    return [layout]


def _check_operands(op: Operation, required: tuple[LinearLayout, LinearLayout]) -> None:
    for value, layout in zip(op.inputs, required, strict=False):
        require(
            layout_of(value) == layout, f"{op.name} takes an operand of {layout}, not {value.type}"
        )


def _carried(op: Operation) -> Layouts:
    """Require a loop-carried or yielded value to have one type everywhere."""
    types, loop = [value.type for value in op.results], op.defn is not control.if_
    groups = [("the initial values", op.inputs[len(op.defn.operands) :])] if loop else []
    for name, region in zip(op.defn.regions, op.regions, strict=True):
        if loop:
            args = region.args[op.defn is control.for_ :]
            groups.append((f"the arguments of region `{name}`", args))
        last = region.last
        if last is not None and last.defn is control.yield_:
            groups.append((f"the yield of region `{name}`", last.inputs))
    for subject, values in groups:
        own = [value.type for value in values]
        require(
            own == types,
            f"{op.name} carries ({listed(types)}), and {subject} are ({listed(own)})",
        )
    return _stated(op)


def _stated(op: Operation) -> Layouts:
    return [maybe_layout(value) for value in op.results]


RULES.update(
    {
        arith.const: _stated,
        arith.poison: _stated,
        ops.layout.convert_layout: _stated,
        ops.shared.local_load: _stated,
        ops.shared.local_load_slice: _stated,
        control.call: _stated,
        shape.arange: any_layout,
        shape.splat: any_layout,
        shape.broadcast: _broadcast,
        shape.split: _split,
        indexing.gather: _index,
        ops.shared.local_gather: _index,
        indexing.histogram: any_layout,
        indexing.rank: any_layout,
        indexing.scatter: any_layout,
        indexing.sort: lambda op: any_layout(op) if op["count"] is not None else same_layout(op),
        dot.dot: _dot,
        ops.mma.mma_dot: _matrix_dot,
        ops.wgmma.wgmma: _group_dot,
        control.for_: _carried,
        control.while_: _carried,
        control.if_: _carried,
    }
)

# Operations whose tile operands need not share a layout.
_EACH_ITS_OWN = {control.yield_, control.return_, control.condition}
_EACH_ITS_OWN_NAMES = {"device_print"}


# -- the level


def check_distributed(layout: LinearLayout, shape: Sequence[int]) -> None:
    """Raise for a layout in which threads cannot hold a tile of this shape; see the module."""
    require(
        layout.in_dims == (REGISTER, LANE, WARP),
        f"a tile is held by (register, lane, warp), not by {list(layout.in_dims)}",
    )
    require(
        layout.shape == tuple(shape),
        f"a tile of shape {list(shape)} has no layout of shape {list(layout.shape)}",
    )
    columns = [column for column in layout.columns if column]
    require(
        len(basis(columns)) == len(columns) == bits_of(layout.outs),
        f"{layout} is not a bijection up to copies: each element has one nonzero index, and copies "
        "have bases of zeros",
    )
    require(all(layout.images(REGISTER)), f"registers of {layout} hold copies of others")


@condition(Level.LAID_OUT)
def check_layouts(op: Operation) -> None:
    """Check one operation against its layout rule."""
    for value in op.results:
        if isinstance(value.type, Tile):
            check_distributed(layout_of(value), value.type.shape)
    if op.defn in _EACH_ITS_OWN or op.name in _EACH_ITS_OWN_NAMES:
        return
    for value, inferred in zip(op.results, result_layouts(op), strict=True):
        layout = maybe_layout(value)
        require(
            inferred is None or inferred == layout,
            f"{op.name} gives a tile of layout {inferred}, not {layout}",
        )


class LayoutBuilder(Builder):
    """A builder of laid-out operations: results get layouts inferred from the operands.

    `layout` is for operations whose result layout is free, such as `splat`. Operations that declare
    their result (`const`, `convert_layout`, `local_load`) have its layout in `result`.
    """

    def op(
        self,
        defn: OpDef,
        *operands: Value | None,
        layout: LinearLayout | None = None,
        **attributes: Any,
    ) -> Operation:
        """Insert an operation."""
        op = super().op(defn, *operands, **attributes)
        if defn.explicit is None and op.results:
            with stamp(op.loc):
                layouts = result_layouts(op)
            for value, inferred in zip(op.results, layouts, strict=True):
                value.type = with_layout(value.type, inferred or layout)
        return op

    def __call__(self, defn: OpDef, *operands: Value | None, **attributes: Any) -> Value:
        """Insert an operation that has one result, and return that result."""
        return self.op(defn, *operands, **attributes).result

    def store(self, value: Value, layout: LinearLayout, name: str = "") -> Value:
        """Store a tile to a new buffer of a layout in shared memory, and return the buffer."""
        ty = Shared(tuple(value.type.shape), value.type.element, layout)
        mem = self(ops.shared.local_alloc, result=ty)
        mem.name = name
        self.op(ops.shared.local_store, mem, value)
        return mem

    def bisect(self, value: Value, axis: int) -> Sequence[Value]:
        """Return both halves of a tile along an axis, which has a `half_layout`."""
        extents, order = halved(value.type.shape, axis)
        pairs = self(shape.trans, self(shape.reshape, value, shape=extents), order=order)
        return self.op(shape.split, pairs).results

    def convert(self, value: Value, layout: LinearLayout) -> Value:
        """Return the value in a layout; the value itself, if it has that layout."""
        if layout_of(value) == layout:
            return value
        return self(ops.layout.convert_layout, value, result=with_layout(value.type, layout))


# The layout of all tiles among an operation's operands from that of its result, or the reverse.
Change = Callable[[Operation, LinearLayout], LinearLayout]

_collapsed = lru_cache(maxsize=1024)(broadcast_operand_layout)
_joined = lru_cache(maxsize=1024)(joined_layout)
_reduced = lru_cache(maxsize=1024)(reduced_layout)
_expanded = lru_cache(maxsize=1024)(expand_axis)
_slice = lru_cache(maxsize=1024)(slice_axis)


@lru_cache(maxsize=1024)
def _permuted(layout: LinearLayout, order: tuple[int, ...]) -> LinearLayout:
    return permute_axes(layout, order)


@lru_cache(maxsize=1024)
def _permuted_back(layout: LinearLayout, order: tuple[int, ...]) -> LinearLayout:
    return permute_axes(layout, [order.index(axis) for axis in range(len(order))])


def _same(op: Operation, layout: LinearLayout) -> LinearLayout:
    return layout


OPERAND_RULES: dict[OpDef, Change] = {
    arith.const: _same,
    arith.poison: _same,
    arith.hint: _same,
    memory.addptr: _same,
    descriptor.descriptor_pointers: _same,
    descriptor.im2col_pointers: _same,
    shape.arange: _same,
    shape.splat: _same,
    shape.broadcast: lambda op, layout: _collapsed(layout, op.inputs[0].type.shape),
    shape.expand_dims: lambda op, layout: _slice(layout, len(layout.outs) + op["axis"]),
    shape.trans: lambda op, layout: _permuted_back(layout, op["order"]),
    shape.reshape: lambda op, layout: reshape_axes(layout, op.inputs[0].type.shape),
}


# The layout of the results, from that of all tile operands; ops that are not listed keep it.
RESULT_RULES: dict[OpDef, Change] = {
    shape.expand_dims: lambda op, layout: _expanded(layout, len(layout.outs) + 1 + op["axis"]),
    shape.trans: lambda op, layout: _permuted(layout, op["order"]),
    shape.reshape: lambda op, layout: reshape_axes(layout, op["shape"]),
    shape.join: lambda op, layout: _joined(layout),
    reduce.reduce: lambda op, layout: _reduced(layout, op["axis"]),
    reduce.arg_reduce: lambda op, layout: _reduced(layout, op["axis"]),
    reduce.reduce_region: lambda op, layout: _reduced(layout, op["axis"]),
}


def result_layout(op: Operation, layout: LinearLayout) -> LinearLayout:
    """Return the layout of an operation's results, given one layout of all its tile operands."""
    rule = RESULT_RULES.get(op.defn)
    return layout if rule is None else rule(op, layout)


def is_flexible(op: Operation | None) -> bool:
    """Return True if the operation has one result, a tile, that can be required in any layout."""
    return (
        op is not None
        and (op.defn in OPERAND_RULES or _is_pure_elementwise(op))
        and len(op.results) == 1
        and isinstance(op.results[0].type, Tile)
    )


def _is_pure_elementwise(op: Operation) -> bool:
    """Return True also for PTX without effects: any elements may form a group there."""
    return (op.defn.elementwise or op.defn is inline_asm) and is_pure(op)


def operand_layout(op: Operation, layout: LinearLayout) -> LinearLayout:
    """Return the layout of all tile operands of a flexible operation from its result's layout."""
    return OPERAND_RULES.get(op.defn, _same)(op, layout)
