"""`x * y + z` of narrow floats in f32, rounded to odd."""

from __future__ import annotations

from tile.ir.builder import Builder
from tile.ir.core import Value
from tile.ir.ops import arith, math
from tile.ir.ops.arith import Predicate
from tile.ir.types import F32, I32, with_element


def fma_to_odd(build: Builder, x: Value, y: Value, z: Value) -> Value:
    """Return x * y + z of f32 that were narrow floats, rounded to odd.

    Rounding the result to the narrow float then equals one rounding of the exact value, since f32
    has at least two bits more (Boldo and Melquiond, "Emulation of a FMA and correctly rounded sums:
    proved algorithms using rounding to odd", 2008). Products are exact, but for those of bf16 below
    2^-133. Where one overflows, the sum is exact or infinite.

        %s = fma %x, %y, %z     // to nearest
        %e = ..                 // the error of the sum of the product and %z (Knuth)
        %s +- 1 bit             // towards the exact value, where %e is not 0 and %s is even
    """
    total = build(arith.fma, x, y, z)
    product = build(arith.mul, x, y)
    part = build(arith.sub, total, product)
    error = build(
        arith.add,
        build(arith.sub, product, build(arith.sub, total, part)),
        build(arith.sub, z, part),
    )
    return _moved_to_odd(build, total, error)


def _moved_to_odd(build: Builder, total: Value, error: Value) -> Value:
    """Return the number next to an even `total` on the side of its error, if it has one."""
    integer = with_element(total.type, I32)
    zero, one = (build.constant(number, integer) for number in (0, 1))
    bits = build(arith.bitcast, total, to=I32)
    even = build(arith.cmp, build(arith.and_, bits, one), zero, predicate=Predicate.EQ)
    inexact = build(arith.cmp, error, build.constant(0.0, error.type), predicate=Predicate.NE)
    # Not so if the total is infinite or a NaN.
    within = build(
        arith.cmp, build(math.abs_, error), build(math.abs_, total), predicate=Predicate.LT
    )
    signs = build(arith.xor, bits, build(arith.bitcast, error, to=I32))
    alike = build(arith.cmp, signs, zero, predicate=Predicate.GE)
    step = build(arith.select, alike, one, build.constant(-1, integer))
    moves = build(arith.and_, build(arith.and_, even, inexact), within)
    moved = build(arith.add, bits, build(arith.select, moves, step, zero))
    return build(arith.bitcast, moved, to=F32)
