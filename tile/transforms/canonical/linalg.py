"""Matrix products."""

from __future__ import annotations

from tile.ir.core import Operation
from tile.ir.effects import constant_of
from tile.ir.ops import arith, linalg
from tile.ir.rewriter import Rewriter
from tile.transforms.canonical.table import CANONICAL


@CANONICAL.pattern(arith.add)
def add_to_a_product(op: Operation, rewriter: Rewriter) -> bool:
    """`dot(a, b, 0) + x` is `dot(a, b, x)`: the sum of products has no promised order.

    Only where the product has no other use, and stands in the same block: it is not to be done
    more often.
    """
    for position, value in enumerate(op.inputs):
        dot = value.op
        if dot is None or dot.defn is not linalg.dot or dot.block is not op.block:
            continue
        a, b, acc = dot.inputs
        if len(value.uses) == 1 and constant_of(acc) == 0:
            addend = op.inputs[1 - position]
            product = rewriter.build(op, linalg.dot, a, b, addend, **dot.attributes)
            rewriter.replace(op, [product])
            return True
    return False
