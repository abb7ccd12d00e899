"""Branches that each warp takes or leaves by itself.

    grown = sums > limit                        # of a tile
    if tl.reduce_or(grown, axis=None):          # seldom
        x = tl.where(grown, costly(x), x)

The condition joins all warps: each waits for the slowest one, by a barrier. What the branch does to
a warp's elements is decided by the warp's own part of `grown`, so that suffices.
"""

from __future__ import annotations

from tile.ir.builder import Builder
from tile.ir.core import Block, Operation, Value
from tile.ir.effects import is_pure
from tile.ir.module import Module
from tile.ir.op_definition import Level, Trait
from tile.ir.ops import arith, control, reduce, shape
from tile.ir.passes import module_pass
from tile.ir.types import Tile
from tile.simt import ops
from tile.simt.layouts.dims import LANE, REGISTER
from tile.simt.ops.layout_inference import layout_of
from tile.transforms.dce import remove_dead

# They relabel the elements that a thread holds, or copy them.
_RENAMES = frozenset({shape.broadcast, shape.expand_dims, shape.reshape, shape.trans})


@module_pass("narrow-branches", before=Level.LAID_OUT)
def narrow_branches(module: Module) -> None:
    """Replace conditions of all warps by those of each, where a branch then does the same.

    The branch is taken if any element of a tile is true, and its results change only where one of
    these elements, of the same warp, is. All that it does is done inside of warps.

        %w = reduce_region %b {or} : tile<8xi1>   %w = reduce_region %b {or} : tile<8xi1>
        %e = convert_layout %w : tile<8xi1>       %c = warp_any %w : i1
        %c = reduce_region %e {or} : i1           %r = if %c {
        %r = if %c {                                %y = mul %x, %f
          %y = mul %x, %f                           %z = select %b, %y, %x
          %z = select %b, %y, %x                    yield %z
          yield %z                                } else {
        } else {                                    yield %x
          yield %x                                }
        }

    Threads exchange nothing through shared memory then, and need no barrier.
    """
    for function in module:
        narrowed = [op for op in function.walk() if op.defn is control.if_ and _narrow(op)]
        if narrowed:
            remove_dead(function)


def _narrow(branch: Operation) -> bool:
    """Let a branch have a condition of each warp; return True if that is possible."""
    own = _of_each_warp(branch.inputs[0])
    if own is None or not _changes_only_where(branch, _sources(own)):
        return False
    branch.set_operands([Builder.before(branch)(ops.layout.warp_any, own)])
    return True


def is_or(op: Operation | None) -> bool:
    """Return True for a reduction that tells whether any element is true."""
    if op is None or op.defn is not reduce.reduce_region or len(op.inputs) != 1:
        return False
    (region,) = op.regions
    first, last = region.first, region.last
    if first is None or first.defn is not arith.or_ or first.next is not last or last is None:
        return False
    return {*first.inputs} == {*region.args} and [*last.inputs] == [first.result]


def _of_each_warp(condition: Value) -> Value | None:
    """Return the tile of an element for each warp, any of which makes a condition true."""
    op = condition.op
    if op is None or not is_or(op):
        return None
    moved = op.inputs[0].op
    if moved is None or moved.defn is not ops.layout.convert_layout:
        return None
    own = moved.inputs[0]
    layout = layout_of(own)
    one = not layout.images(REGISTER) and not any(layout.images(LANE))
    return own if one and len(layout.outs) == 1 else None


def _sources(own: Value) -> set[Value]:
    """Return the tiles of which a true element makes that of its warp in `own` true."""
    sources = {own}
    while (op := own.op) is not None and (is_or(op) or op.defn in _RENAMES):
        own = op.inputs[0]
        sources.add(own)
    return sources


def _changes_only_where(branch: Operation, sources: set[Value]) -> bool:
    """Return True if a branch changes no element of a warp that has no true one of `sources`."""
    then, orelse = branch.regions
    if orelse.first is not orelse.last or not all(map(_stays_in_warp, then)):
        return False
    pairs = zip(then.yielded, orelse.yielded, strict=True)
    return all(new is old or _selects(new, old, then, sources) for new, old in pairs)


def _selects(new: Value, old: Value, then: Block, sources: set[Value]) -> bool:
    op = new.op
    if op is None or op.defn is not arith.select or op.block is not then:
        return False
    condition, _, otherwise = op.inputs
    return otherwise is old and _follows(condition, sources)


def _follows(condition: Value, sources: set[Value]) -> bool:
    """Return True if all elements of a tile are false in a warp where those of `sources` are."""
    while condition not in sources:
        op = condition.op
        if op is None or not (is_or(op) or op.defn in _RENAMES):
            return False
        condition = op.inputs[0]
    return True


def _stays_in_warp(op: Operation) -> bool:
    """Return True if a warp can do its part of an operation alone, or leave it undone."""
    if op.defn is control.yield_:
        return True
    alone = op.defn.elementwise or op.has_trait(Trait.CONSTANT)
    alone = alone or op.defn in _RENAMES or op.defn in (shape.splat, reduce.reduce_region)
    return alone and is_pure(op) and all(isinstance(value.type, Tile) for value in op.results)
