"""Transfer rules of `ranges`, by operation: the exact interval of a result from its operands'.

A rule is called if every operand is an integer or boolean with an interval. It may return an
interval beyond the result's type, which then counts as wrapped, or None for an unknown interval.
The rule of an operation with several results returns a tuple.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from tile.analysis import interval
from tile.analysis.interval import BOOL, Interval
from tile.ir.core import Operation
from tile.ir.opdef import OpDef
from tile.ir.ops import arith, index, program, reduce, shape
from tile.ir.ops import math as math_ops
from tile.ir.ops.reduce import ReduceKind
from tile.ir.types import I32, Scalar

Fact = Interval | None
Rule = Callable[[Operation, Sequence[Interval]], Fact | tuple[Fact, ...]]

# A grid has up to 2**31 - 1 programs along an axis.
MOST_PROGRAMS = I32.max_value


def _number(op: Operation, _: Sequence[Interval]) -> Fact:
    value = op["value"]
    return None if isinstance(value, float) else Interval(int(value), int(value))


def _first(_: Operation, facts: Sequence[Interval]) -> Fact:
    return facts[0]


def _element(op: Operation) -> Scalar:
    """Return the element type of the first result."""
    element = op.results[0].type.element
    assert isinstance(element, Scalar)
    return element


def _plain(apply: Callable[..., Fact]) -> Rule:
    """Return the rule of integer arithmetic; it is None for booleans, which wrap modulo 2."""

    def rule(op: Operation, facts: Sequence[Interval]) -> Fact:
        return None if _element(op).is_bool() else apply(*facts)

    return rule


def _bits(apply: Callable[..., Fact]) -> Rule:
    return lambda op, facts: apply(*facts)


def _shift(apply: Callable[[Interval, Interval, int], Fact]) -> Rule:
    return lambda op, facts: apply(facts[0], facts[1], _element(op).bits)


def _not(op: Operation, facts: Sequence[Interval]) -> Fact:
    element = _element(op)
    ones = -1 if element.is_int_signed() else (1 << element.bits) - 1
    return Interval(ones - facts[0].high, ones - facts[0].low)


def _cmp(op: Operation, facts: Sequence[Interval]) -> Fact:
    return interval.cmp(op["predicate"], facts[0], facts[1])


def _select(_: Operation, facts: Sequence[Interval]) -> Fact:
    condition, x, y = facts
    if condition.number is not None:
        return x if condition.number else y
    return x.hull(y)


def _cast(op: Operation, facts: Sequence[Interval]) -> Fact:
    (x,) = facts
    if not _element(op).is_bool():
        return x
    if 0 not in x:
        return Interval(1, 1)
    return x if x.number == 0 else BOOL


def _reduce(op: Operation, facts: Sequence[Interval]) -> Fact:
    (x,) = facts
    count = op.inputs[0].type.shape[op["axis"]]
    if op["kind"] is ReduceKind.SUM:
        return None if _element(op).is_bool() else Interval(x.low * count, x.high * count)
    return x if op["kind"] in (ReduceKind.MAX, ReduceKind.MIN) else None


def _scan(op: Operation, facts: Sequence[Interval]) -> Fact:
    whole = _reduce(op, facts)
    return None if whole is None else whole.hull(facts[0])


def _arg_reduce(op: Operation, facts: Sequence[Interval]) -> tuple[Fact, ...]:
    count = op.inputs[0].type.shape[op["axis"]]
    return facts[0], Interval(0, count - 1)


RULES: dict[OpDef, Rule] = {
    arith.const: _number,
    arith.add: _plain(interval.add),
    arith.sub: _plain(interval.sub),
    arith.mul: _plain(interval.mul),
    arith.neg: _plain(interval.neg),
    arith.div: _plain(interval.div),
    arith.rem: _plain(interval.rem),
    arith.min_: _plain(interval.least),
    arith.max_: _plain(interval.greatest),
    arith.and_: _bits(interval.and_),
    arith.or_: _bits(interval.or_),
    arith.xor: _bits(interval.xor),
    arith.not_: _not,
    arith.shl: _shift(interval.shl),
    arith.shr: _shift(interval.shr),
    arith.cmp: _cmp,
    arith.select: _select,
    arith.cast: _cast,
    arith.bitcast: _first,
    arith.hint: _first,
    math_ops.abs_: _plain(interval.magnitude),
    program.program_id: lambda op, _: Interval(0, MOST_PROGRAMS - 1),
    program.num_programs: lambda op, _: Interval(1, MOST_PROGRAMS),
    shape.arange: lambda op, _: Interval(op["start"], op["end"] - 1),
    shape.splat: _first,
    shape.broadcast: _first,
    shape.expand_dims: _first,
    shape.reshape: _first,
    shape.trans: _first,
    shape.flip: _first,
    shape.join: lambda op, facts: facts[0].hull(facts[1]),
    shape.split: lambda op, facts: (facts[0], facts[0]),
    index.gather: _first,
    index.sort: _first,
    index.histogram: lambda op, _: Interval(0, math.prod(op.inputs[0].type.shape)),
    reduce.reduce: _reduce,
    reduce.scan: _scan,
    reduce.arg_reduce: _arg_reduce,
}

# Signed arithmetic that does not overflow in a correct program.
NO_WRAP = frozenset({arith.add, arith.sub, arith.mul, arith.neg, arith.shl})
