"""Lower bounds of floats, from the operations that compute them.

Approximate divisions, reciprocals and square roots take several instructions for operands that are
subnormal. Many operands are not: a sigmoid divides by a number plus 1, a normalization takes the
root of a number plus a small constant.
"""

from __future__ import annotations

import math as floats
from collections.abc import Callable

import numpy as np

from tile.ir.core import Operation, Value
from tile.ir.effects import constant_of
from tile.ir.op_definition import OpDef
from tile.ir.ops import arith, math
from tile.ir.types import F32, number_of
from tile.simt.ops import thread

# The operations whose result has elements of their first operand.
_FORWARDING = frozenset(
    {thread.frag_splat, thread.frag_shuffle, thread.frag_extract, thread.shuffle_xor}
)
_NOT_NEGATIVE = frozenset({math.exp, math.exp2, math.abs_, math.sqrt})
_DEPTH = 12  # operations of a chain that are looked at
LEAST_NORMAL = 2.0**-126


def lower_bound(value: Value, depth: int = _DEPTH) -> float:
    """Return a number that no element of a value is less than; NaNs may be among them."""
    number = constant_of(value)
    if number is not None:
        return -floats.inf if floats.isnan(number) else float(number)
    op = value.op
    if op is None or not depth or number_of(value.type) is not F32:
        return -floats.inf
    if op.defn in _FORWARDING:
        return min(lower_bound(x, depth - 1) for x in op.inputs)
    if op.defn in _NOT_NEGATIVE or (op.defn is arith.mul and op.inputs[0] is op.inputs[1]):
        return 0.0
    rule = _RULES.get(op.defn)
    return -floats.inf if rule is None else rule(op, depth - 1)


def _sum(op: Operation, depth: int) -> float:
    """Rounding to nearest is monotonic: a sum is no less than the rounded sum of the bounds."""
    x, y = (np.float32(lower_bound(value, depth)) for value in op.inputs)
    return float(x + y)


def _product(op: Operation, depth: int) -> float:
    return 0.0 if min(lower_bound(value, depth) for value in op.inputs) >= 0 else -floats.inf


def _maximum(op: Operation, depth: int) -> float:
    """A maximum is no less than a constant; with a NaN, it is the other operand."""
    constants = [lower_bound(value) for value in op.inputs if constant_of(value) is not None]
    return max([*constants, _least(op, depth)])


def _least(op: Operation, depth: int) -> float:
    return min(lower_bound(value, depth) for value in op.inputs[-2:])


_RULES: dict[OpDef, Callable[[Operation, int], float]] = {
    arith.add: _sum,
    arith.mul: _product,
    arith.div: _product,
    arith.max_: _maximum,
    arith.min_: _least,
    arith.select: _least,
}
