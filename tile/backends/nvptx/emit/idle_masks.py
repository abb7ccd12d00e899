"""Loops that do nothing in threads whose mask is false."""

from __future__ import annotations

from tile.ir.core import Operation, Value
from tile.ir.effects import is_zero, may_hang_silently, only_reads
from tile.ir.op_definition import Trait
from tile.ir.ops import arith, control, memory
from tile.simt.ops import thread

# Besides elementwise operations and constants.
_OWN = frozenset(
    {memory.addptr, memory.load, thread.frag_shuffle, thread.frag_splat, thread.ptradd}
)


def idle_mask(loop: Operation) -> Value | None:
    """Return the mask of a loop's loads without which it changes no value; None without one.

    Its threads exchange nothing, and its results are sums from 0 of loads, or selected:

        for .. iter(%old = %zeros) {                 for .. iter(%old = ..) {
          %x = load %p, %mask, %zeros                  %x = load %p, %mask, ..
          %new = add %old, %x                          ..
          yield %new                                   %new = select %mask, %y, %old
        }                                              yield %new
                                                     }
    """
    (body,) = loop.regions
    masks = {op["mask"] for op in body if op.defn is memory.load} - {None}
    if loop.defn is not control.for_ or len(masks) != 1 or may_hang_silently(loop):
        return None
    mask: Value = masks.pop()
    if mask.block is body or not all(map(_is_own_work, body)):
        return None
    carried = zip(loop.results, loop.inputs[3:], body.args[1:], body.yielded, strict=True)
    changed = [
        result
        for result, first, old, new in carried
        if result.uses and not _is_unchanged(first, old, new, mask)
    ]
    return None if changed else mask


def _is_own_work(op: Operation) -> bool:
    """Return True for operations that a thread may do or leave undone by itself."""
    alone = op.defn.elementwise or op.has_trait(Trait.CONSTANT) or op.defn in _OWN
    return op.defn.terminator or (alone and only_reads(op))


def _is_unchanged(first: Value, old: Value, new: Value, mask: Value) -> bool:
    """Return True if a value remains `first`, which the loop carries, where the mask is false."""
    op = new.op
    if op is None:
        return new is old
    if op.defn is arith.select:
        return op.inputs[0] is mask and op.inputs[2] is old
    if op.defn is not arith.add or old not in op.inputs or not is_zero(first):
        return False
    return all(value is old or _is_zero(value, mask) for value in op.inputs)


def _is_zero(value: Value, mask: Value) -> bool:
    """Return True if a value is 0 where the mask is false: what is not loaded, or its square."""
    op = value.op
    if op is not None and op.defn is memory.load:
        return op["mask"] is mask and is_zero(op["other"])
    return (
        op is not None
        and op.defn in (arith.cast, arith.mul)
        and all(_is_zero(each, mask) for each in op.inputs)
    )
