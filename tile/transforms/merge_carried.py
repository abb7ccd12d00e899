"""Merge loop-carried values that are equal in every iteration."""

from __future__ import annotations

from collections.abc import Iterator

from tile.ir.core import Operation, Value
from tile.ir.effects import is_pure
from tile.ir.module import Module
from tile.ir.ops import control
from tile.ir.passes import module_pass
from tile.transforms.region_utils import first_carried, shrink, stop_passing


@module_pass("merge-carried", before=None)
def merge_carried(module: Module) -> None:
    """Merge values that a `for` carries if they begin equal and are updated equally.

    Loops over block pointers carry such values: the offset along k of each operand of a dot.

        for ... iter(%a = %x, %b = %x) {          for ... iter(%a = %x) {
          %c = add %a, %s : i32                     %c = add %a, %s : i32
          %d = add %b, %s : i32
          use %a, %b                                use %a, %a
          yield %c, %d                              yield %c
        }                                         }
    """
    for function in module:
        for loop in [op for op in function.walk() if op.defn is control.for_]:
            for original, duplicate in list(_equal(loop)):
                loop = _merge(loop, original, duplicate)


def _equal(loop: Operation) -> Iterator[tuple[int, int]]:
    """Yield pairs of the positions of equal carried values, the last ones first."""
    inits = loop.inputs[len(loop.defn.operands) :]
    body, first = loop.regions[0], first_carried(loop)
    for duplicate in reversed(range(len(inits))):
        for original in range(duplicate):
            values = body.args[first + original], body.args[first + duplicate]
            updates = body.yielded[original], body.yielded[duplicate]
            if inits[original] is inits[duplicate] and _same_update(*updates, *values):
                yield original, duplicate
                break


def _same_update(x: Value, y: Value, a: Value, b: Value) -> bool:
    """Return True if `x` is to `a` what `y` is to `b`: the results of equal pure operations."""
    if x.op is None or y.op is None or not is_pure(x.op) or x.op.regions:
        return False
    alike = x.op.defn is y.op.defn and x.op.attributes == y.op.attributes and x.index == y.index
    operands = zip(x.op.operands, y.op.operands, strict=False)
    return (
        alike
        and x.type == y.type
        and len(x.op.operands) == len(y.op.operands)
        and all(p is q or (p is a and q is b) for p, q in operands)
    )


def _merge(loop: Operation, original: int, duplicate: int) -> Operation:
    """Use one carried value in place of another; return the loop without the latter."""
    arguments, first = loop.regions[0].args, first_carried(loop)
    arguments[first + duplicate].replace_by(arguments[first + original])
    loop.results[duplicate].replace_by(loop.results[original])
    stop_passing(loop, [duplicate])
    return shrink(loop, [duplicate])
