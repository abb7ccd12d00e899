"""`x * y + z` of narrow floats in f32, rounded to odd."""

from __future__ import annotations

from tile.ir.ops import arith
from tile.ir.ops.arith import Predicate
from tile.ir.types import I32
from tile.transforms.expressions import Expression


def fma_to_odd(x: Expression, y: Expression, z: Expression) -> Expression:
    """Return x * y + z of f32 that were narrow floats, rounded to odd.

    Rounding the result to the narrow float then equals one rounding of the exact value, since f32
    has at least two bits more (Boldo and Melquiond, "Emulation of a FMA and correctly rounded sums:
    proved algorithms using rounding to odd", 2008). Products are exact, but for those of bf16 below
    2^-133. Where one overflows, the sum is exact or infinite.

        %s = fma %x, %y, %z     // to nearest
        %e = ..                 // the error of the sum of the product and %z (Knuth)
        %s +- 1 bit             // towards the exact value, where %e is not 0 and %s is even
    """
    total = x.apply(arith.fma, y, z)
    product = x * y
    part = total - product
    error = product - (total - part) + (z - part)
    # Towards the error, where the sum is even and the error smaller than a sum that is a number.
    bits = total.view(I32)
    even = (bits & 1).equals(0)
    inexact = error.is_(Predicate.NE, 0.0)
    within = error.absolute() < total.absolute()
    alike = (bits ^ error.view(I32)) >= 0
    step = alike.select(bits.constant(1), -1)
    return (bits + (even & inexact & within).select(step, 0)).view(total.element)
