"""Backward layout inference: operand layouts that give a result a required layout.

This is the inverse of `result_layouts`. Operations whose result can be required in any layout are
*flexible*: they compute each element alone, or only rename axes.

    required of the result                        of the operand
    expand_dims {axis = -1} : (i, 0) is here      i is here
    trans {order = (1, 0)} : (i, j) is here       (j, i) is here
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

from tile.ir.core import Operation
from tile.ir.opdef import OpDef
from tile.ir.ops import arith, combine, descriptor, memory, reduce, shape
from tile.ir.types import Tile
from tile.simt.layout_rules import collapsed, joined, reduced
from tile.simt.layouts.axes import expand_axis, permute_axes, reshape_axes, slice_axis
from tile.simt.layouts.layout import LinearLayout

# The layout of all tiles among an operation's operands from that of its result, or the reverse.
Change = Callable[[Operation, LinearLayout], LinearLayout]

_collapsed = lru_cache(maxsize=1024)(collapsed)
_joined = lru_cache(maxsize=1024)(joined)
_reduced = lru_cache(maxsize=1024)(reduced)
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


INVERSES: dict[OpDef, Change] = {
    arith.const: _same,
    arith.poison: _same,
    arith.hint: _same,
    memory.addptr: _same,
    descriptor.box_pointers: _same,
    shape.arange: _same,
    shape.splat: _same,
    shape.broadcast: lambda op, layout: _collapsed(layout, op.inputs[0].type.shape),
    shape.expand_dims: lambda op, layout: _slice(layout, len(layout.outs) + op["axis"]),
    shape.trans: lambda op, layout: _permuted_back(layout, op["order"]),
    shape.reshape: lambda op, layout: reshape_axes(layout, op.inputs[0].type.shape),
}


# The layout of the results, from that of all tile operands; ops that are not listed keep it.
FORWARD: dict[OpDef, Change] = {
    shape.expand_dims: lambda op, layout: _expanded(layout, len(layout.outs) + 1 + op["axis"]),
    shape.trans: lambda op, layout: _permuted(layout, op["order"]),
    shape.reshape: lambda op, layout: reshape_axes(layout, op["shape"]),
    shape.join: lambda op, layout: _joined(layout),
    reduce.reduce: lambda op, layout: _reduced(layout, op["axis"]),
    reduce.arg_reduce: lambda op, layout: _reduced(layout, op["axis"]),
    combine.reduce_by: lambda op, layout: _reduced(layout, op["axis"]),
}


def forward(op: Operation, layout: LinearLayout) -> LinearLayout:
    """Return the layout of an operation's results, given one layout of all its tile operands."""
    rule = FORWARD.get(op.defn)
    return layout if rule is None else rule(op, layout)


def is_flexible(op: Operation | None) -> bool:
    """Return True if the operation has one result, a tile, that can be required in any layout."""
    return (
        op is not None
        and (op.defn in INVERSES or (op.defn.elementwise and op.defn.pure))
        and len(op.results) == 1
        and isinstance(op.results[0].type, Tile)
    )


def operand_layout(op: Operation, layout: LinearLayout) -> LinearLayout:
    """Return the layout of all tile operands of a flexible operation, given that of its result."""
    return INVERSES.get(op.defn, _same)(op, layout)
