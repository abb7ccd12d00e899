"""Functions by Taylor polynomials around several centers, computed in Python's decimal numbers.

A function is one polynomial in `x - center` on each of several intervals. Where a zero of the
function is in an interval, the zero is the center, in two floats, so that results near it are
as accurate as others, relative to themselves.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal, getcontext, localcontext

import numpy as np

from tile.ir.numpy_dtypes import Array

# The coefficients around a center up to a degree, the lowest power first.
Series = Callable[[Decimal, int], Sequence[Decimal]]
PRECISION = 60  # decimal digits of the tables that say no other number
EULER = Decimal("0.57721566490153286060651209008240243104215933593992359880576723")


@dataclass(frozen=True)
class Piecewise:
    """Polynomials by interval.

    edges: the ends of the intervals, one more than intervals. high, low: the centers, as a sum.
    coefficients: a row for each interval, the lowest power first.
    """

    edges: Array
    high: Array
    low: Array
    coefficients: Array

    def __call__(self, x: Array) -> Array:
        """Evaluate; f64 outside of the intervals is taken to the nearest of them."""
        index = np.searchsorted(self.edges[1:-1], x, side="right")
        t = (x - self.high[index]) - self.low[index]
        columns = self.coefficients.T
        result: Array = columns[-1][index]
        for column in columns[-2::-1]:
            result = result * t + column[index]
        return result


def piecewise(
    series: Series, edges: Sequence[float], degree: int, centers: Sequence[float] = ()
) -> Piecewise:
    """Return the polynomials of a function on intervals.

    Without `centers` they are the middles of the intervals, or zeros of the function. Of these, the
    ends of their intervals keep a distance.
    """
    edges = list(edges)
    chosen = [Decimal(center) for center in centers]
    roots: list[bool] = [False] * len(chosen)
    if not centers:
        for start, end in itertools.pairwise(edges):
            center, is_root = _center(series, Decimal(start), Decimal(end))
            chosen.append(center)
            roots.append(is_root)
    for index in range(1, len(edges) - 1):
        for side, outward in ((index - 1, 1), (index, -1)):
            if roots[side]:
                distance = (edges[side + 1] - edges[side]) / 3
                limit = float(chosen[side]) + outward * distance
                edges[index] = max(edges[index], limit) if outward > 0 else min(edges[index], limit)
    rows = []
    for center, is_root in zip(chosen, roots, strict=True):
        row = [float(number) for number in series(center, degree)]
        rows.append([0.0, *row[1:]] if is_root else row)
    nearest = [float(center) for center in chosen]
    rest = [float(center - Decimal(near)) for center, near in zip(chosen, nearest, strict=True)]
    return Piecewise(*(np.array(column) for column in (edges, nearest, rest, rows)))


def _center(series: Series, start: Decimal, end: Decimal) -> tuple[Decimal, bool]:
    """Return the zero of the function in an interval and True, else the interval's middle."""
    center = (start + end) / 2
    if series(start, 1)[0] * series(end, 1)[0] > 0:
        return center, False
    for _ in range(10):  # Newton's method doubles the digits each time
        value, slope = series(center, 1)[:2]
        center -= value / slope
    return center, True


# -- constants with more digits than f64 has


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
