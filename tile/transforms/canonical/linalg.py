"""Canonicalization of dots."""

from __future__ import annotations

from tile.ir.core import Operation
from tile.ir.effects import constant_of
from tile.ir.ops import arith, linalg
from tile.ir.rewriter import Rewriter
from tile.transforms.canonical.table import CANONICAL


@CANONICAL.pattern(arith.add)
def add_to_dot(op: Operation, rewriter: Rewriter) -> bool:
    """`dot(a, b, 0) + x` is `dot(a, b, x)`: the order of the sum is unspecified.

    The dot must have no other use and be in the same block, so that it does not run more often.
    """
    for position, value in enumerate(op.inputs):
        dot = value.op
        if dot is None or dot.defn is not linalg.dot or dot.block is not op.block:
            continue
        a, b, acc = dot.inputs
        if len(value.uses) == 1 and constant_of(acc) == 0:
            addend = op.inputs[1 - position]
            fused = rewriter.build(op, linalg.dot, a, b, addend, **dot.attributes)
            rewriter.replace(op, [fused])
            return True
    return False
