"""The pattern set of `canonicalize`, to which the other files of this package add patterns."""

from __future__ import annotations

from tile.ir.core import Operation, Value
from tile.ir.op_definition import OpDef
from tile.ir.ops import arith
from tile.ir.rewriter import PatternSet, Rewriter
from tile.ir.types import Type
from tile.transforms.fold import fold

CANONICAL = PatternSet()


def constant(op: Operation, rewriter: Rewriter, number: bool | int | float, ty: Type) -> Value:
    """Insert a constant before `op`; the number has the kind of the type's element."""
    return rewriter.build(op, arith.const, value=number, result=ty)


def producer(value: Value, *defns: OpDef) -> Operation | None:
    """Return the operation that computes a value, if it is one of these."""
    return value.op if value.op is not None and value.op.defn in defns else None


@CANONICAL.simplification()
def constants(op: Operation, rewriter: Rewriter) -> Value | None:
    """Fold operations on constants."""
    number = fold(op)
    return None if number is None else constant(op, rewriter, number, op.result.type)
