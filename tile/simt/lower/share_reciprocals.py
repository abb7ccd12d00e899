"""Multiply by the reciprocal of a float that divides many elements.

A target whose division of f32 is approximate multiplies by an approximate reciprocal. Where that
of the divisor would overflow or be subnormal, it scales both operands by a power of two, for each
quotient anew: a thread takes three multiplications, two of them predicated. With the power applied
last instead, both it and the reciprocal are computed once for all quotients:

    s = 2**-2 for |d| > 2**126, 2**24 for |d| < 2**-126, else 1
    x / d = (x * (1 / (d * s))) * s

The roundings are the same; a quotient that is subnormal may be rounded once more.
"""

from __future__ import annotations

from dataclasses import dataclass

from tile.ir.builder import Builder
from tile.ir.core import Function, Operation, Value
from tile.ir.effects import constant_of
from tile.ir.expressions import Expression
from tile.ir.module import Module
from tile.ir.op_definition import Level
from tile.ir.ops import arith
from tile.ir.passes import module_pass
from tile.ir.types import F32, Fragment, Kind, Scalar, count_of
from tile.simt import ops
from tile.simt.lower.divide_by_invariants import computed_after, weight_of
from tile.simt.target import GENERIC, SimtTarget

_LARGEST, _SMALLEST = 2.0**126, 2.0**-126  # divisors whose reciprocals are normal numbers
_DOWN, _UP = 2.0**-2, 2.0**24


@module_pass("share-reciprocals", before=Level.THREAD)
def share_reciprocals(module: Module, *, target: SimtTarget = GENERIC) -> None:
    """Divide f32 by scalars, or by few registers for many, by a reciprocal that is computed once.

        %b = frag_splat %d {count = 32}    %s = ... // of %d, once
        %q = div %x, %b                    %r = div %1, (mul %d, %s)
                                           %p = mul %x, (frag_splat %r)
                                           %q = mul %p, (frag_splat %s)

    Elements in loops that the divisor does not change in count several times. A divisor that was an
    integer needs no scale. Targets whose `div` is the nearest quotient divide.
    """
    if not target.approximate_division:
        return
    for function in module:
        for divisor, divisions in _by_divisor(function).items():
            elements = sum(weight_of(op, divisor, target) for op in divisions)
            if elements >= target.tuning.quotients_by_reciprocal * count_of(divisor.type):
                reciprocal = _reciprocal(computed_after(divisor))
                for op in divisions:
                    reciprocal.multiply(op)


def _by_divisor(function: Function) -> dict[Value, list[Operation]]:
    """Return the divisions of f32 by few numbers, by the value that holds these."""
    divisions: dict[Value, list[Operation]] = {}
    for op in function.walk():
        if op.defn is not arith.div or op.result.type.element != F32:
            continue
        source = _source(op.inputs[1])
        if source is not None and constant_of(source) is None and constant_of(op.inputs[0]) is None:
            divisions.setdefault(source, []).append(op)
    return divisions


def _source(divisor: Value) -> Value | None:
    """Return the value whose numbers fill the registers of a divisor; None if it is the divisor."""
    op = divisor.op
    if op is None or not isinstance(divisor.type, Fragment) or len(op.inputs) != 1:
        return None
    return op.inputs[0] if op.defn in (ops.thread.frag_splat, ops.thread.frag_shuffle) else None


@dataclass(frozen=True)
class _Reciprocal:
    """The scale of a divisor, None if it needs none, and the reciprocal of the scaled divisor."""

    scale: Value | None
    reciprocal: Value

    def multiply(self, op: Operation) -> None:
        """Replace a quotient."""
        build, spread = Builder.before(op), op.inputs[1].op
        assert spread is not None
        with build.at(op.loc):
            result = op.inputs[0]
            for number in (self.reciprocal, self.scale):
                if number is not None:
                    whole = build(spread.defn, number, **spread.attributes)
                    result = build(arith.mul, result, whole)
        op.replace_by([result])


def _reciprocal(divisor: Expression) -> _Reciprocal:
    scale = None if _was_integer(divisor.value) else _scale(divisor)
    scaled = divisor if scale is None else divisor * scale
    reciprocal = divisor.constant(1.0).apply(arith.div, scaled)
    return _Reciprocal(None if scale is None else scale.value, reciprocal.value)


def _was_integer(divisor: Value) -> bool:
    """Return True if the reciprocal of a nonzero divisor is a normal number in any case."""
    if divisor.op is None or divisor.op.defn is not arith.cast:
        return False
    element = divisor.op.inputs[0].type.element
    return isinstance(element, Scalar) and element.kind is not Kind.FLOAT


def _scale(divisor: Expression) -> Expression:
    size = divisor.absolute()
    large = size > _LARGEST
    up = (size < _SMALLEST).select(size.constant(_UP), 1.0)
    return large.select(size.constant(_DOWN), up)
