"""The pattern set of `canonicalize`, to which the other files of this package add patterns."""

from __future__ import annotations

from tile.ir.core import Operation, Value
from tile.ir.ops import arith
from tile.ir.rewriter import PatternSet, Rewriter
from tile.ir.types import Type
from tile.transforms.fold import fold

CANONICAL = PatternSet()


def constant(op: Operation, rewriter: Rewriter, number: bool | int | float, ty: Type) -> Value:
    """Insert a constant before `op`; the number has the kind of the type's element."""
    return rewriter.build(op, arith.const, value=number, result=ty)


@CANONICAL.pattern()
def constants(op: Operation, rewriter: Rewriter) -> bool:
    """Fold operations on constants."""
    number = fold(op)
    if number is None:
        return False
    rewriter.replace(op, [constant(op, rewriter, number, op.result.type)])
    return True
