"""Constants with more digits than f64 has, from which tables of coefficients are computed."""

from __future__ import annotations

import functools
from decimal import Decimal, getcontext, localcontext

PRECISION = 60  # decimal digits of the tables that say no other number
EULER = Decimal("0.57721566490153286060651209008240243104215933593992359880576723")


def pi() -> Decimal:
    """Return pi with the digits of the current context."""
    return +_pi(getcontext().prec + 5)


@functools.cache
def _pi(digits: int) -> Decimal:
    """Compute pi by J. Machin's formula."""
    with localcontext(prec=digits):
        return 16 * _arctan(5, digits) - 4 * _arctan(239, digits)


def _arctan(inverse: int, digits: int) -> Decimal:
    term = total = Decimal(1) / inverse
    n = 1
    while abs(term) > Decimal(10) ** -digits:
        term /= -inverse * inverse
        n += 2
        total += term / n
    return total
