"""The gamma function of f64 and its logarithm.

Near 1 to 10, both are Taylor polynomials around multiples of 1/4, of which 1 and 2 are the zeros of
the logarithm. Above, they are Stirling's expansion (DLMF 5.11); below zero, the reflection formula.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np

from tile.ir.numpy_dtypes import Array
from tile.ir.semantics.libdevice.elementary import sinpi
from tile.ir.semantics.libdevice.piecewise import PRECISION, Piecewise, pi, piecewise

FIRST, LAST, STEP = 0.75, 10.0, 0.25  # centers of the polynomials
DEGREE = 22
SHIFT = 40  # what is added to a center before the Euler-Maclaurin formula is applied
LARGEST = 180.0  # gamma overflows beyond 171.6; reflection takes numbers down to -178


@functools.cache
def bernoulli(count: int) -> tuple[Fraction, ...]:
    """Return the Bernoulli numbers B0, B2, B4, ..."""
    numbers: list[Fraction] = []
    for n in range(2 * count):
        total = sum((math.comb(n + 1, k) * numbers[k] for k in range(n)), Fraction(0))
        numbers.append(Fraction(1) if n == 0 else -total / (n + 1))
    return tuple(numbers[::2])


def _decimal(fraction: Fraction) -> Decimal:
    return Decimal(fraction.numerator) / fraction.denominator


def _zeta(s: int, c: Decimal) -> Decimal:
    """Return the Hurwitz zeta function for s >= 2 by the Euler-Maclaurin formula."""
    end = c + SHIFT
    total = sum(((c + k) ** -s for k in range(SHIFT)), Decimal(0))
    total += end ** (1 - s) / (s - 1) + end**-s / 2
    rising = Decimal(s)
    for k, number in enumerate(bernoulli(14)[1:], 1):
        total += _decimal(number) / math.factorial(2 * k) * rising * end ** (1 - s - 2 * k)
        rising *= (s + 2 * k - 1) * (s + 2 * k)
    return total


def _lgamma_series(c: Decimal, degree: int) -> Sequence[Decimal]:
    end = c + SHIFT
    gammas = math.prod((c + k for k in range(SHIFT)), start=Decimal(1))
    log = (end - Decimal("0.5")) * end.ln() - end + (2 * pi()).ln() / 2 - gammas.ln()
    digamma = end.ln() - 1 / (2 * end) - sum((1 / (c + k) for k in range(SHIFT)), Decimal(0))
    for k, number in enumerate(bernoulli(14)[1:], 1):
        term = _decimal(number) / (2 * k) / end ** (2 * k)
        log += term * end / (2 * k - 1)
        digamma -= term
    return [log, digamma, *((-1) ** k * _zeta(k, c) / k for k in range(2, degree + 1))]


def _gamma_series(c: Decimal, degree: int) -> Sequence[Decimal]:
    """Return the exponential of the logarithm's series."""
    logs = _lgamma_series(c, degree)
    result = [logs[0].exp()]
    for k in range(1, degree + 1):
        result.append(sum((n * logs[n] * result[k - n] for n in range(1, k + 1)), Decimal(0)) / k)
    return result


@functools.cache
def polynomials(logarithm: bool) -> Piecewise:
    """Return the polynomials of the gamma function, or of its logarithm."""
    centers = np.arange(FIRST, LAST + STEP, STEP)
    edges = [*(centers - STEP / 2), LAST + STEP / 2]
    with localcontext(prec=PRECISION):
        series = _lgamma_series if logarithm else _gamma_series
        table = piecewise(series, edges, DEGREE, centers.tolist())
    if logarithm:
        table.coefficients[(centers == 1) | (centers == 2), 0] = 0
    return table


@functools.cache
def stirling() -> tuple[float, ...]:
    """Return the coefficients of Stirling's series in 1 / x^2, to be divided by x."""
    return tuple(float(b / (2 * k * (2 * k - 1))) for k, b in enumerate(bernoulli(9)[1:], 1))


def _stirling(x: Array) -> Array:
    square, total = 1 / (x * x), np.zeros_like(x)
    for coefficient in reversed(stirling()):
        total = total * square + coefficient
    return total / x


def lgamma(x: Array) -> Array:
    """Return log |gamma(x)| of f64."""
    size = np.abs(x)
    positive = _lgamma_positive(size)
    reflected = np.log(math.pi / (size * np.abs(sinpi(size)))) - positive
    result = np.where(x < 0, np.where(size < 1e-300, positive, reflected), positive)
    result = np.where((size == np.floor(size)) & (x <= 0) | np.isinf(x), np.inf, result)
    return np.where(np.isnan(x), x, result)


def _lgamma_positive(x: Array) -> Array:
    below = x < FIRST
    near = polynomials(True)(np.where(below, x + 1, x)) - np.where(below, np.log(x), 0)
    far = (x - 0.5) * (np.log(x) - 1) + (0.5 * math.log(2 * math.pi) - 0.5 + _stirling(x))
    return np.where(x < LAST, near, far)


def tgamma(x: Array) -> Array:
    """Return gamma(x) of f64; NaN for negative integers."""
    size = np.abs(x)
    first, second = _two_parts(size)
    positive = first * second
    negative = -math.pi / (size * sinpi(size)) / second / first
    negative = np.where(size > LARGEST, np.copysign(0.0, sinpi(size)) * -1, negative)
    result = np.where(x < 0, np.where(size < 1e-300, 1 / x, negative), positive)
    integer = (x < 0) & (size == np.floor(size))
    return np.where(integer, np.nan, np.where(x == 0, 1 / x, result))


def _two_parts(x: Array) -> tuple[Array, Array]:
    """Return two numbers whose product is gamma of a positive number: one alone may overflow."""
    below = x < FIRST
    near = polynomials(False)(np.where(below, x + 1, x)) / np.where(below, x, 1)
    limited = np.minimum(x, LARGEST)
    root = np.power(limited, limited / 2 - 0.25)
    rest = root * (np.exp(-limited) * (math.sqrt(2 * math.pi) * np.exp(_stirling(limited))))
    far = x >= LAST
    endless = x > LARGEST
    return np.where(far, root, 1), np.where(endless, np.inf, np.where(far, rest, near))
