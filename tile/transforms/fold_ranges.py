"""Folding of integers and conditions that range analysis proves constant."""

from __future__ import annotations

from tile.analysis.ranges import ranges
from tile.ir.builder import Builder
from tile.ir.core import Function, Operation, Value
from tile.ir.effects import is_pure
from tile.ir.module import Module
from tile.ir.op_definition import Trait
from tile.ir.passes import module_pass
from tile.ir.rewriter import rewrite
from tile.ir.types import number_of
from tile.transforms.canonicalize.patterns import CANONICAL


@module_pass("fold-ranges")
def fold_ranges(module: Module) -> None:
    """Replace integers and conditions with one possible value by constants, and canonicalize.

    Masks go that are true in all iterations of a loop. ptxas (13.0) unrolls loops of loads without
    masks, so that many loads are in flight, and keeps loops with them.

        %n = const {value = 512} : i32              for %i = 0 to 512 step 8 {
        for %i = 0 to 512 step 8 {                    ..
          %k = add %i, %lanes : tile<8xi32>           %x = load %p : tile<8xf32>
          %m = cmp %k, %n {predicate = lt}          }
          %x = load %p, %m : tile<8xf32>
        }
    """
    for function in module:
        if _fold(function):
            rewrite(function, CANONICAL)


def _fold(function: Function) -> bool:
    """Replace the constant values of a function; return True if there were any."""
    bounds = ranges(function)
    changed = False
    for op in list(function.walk()):
        if not is_pure(op) or op.has_trait(Trait.CONSTANT) or op.regions:
            continue
        for value in op.results:
            interval = bounds.of(value)
            if interval is not None and interval.number is not None and value.uses:
                value.replace_by(_constant(op, value, interval.number))
                changed = True
    return changed


def _constant(op: Operation, value: Value, number: int) -> Value:
    is_bool = number_of(value.type).is_bool()
    return Builder.before(op).constant(bool(number) if is_bool else number, value.type)
