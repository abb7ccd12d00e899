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
from tile.ir.module import Module
from tile.ir.op_definition import Level, Trait
from tile.ir.ops import arith
from tile.ir.ops.arith import Predicate
from tile.ir.passes import module_pass
from tile.ir.types import F32, I32, U32, U64, Fragment, Type, count_of
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
                reciprocal = _reciprocal(divisor, function)
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


def _reciprocal(divisor: Value, function: Function) -> _Reciprocal:
    """Compute the reciprocal of a scalar right after it."""
    after = divisor.op.next if divisor.op is not None else divisor.block.first
    assert after is not None, "a value that is used is followed by its use"
    build = Builder.before(after)
    with build.at(None if divisor.op is None else divisor.op.loc):
        return _computed(build, divisor)


def _computed(build: Builder, divisor: Value) -> _Reciprocal:
    zero, one = build.constant(0, I32), build.constant(1, I32)
    negative = build(arith.cmp, divisor, zero, predicate=Predicate.LT)
    sign = build(arith.select, negative, build.constant(-1, I32), one)
    size = build(arith.cast, build(arith.mul, divisor, sign), to=U32)
    size = build(arith.max_, size, build.constant(1, U32))
    shift = _log2(build, size)
    multiplier = build(arith.add, _quotient(build, size, shift), build.constant(1, U32))
    signed = build(arith.bitcast, multiplier, to=I32)
    return _Reciprocal(signed, build(arith.cast, shift, to=I32), sign)


def _log2(build: Builder, size: Value) -> Value:
    """Return ceil(log2(size)) - 1, at least 0: the exponent of size - 1 as a float."""
    one = build.constant(1, U32)
    below = build(arith.max_, build(arith.sub, size, one), one)
    # With the bit after the first one cleared, rounding does not carry into the exponent.
    cleared = build(arith.and_, below, build(arith.not_, build(arith.shr, below, one)))
    bits = build(arith.bitcast, build(arith.cast, cleared, to=F32), to=U32)
    exponent = build(arith.shr, bits, build.constant(_MANTISSA_BITS, U32))
    return build(arith.sub, exponent, build.constant(_EXPONENT_BIAS, U32))


def _quotient(build: Builder, size: Value, shift: Value) -> Value:
    """Return floor(2**(32 + shift) / size) modulo 2**32, from two approximations in f32.

    The first one falls short of the quotient by at most 2**13, the second one by at most 1.
    """
    below = build.constant(_BELOW, F32)
    divisor = build(arith.cast, size, to=U64)
    inverse = build(arith.div, below, build(arith.cast, size, to=F32))
    biased = build(arith.add, shift, build.constant(32 + _EXPONENT_BIAS, U32))
    bits = build(arith.shl, biased, build.constant(_MANTISSA_BITS, U32))
    power = build(arith.bitcast, bits, to=F32)
    left = build(arith.shl, build.constant(1 << 32, U64), build(arith.cast, shift, to=U64))
    first, left = _digits(build, build(arith.mul, power, inverse), divisor, left)
    rest = build(arith.mul, build(arith.cast, left, to=F32), inverse)
    second, left = _digits(build, rest, divisor, left)
    more = build(arith.cmp, left, divisor, predicate=Predicate.GE)
    total = build(arith.add, first, second)
    return build(arith.add, total, build(arith.cast, more, to=U32))


def _digits(build: Builder, digits: Value, divisor: Value, left: Value) -> tuple[Value, Value]:
    """Return part of a quotient as an integer, and the rest of the dividend `left`."""
    part = build(arith.cast, digits, to=U32)
    product = build(arith.mul, build(arith.cast, part, to=U64), divisor)
    return part, build(arith.sub, left, product)


def _multiply(op: Operation, reciprocal: _Reciprocal, signs: _Signs) -> None:
    """Replace a quotient or a remainder."""
    build = Builder.before(op)
    dividend, divisor = op.inputs
    ty = dividend.type

    def whole(scalar: Value) -> Value:
        return _splat(build, scalar, ty)

    high = build(arith.mulhi, dividend, whole(reciprocal.multiplier))
    quotient: Value = build(arith.add, high, dividend)
    quotient = build(arith.shr, quotient, whole(reciprocal.shift))
    if not signs.dividend:
        quotient = build(arith.sub, quotient, build(arith.shr, dividend, build.constant(31, ty)))
    if not signs.divisor:
        quotient = build(arith.mul, quotient, whole(reciprocal.sign))
    if op.defn is arith.rem:
        quotient = build(arith.sub, dividend, build(arith.mul, quotient, divisor))
    op.replace_by([quotient])
    op.erase()


def _splat(build: Builder, scalar: Value, ty: Type) -> Value:
    if not isinstance(ty, Fragment):
        return scalar
    return build(ops.thread.frag_splat, scalar, count=ty.count)
