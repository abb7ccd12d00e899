"""Boxes that are stored go to global memory as a whole: a part of `expose-shared`.

    %y = convert_layout %x                    %m = alloc : shared<64x64xf16, #s>
    %q = box_pointers %p, %b, ...             local_store %m, %x
    store %q, %y, %inside                     bulk_store %m, %b, ...

So it is where the tile would go through shared memory anyway, to lie as threads store it best, and
has elements of 16 bits: what products give of wider ones meets in banks, in the order of boxes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tile.analysis.alias import Alias
from tile.ir.core import Function, Operation
from tile.ir.opdef import Effect
from tile.ir.ops import control, descriptor, memory
from tile.ir.ops.memory import CacheModifier, Eviction
from tile.ir.types import Shared, Tile
from tile.simt import ops
from tile.simt.layout_rules import LayoutBuilder
from tile.simt.layouts.factors import factor_layout
from tile.simt.layouts.layout import LinearLayout

ITEMSIZE = 2  # of the elements of boxes that are stored

# Whether a conversion goes through shared memory.
Through = Callable[[Operation], bool]


def store_boxes(
    function: Function, aliases: Callable[[], Mapping[str, Alias]], through: Through
) -> None:
    """Make stores of boxes bulk stores, where nothing else writes to the array.

    Bulk stores are not in order with what threads write, unless they are told.
    """
    writers = [op for op in function.walk() if Effect.WRITE in op.defn.effect]
    chosen = {op: layout for op in writers if (layout := _layout(op, through)) is not None}
    if not chosen or any(op.defn is control.call for op in writers):
        return
    share = aliases()[function.name].may_alias
    others = [op for op in writers if op not in chosen]
    for op, layout in chosen.items():
        if not any(share(op["ptr"], other["ptr"]) for other in others):
            _store(op, layout)


def _layout(op: Operation, through: Through) -> LinearLayout | None:
    """The layout of the buffer for a store; None if it is not to be a bulk store."""
    if op.defn is not memory.store:
        return None
    made, conversion, ty = op["ptr"].op, op["value"].op, op["value"].type
    if made is None or made.defn is not descriptor.box_pointers:
        return None
    if conversion is None or conversion.defn is not ops.layout.convert_layout:
        return None
    plain = op["cache"] is CacheModifier.NONE and op["eviction"] is Eviction.NONE
    if ty.rank != 2 or ty.element.itemsize != ITEMSIZE or not plain:
        return None
    if len(conversion.result.uses) > 1 or not through(conversion):
        return None
    return factor_layout(tuple(ty.shape), 8 * ty.element.itemsize, 1, ty.shape[1])


def _store(op: Operation, layout: LinearLayout) -> None:
    build = LayoutBuilder.before(op)
    conversion, box = op["value"].op, op["ptr"].op
    (value,) = conversion.inputs
    assert isinstance(value.type, Tile)
    mem = build(ops.shared.alloc, result=Shared(value.type.dims, value.type.of, layout))
    mem.name = value.name
    build.op(ops.shared.local_store, mem, value)
    build.op(ops.bulk.bulk_store, mem, *box.inputs[1:])
    op.erase()
    conversion.erase()
    if not box.result.uses:
        box.erase()
