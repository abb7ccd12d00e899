"""Divide by uniform divisors by multiplication with a reciprocal that is computed once.

LLVM multiplies by a reciprocal where the divisor is a constant. For a divisor that is known at run
time, ptxas shares the reciprocal, but needs 10 to 14 instructions for each quotient, which it
corrects twice. Here it is 3 to 5, and one more for the remainder, after 35 for the reciprocal.

The reciprocal is that of Granlund and Montgomery, "Division by Invariant Integers using
Multiplication" (1994), figure 5.1, which is exact for all signed dividends of 32 bits:

    s = ceil(log2(d)) - 1, at least 0      m = floor(2**(32 + s) / d) + 1 - 2**32
    n / d = ((mulhi(m, n) + n) >> s) - (n >> 31)

A negative divisor negates the quotient. The quotient by 0, which is undefined, is that by 1.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tile.analysis.ranges import Ranges, ranges
from tile.ir.builder import Builder
from tile.ir.core import Function, Operation, Value
from tile.ir.effects import constant_of
from tile.ir.expressions import Expression, operands
from tile.ir.module import Module
from tile.ir.op_definition import Level, Trait
from tile.ir.ops import arith
from tile.ir.passes import module_pass
from tile.ir.types import F32, I32, U32, U64, Fragment, count_of
from tile.simt import ops
from tile.simt.target import GENERIC, SimtTarget

# Quotients of f32 are exact to 2 ulp, and conversions to half of one. Scaled by this number, an
# approximate quotient does not exceed the exact one.
_BELOW = 1 - 2.0**-20
_EXPONENT_BIAS = 127
_MANTISSA_BITS = 23


@module_pass("divide-by-invariants", before=Level.THREAD)
def divide_by_invariants(module: Module, *, target: SimtTarget = GENERIC) -> None:
    """Multiply by the reciprocal of a uniform divisor of 32 bits that divides many elements.

        %b = frag_splat %d {count = 8}      %m, %s, %sign = ... // of %d, once
        %q = div %n, %b                     %h = mulhi %n, (frag_splat %m)
        %r = rem %n, %b                     %a = shr (add %h, %n), (frag_splat %s)
                                            %q = mul (sub %a, (shr %n, %31)), (frag_splat %sign)
                                            %r = sub %n, (mul %q, %b)

    Elements in loops that the divisor does not change in count several times. What ranges exclude
    is left out: negative dividends, and negative divisors.
    """
    for function in module:
        divisions = _by_divisor(function)
        if not divisions:
            continue
        bounds = ranges(function)
        signs = {op: _Signs.of(op, by, bounds) for by, of in divisions.items() for op in of}
        for divisor, of in divisions.items():
            elements = sum(weight_of(op, divisor, target) for op in _distinct(of))
            if elements >= target.tuning.divisions_by_reciprocal:
                reciprocal = _reciprocal(computed_after(divisor))
                for op in of:
                    _multiply(op, reciprocal, signs[op])


@dataclass(frozen=True)
class _Signs:
    """Facts about a division: dividend and divisor are never negative."""

    dividend: bool
    divisor: bool

    @classmethod
    def of(cls, op: Operation, divisor: Value, bounds: Ranges) -> _Signs:
        intervals = bounds.operand(op, 0), bounds.of(divisor)
        return cls(*(interval is not None and interval.low >= 0 for interval in intervals))


@dataclass(frozen=True)
class _Reciprocal:
    """Scalars of type i32: see the module."""

    multiplier: Value
    shift: Value
    sign: Value  # that of the divisor, 1 or -1


def _by_divisor(function: Function) -> dict[Value, list[Operation]]:
    """Return the divisions of signed integers of 32 bits, by their uniform divisor."""
    divisions: dict[Value, list[Operation]] = {}
    for op in function.walk():
        if op.has_trait(Trait.DIVISION) and op.result.type.element == I32:
            divisor = ops.thread.splatted(op.inputs[1])
            if divisor is not None and constant_of(divisor) is None:
                divisions.setdefault(divisor, []).append(op)
    return divisions


def _distinct(divisions: list[Operation]) -> Iterator[Operation]:
    """Yield one of the divisions of each dividend: quotient and remainder are computed together."""
    yield from {(op.inputs[0], op.block): op for op in divisions}.values()


def weight_of(op: Operation, divisor: Value, target: SimtTarget) -> int:
    """Return how many elements are divided for one computation of the reciprocal."""
    weight = count_of(op.result.type)
    for outer in op.ancestors():
        if outer is divisor.block.parent:
            break
        if outer.has_trait(Trait.LOOP):
            weight *= target.tuning.loop_weight
    return weight


def computed_after(value: Value) -> Expression:
    """Return a value as an expression, whose operations go right after it."""
    after = value.op.next if value.op is not None else value.block.first
    assert after is not None, "a value that is used is followed by its use"
    build = Builder.before(after)
    build.loc = None if value.op is None else value.op.loc
    return Expression(build, value)


def _reciprocal(divisor: Expression) -> _Reciprocal:
    sign = (divisor < 0).select(divisor.constant(-1), 1)
    size = (divisor * sign).cast(U32).maximum(1)
    shift = _log2(size)
    multiplier = _quotient(size, shift) + 1
    return _Reciprocal(*(x.value for x in (multiplier.view(I32), shift.cast(I32), sign)))


def _log2(size: Expression) -> Expression:
    """Return ceil(log2(size)) - 1, at least 0: the exponent of size - 1 as a float."""
    below = (size - 1).maximum(1)
    # With the bit after the first one cleared, rounding does not carry into the exponent.
    cleared = below & ~(below >> 1)
    return (cleared.cast(F32).view(U32) >> _MANTISSA_BITS) - _EXPONENT_BIAS


def _quotient(size: Expression, shift: Expression) -> Expression:
    """Return floor(2**(32 + shift) / size) modulo 2**32, from two approximations in f32.

    The first one falls short of the quotient by at most 2**13, the second one by at most 1.
    """
    divisor = size.cast(U64)
    as_float = size.cast(F32)
    inverse = as_float.constant(_BELOW).apply(arith.div, as_float)
    power = ((shift + (32 + _EXPONENT_BIAS)) << _MANTISSA_BITS).view(F32)
    left = divisor.constant(1 << 32) << shift.cast(U64)
    first = (power * inverse).cast(U32)
    left = left - first.cast(U64) * divisor
    second = (left.cast(F32) * inverse).cast(U32)
    left = left - second.cast(U64) * divisor
    more = left >= divisor
    return first + second + more.cast(U32)


def _multiply(op: Operation, reciprocal: _Reciprocal, signs: _Signs) -> None:
    """Replace a quotient or a remainder."""
    dividend, divisor = operands(op)
    build = dividend.build

    def whole(scalar: Value) -> Expression:
        ty = dividend.value.type
        if isinstance(ty, Fragment):
            scalar = build(ops.thread.frag_splat, scalar, count=ty.count)
        return Expression(build, scalar)

    high = dividend.apply(arith.mulhi, whole(reciprocal.multiplier))
    quotient = (high + dividend) >> whole(reciprocal.shift)
    if not signs.dividend:
        quotient = quotient - (dividend >> 31)
    if not signs.divisor:
        quotient = quotient * whole(reciprocal.sign)
    if op.defn is arith.rem:
        quotient = dividend - quotient * divisor
    op.replace_by([quotient.value])
