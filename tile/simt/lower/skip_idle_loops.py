"""Branches around loops that do nothing in threads whose mask is false.

A mask that does not change in a loop, such as that of columns in a sum over rows, makes each load
predicated, and ptxas (13.0) unrolls no loop of predicated loads: a thread has one in flight. In the
threads that do run the loop, its loads need no mask.
"""

from __future__ import annotations

from tile.ir.builder import Builder
from tile.ir.core import Operation, Value
from tile.ir.effects import constant_of, is_zero, may_hang_silently, only_reads
from tile.ir.module import Module
from tile.ir.op_definition import Level, Trait
from tile.ir.ops import arith, control, memory
from tile.ir.passes import module_pass
from tile.ir.types import count_of
from tile.simt.ops import thread
from tile.transforms.region_utils import branch_around

# Besides elementwise operations and constants.
_OWN = frozenset(
    {memory.addptr, memory.load, thread.frag_shuffle, thread.frag_splat, thread.ptradd}
)


@module_pass("skip-idle-loops", before=Level.THREAD)
def skip_idle_loops(module: Module, *, simd_width: int = 1) -> None:
    """Branch around loops whose loads all have one mask, in threads where it is false.

    The mask is the same for all registers of a thread, and the loop's results are sums from 0 of
    loads, or selected by the mask.

        %sum = for .. iter(%old = %zeros) {      %c = frag_extract %mask : i1
          %x = load %p, %mask, %zeros            %sum = if %c {
          %new = add %old, %x                      %s = for .. iter(%old = %zeros) {
          yield %new                                 %x = load %p, %true, %zeros
        }                                            %new = add %old, %x
                                                     yield %new
                                                   }
                                                   yield %s
                                                 } else {
                                                   yield %zeros
                                                 }

    Where lanes are those of SIMD vectors, masks cost nothing and branches do.
    """
    if simd_width > 1:
        return
    for op in [op for op in module.walk() if op.defn is control.for_]:
        mask = _idle_mask(op)
        if mask is not None and constant_of(mask) is None and _is_uniform(mask):
            _skip(op, mask)


def _skip(loop: Operation, mask: Value) -> None:
    build = Builder.before(loop)
    active = thread.splatted(mask)
    if active is None:
        active = build(thread.frag_extract, mask)
    true = build.constant(True, mask.type)
    for op in loop.regions[0]:
        op.set_operands([true if value is mask else value for value in op.operands])
    branch_around(loop, active)


def _is_uniform(mask: Value) -> bool:
    """Return True if all registers of a mask hold the same number."""
    if thread.splatted(mask) is not None or count_of(mask.type) == 1:
        return True
    op = mask.op
    return op is not None and op.defn is thread.frag_shuffle and len({*op["registers"]}) == 1


def _idle_mask(loop: Operation) -> Value | None:
    """Return the mask of a loop's loads without which it changes no value; None without one."""
    (body,) = loop.regions
    masks = {op["mask"] for op in body if op.defn is memory.load} - {None}
    if len(masks) != 1 or may_hang_silently(loop):
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
    """Return True if a value is 0 where the mask is false: not loaded, not chosen, or a square."""
    op = value.op
    if op is None:
        return False
    if op.defn is memory.load:
        return op["mask"] is mask and is_zero(op["other"])
    if op.defn is arith.select:
        return op.inputs[0] is mask and is_zero(op.inputs[2])
    return op.defn in (arith.cast, arith.mul) and all(_is_zero(each, mask) for each in op.inputs)
