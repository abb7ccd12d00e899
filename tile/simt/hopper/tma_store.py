"""Lower stores through descriptors to TMA stores: a part of `expose-shared`.

    %y = convert_layout %x                    %m = local_alloc : shared<64x64xf16, #s>
    %q = descriptor_pointers %p, %b, ...      local_store %m, %x
    store %q, %y, %inside                     tma_store %m, %b, ...
                                              tma_store_wait %m

This applies where the tile would go through shared memory anyway, to be converted to a coalesced
layout, and has 16-bit elements: accumulator layouts of wider elements have bank conflicts in the
row order of descriptor blocks.

A store in a loop of a warp-specialized kernel overlaps with the next iteration, if nothing in the
kernel reads the array. Its buffer, which is live throughout the loop, is waited for just before it
is written again, and after the loop. In other kernels the buffer shares memory with those of inner
loops, so the store is waited for at once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tile.analysis.alias import Alias, rely_on_disjoint
from tile.ir.core import Effect, Function, Operation, Trait, Value
from tile.ir.ops import control, descriptor, memory
from tile.ir.ops.memory import CacheModifier, Eviction
from tile.ir.types import Shared
from tile.simt import ops
from tile.simt.hopper.wgmma_layouts import operand_layout_in_shared
from tile.simt.layouts.linear_layout import LinearLayout
from tile.simt.ops.layout_inference import LayoutBuilder
from tile.simt.ops.shared import local_alloc

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
    read = [op["ptr"] for op in function.walk() if Effect.READ in op.defn.effect and _has_ptr(op)]
    specialized = any(op.defn is ops.warp_specialize.warp_specialize for op in function.body)
    for op, layout in chosen.items():
        if not any(alias.may_alias(op["ptr"], other) for other in others):
            for other in others:
                rely_on_disjoint(aliases(), function, alias.assumed(op["ptr"], other))
            is_read = any(alias.may_alias(op["ptr"], other) for other in read)
            loops = [outer for outer in op.ancestors() if outer.has_trait(Trait.LOOP)]
            if specialized and loops and not is_read:
                for other in read:
                    rely_on_disjoint(aliases(), function, alias.assumed(op["ptr"], other))
                _store_in_loop(op, layout, loops[-1])
            else:
                _store(op, layout)


def _has_ptr(op: Operation) -> bool:
    return "ptr" in op.defn.positions


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
    """Lower a store, and wait for it."""
    build = LayoutBuilder.before(op)
    mem = build(local_alloc, result=_buffer(op, layout))
    _replace(op, build, mem)
    build.op(ops.tma.tma_store_wait, mem)
    _erase(op)


def _store_in_loop(op: Operation, layout: LinearLayout, outermost: Operation) -> None:
    """Lower a store in a loop, which the loop's next iteration waits for."""
    mem = LayoutBuilder.before(outermost)(local_alloc, result=_buffer(op, layout))
    build = LayoutBuilder.before(op)
    build.op(ops.tma.tma_store_wait, mem, read=True)
    _replace(op, build, mem)
    assert outermost.block is not None
    after = LayoutBuilder(outermost.block, outermost.next, op.loc)
    after.op(ops.tma.tma_store_wait, mem, read=True)
    _erase(op)


def _buffer(op: Operation, layout: LinearLayout) -> Shared:
    ty = op["value"].type
    return Shared(tuple(ty.shape), ty.element, layout)


def _replace(op: Operation, build: LayoutBuilder, mem: Value) -> None:
    """Build the TMA store of an operation through a buffer."""
    (value,) = op["value"].op.inputs
    mem.name = value.name
    build.op(ops.shared.local_store, mem, value)
    build.op(ops.tma.tma_store, mem, *op["ptr"].op.inputs[1:])


def _erase(op: Operation) -> None:
    conversion, pointers = op["value"].op, op["ptr"].op
    op.erase()
    conversion.erase()
    if not pointers.result.uses:
        pointers.erase()
