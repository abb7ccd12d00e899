"""Canonicalization of comparisons and selects."""

from __future__ import annotations

from tile.ir.core import Operation, Value
from tile.ir.effects import constant_of
from tile.ir.ops import arith
from tile.ir.ops.arith import Predicate
from tile.ir.rewriter import Rewriter
from tile.ir.types import I1, Pointer
from tile.transforms.canonical.arith import is_number
from tile.transforms.canonical.table import CANONICAL, constant

REFLEXIVE = frozenset({Predicate.EQ, Predicate.LE, Predicate.GE})
STRICT = frozenset({Predicate.LT, Predicate.GT})
EQUALITY = frozenset({Predicate.EQ, Predicate.NE})


def _ordered(value: Value) -> bool:
    """Return True if all values of the type are ordered: all types but floats, which have NaNs."""
    element = value.type.element
    return isinstance(element, Pointer) or not element.is_floating()


@CANONICAL.pattern(arith.cmp)
def constant_on_the_left(op: Operation, rewriter: Rewriter) -> bool:
    x, y = op.inputs
    if constant_of(x) is None or constant_of(y) is not None:
        return False
    value = rewriter.build(op, arith.cmp, y, x, predicate=op["predicate"].swapped)
    rewriter.replace(op, [value])
    return True


@CANONICAL.pattern(arith.cmp)
def compared_with_itself(op: Operation, rewriter: Rewriter) -> bool:
    """`x < x` is false even for a NaN; `x == x` is true only without NaNs."""
    x, y = op.inputs
    if x is not y or not (op["predicate"] in STRICT or _ordered(x)):
        return False
    holds = op["predicate"] in REFLEXIVE
    rewriter.replace(op, [constant(op, rewriter, holds, op.result.type)])
    return True


@CANONICAL.pattern(arith.cmp)
def boolean_compared_with_constant(op: Operation, rewriter: Rewriter) -> bool:
    """A boolean compared with a constant is itself or its negation."""
    x, y = op.inputs
    truth = constant_of(y)
    if x.type.element != I1 or truth is None or op["predicate"] not in EQUALITY:
        return False
    same = truth == (op["predicate"] is Predicate.EQ)
    rewriter.replace(op, [x if same else rewriter.build(op, arith.not_, x)])
    return True


@CANONICAL.pattern(arith.cmp)
def cast_boolean_compared_with_zero(op: Operation, rewriter: Rewriter) -> bool:
    """A boolean cast to a number and compared with zero is itself or its negation."""
    x, y = op.inputs
    source = x.op
    if source is None or source.defn is not arith.cast or op["predicate"] not in EQUALITY:
        return False
    truth = source.inputs[0]
    if truth.type.element != I1 or constant_of(y) != 0:
        return False
    same = op["predicate"] is Predicate.NE
    rewriter.replace(op, [truth if same else rewriter.build(op, arith.not_, truth)])
    return True


@CANONICAL.pattern(arith.not_)
def not_of_a_comparison(op: Operation, rewriter: Rewriter) -> bool:
    """Use the negated predicate; for floats this is exact for equality only."""
    inner = op.inputs[0].op
    if inner is None or inner.defn is not arith.cmp:
        return False
    x, y = inner.inputs
    if not (_ordered(x) or inner["predicate"] in EQUALITY):
        return False
    value = rewriter.build(op, arith.cmp, x, y, predicate=inner["predicate"].negated)
    rewriter.replace(op, [value])
    return True


@CANONICAL.pattern(arith.select)
def select_by_constant(op: Operation, rewriter: Rewriter) -> bool:
    """A select by a constant, or between equal values, is one of them."""
    condition, x, y = op.inputs
    truth = constant_of(condition)
    if truth is None and x is not y:
        return False
    rewriter.replace(op, [y if truth is False else x])
    return True


@CANONICAL.pattern(arith.select)
def select_of_booleans(op: Operation, rewriter: Rewriter) -> bool:
    """A select between true and false is the condition or its negation."""
    condition, x, y = op.inputs
    if is_number(x, True) and is_number(y, False):
        rewriter.replace(op, [condition])
        return True
    if is_number(x, False) and is_number(y, True):
        rewriter.replace(op, [rewriter.build(op, arith.not_, condition)])
        return True
    return False


@CANONICAL.pattern(arith.select)
def select_by_negation(op: Operation, rewriter: Rewriter) -> bool:
    condition, x, y = op.inputs
    inner = condition.op
    if inner is None or inner.defn is not arith.not_:
        return False
    rewriter.replace(op, [rewriter.build(op, arith.select, inner.inputs[0], y, x)])
    return True


@CANONICAL.pattern(arith.select)
def select_of_select(op: Operation, rewriter: Rewriter) -> bool:
    """A select nested in one with the same condition always takes the same side."""
    condition = op.inputs[0]
    for position in (1, 2):
        inner = op.inputs[position].op
        if inner is not None and inner.defn is arith.select and inner.inputs[0] is condition:
            rewriter.set_operand(op, position, inner.inputs[position])
            return True
    return False
