"""Two places in shared memory for what a round computes and stores for its products.

The next round would store over it while products that go on into that one (`running`) still read.
So rounds take two places in turns, if there is room:

    %y = exp2 %x                              %place = slot %m, %turn
    %r = group_dot %a, %y, %acc               local_store %place, %y
    %s = group_wait %r {pending = 0}          %r = group_dot %a, %place, %acc
                                              %s = group_wait %r {pending = 1}
"""

from __future__ import annotations

from collections.abc import Collection

from tile.ir.core import Operation, Value
from tile.ir.types import Shared
from tile.simt.expose_factors import stored_factors, stored_layout
from tile.simt.layout_rules import LayoutBuilder
from tile.simt.layouts.layout import LinearLayout
from tile.simt.ops import group, shared
from tile.simt.pipeline_loops.factors import factors
from tile.simt.pipeline_loops.room import Factor
from tile.simt.pipeline_loops.running import only_carried


def to_double(
    loop: Operation, copied: Collection[Operation], stored: Collection[Operation]
) -> list[Factor]:
    """The factors that need two places for a loop's products to go on; none where that is no use.

    `copied` are the loads that become rings of buffers, and `stored` those that threads store to
    buffers of their own, which may be written again in a round: products of these do not go on.
    """
    body = loop.regions[0]
    served = {(f.product, f.index) for load in copied for f in factors(load.result)}
    taken = {(f.product, f.index) for load in stored for f in factors(load.result)}
    found = [
        (product, index)
        for product in body
        if product.defn is group.group_dot
        for index in stored_factors(product)
        if product.inputs[index].block is body and (product, index) not in served | taken
    ]
    return found if only_carried(loop, served | {*found}) else []


def store_in_turns(loop: Operation, doubled: Collection[Factor], turn: Value) -> None:
    """Store factors where they are made, to the place whose turn it is."""
    outside = LayoutBuilder.before(loop)
    places: dict[tuple[Value, LinearLayout], Value] = {}
    for product, index in doubled:
        value, layout = product.inputs[index], stored_layout(product, index)
        if (value, layout) not in places:
            places[value, layout] = _stored(outside, value, layout, turn)
        product.set_operand(index, places[value, layout])


def _stored(outside: LayoutBuilder, value: Value, layout: LinearLayout, turn: Value) -> Value:
    ty, made, block = value.type, value.op, value.block
    buffer = Shared(tuple(ty.shape), ty.element, layout, 2)
    loc = outside.loc if made is None else made.loc
    with outside.at(loc):
        ring = outside(shared.alloc, result=buffer)
    ring.name = value.name
    build = LayoutBuilder(block, block.first if made is None else made.next, loc)
    place = build(shared.slot, ring, turn, shift=0)
    build.op(shared.local_store, place, value)
    return place
