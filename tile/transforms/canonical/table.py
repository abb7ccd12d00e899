"""The patterns of `canonicalize`, which the other files here fill in by family of operations."""

from __future__ import annotations

from tile.ir.core import Operation, Value
from tile.ir.ops import arith
from tile.ir.rewriter import PatternSet, Rewriter
from tile.ir.types import Type
from tile.transforms.fold import fold

CANONICAL = PatternSet()


def constant(op: Operation, rewriter: Rewriter, number: bool | int | float, ty: Type) -> Value:
    """A new constant in front of `op`; the number is of the kind that the type holds."""
    return rewriter.build(op, arith.const, value=number, result=ty)


@CANONICAL.pattern()
def constants(op: Operation, rewriter: Rewriter) -> bool:
    """Operations on constants are constants."""
    number = fold(op)
    if number is None:
        return False
    rewriter.replace(op, [constant(op, rewriter, number, op.result.type)])
    return True
