"""Lower stores through descriptors to TMA stores: a part of `expose-shared`.

    %y = convert_layout %x                    %m = local_alloc : shared<64x64xf16, #s>
    %q = descriptor_pointers %p, %b, ...             local_store %m, %x
    store %q, %y, %inside                     tma_store %m, %b, ...

This applies where the tile would go through shared memory anyway, to be converted to a coalesced
layout, and has 16-bit elements: accumulator layouts of wider elements have bank conflicts in the
row order of descriptor blocks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tile.analysis.alias import Alias, rely_on_disjoint
from tile.ir.core import Effect, Function, Operation
from tile.ir.ops import control, descriptor, memory
from tile.ir.ops.memory import CacheModifier, Eviction
from tile.simt import ops
from tile.simt.hopper.wgmma_layouts import operand_layout_in_shared
from tile.simt.layouts.linear_layout import LinearLayout
from tile.simt.ops.layout_inference import LayoutBuilder

ITEMSIZE = 2  # bytes of the elements that TMA stores are used for

# A predicate: True if a conversion goes through shared memory.
IsThroughShared = Callable[[Operation], bool]


def lower_tma_stores(
    function: Function, aliases: Callable[[], Mapping[str, Alias]], through: IsThroughShared
) -> None:
    """Lower stores of descriptor blocks to TMA stores where no other operation writes to the array.

    TMA stores are not ordered with the writes of threads without a proxy fence.
    """
    writers = [op for op in function.walk() if Effect.WRITE in op.defn.effect]
    chosen = {op: layout for op in writers if (layout := _layout(op, through)) is not None}
    if not chosen or any(op.defn is control.call for op in writers):
        return
    alias = aliases()[function.name]
    others = [op["ptr"] for op in writers if op not in chosen]
    for op, layout in chosen.items():
        if not any(alias.may_alias(op["ptr"], other) for other in others):
            for other in others:
                rely_on_disjoint(aliases(), function, alias.assumed(op["ptr"], other))
            _store(op, layout)


def _layout(op: Operation, through: IsThroughShared) -> LinearLayout | None:
    """Return the layout of the buffer for a store; None if it does not become a TMA store."""
    if op.defn is not memory.store:
        return None
    made, conversion, ty = op["ptr"].op, op["value"].op, op["value"].type
    if made is None or made.defn is not descriptor.descriptor_pointers:
        return None
    if conversion is None or conversion.defn is not ops.layout.convert_layout:
        return None
    plain = op["cache"] is CacheModifier.NONE and op["eviction"] is Eviction.NONE
    if ty.rank != 2 or ty.element.itemsize != ITEMSIZE or not plain:
        return None
    if len(conversion.result.uses) > 1 or not through(conversion):
        return None
    return operand_layout_in_shared(tuple(ty.shape), ty.element.storage_bits, 1, ty.shape[1])


def _store(op: Operation, layout: LinearLayout) -> None:
    build = LayoutBuilder.before(op)
    conversion, pointers = op["value"].op, op["ptr"].op
    (value,) = conversion.inputs
    mem = build.store(value, layout, value.name)
    build.op(ops.tma.tma_store, mem, *pointers.inputs[1:])
    op.erase()
    conversion.erase()
    if not pointers.result.uses:
        pointers.erase()
