"""The error function's relatives, in f64: erfc, erfcx, normcdf and their inverses.

All are computed from erfcx(x) = exp(x^2) erfc(x), which is smooth and never small against its
derivative. It solves y' = 2 x y - 2 / sqrt(pi), from which its Taylor polynomials follow.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from decimal import Decimal, localcontext

import numpy as np

from tile.ir.numpy_dtypes import Array
from tile.ir.semantics.erf import erf_f64
from tile.ir.semantics.libdevice.piecewise import Piecewise, pi, piecewise
from tile.ir.semantics.math import fma

FAR = 12.0  # beyond, 14 terms of the asymptotic expansion are below 1e-18
DEGREE = 20
PRECISION = 160  # decimal digits: exp(144) cancels all but a few of 1e60
ROOT_PI = math.sqrt(math.pi)
ITERATIONS = 4


def _series(c: Decimal, degree: int) -> Sequence[Decimal]:
    root = pi().sqrt()
    term = total = c
    n = 0
    while term > Decimal(10) ** -PRECISION:
        n += 1
        term = term * 2 * c * c / (2 * n + 1)
        total += term
    a = [(c * c).exp() - 2 / root * total]
    for k in range(degree):
        following = 2 * c * a[k] + (2 * a[k - 1] if k else -2 / root)
        a.append(following / (k + 1))
    return a


@functools.cache
def polynomials() -> Piecewise:
    """Return the polynomials of erfcx, from 0 to `FAR`."""
    edges = [n / 2 for n in range(int(2 * FAR) + 1)]
    with localcontext(prec=PRECISION):
        return piecewise(_series, edges, DEGREE)


def _asymptotic(x: Array) -> Array:
    """Return erfcx of large numbers (DLMF 7.12.1)."""
    step = -1 / (2 * x * x)
    total = np.ones_like(x)
    for k in range(14, 0, -1):
        total = 1 + (2 * k - 1) * step * total
    return total / (x * ROOT_PI)


def _positive(x: Array) -> Array:
    return np.where(x < FAR, polynomials()(x), _asymptotic(x))


def exp_of_square(x: Array, scale: float) -> Array:
    """Return exp(scale x^2) for a power of two; the rounding error of the square is corrected."""
    square = x * x
    error = np.where(np.isfinite(square), fma(x, x, -square), 0)
    result = np.exp(scale * square)
    return np.where(np.isfinite(result), result + result * (scale * error), result)


def erfcx(x: Array) -> Array:
    """Return exp(x^2) erfc(x)."""
    size = np.abs(x)
    positive = _positive(size)
    return np.where(x < 0, 2 * exp_of_square(x, 1.0) - positive, positive)


def erfc(x: Array) -> Array:
    """Return 1 - erf(x)."""
    size = np.abs(x)
    tail = exp_of_square(x, -1.0) * _positive(size)
    tail = np.where(size > 30, 0, tail)
    near = 1 - erf_f64(x)
    return np.where(size < 0.25, near, np.where(x < 0, 2 - tail, tail))


def normcdf(x: Array) -> Array:
    """Return the integral of the standard normal distribution up to x."""
    size = np.abs(x)
    tail = 0.5 * exp_of_square(x, -0.5) * _positive(size * math.sqrt(0.5))
    tail = np.where(size > 40, 0, tail)
    return np.where(np.isnan(x), x, np.where(x < 0, tail, 1 - tail))


def erfinv(y: Array) -> Array:
    """Return x with erf(x) = y; NaN beyond 1."""
    return np.copysign(_inverse(np.abs(y), 1 - np.abs(y)), y)


def erfcinv(z: Array) -> Array:
    """Return x with erfc(x) = z; NaN outside 0 to 2."""
    result = _inverse(1 - z, np.minimum(z, 2 - z))
    small = _inverse(np.abs(1 - z), np.minimum(z, 2 - z))
    return np.where(z > 1, -small, result)


def normcdfinv(p: Array) -> Array:
    """Return x with normcdf(x) = p; NaN outside 0 to 1."""
    return -math.sqrt(2) * erfcinv(2 * p) + 0.0


def _inverse(y: Array, z: Array) -> Array:
    """Return x >= 0 with erf(x) = y and erfc(x) = z, by Halley's method.

    Winitzki's approximation is the start. Below 1/2, erf(x) = y is solved, else erfc(x) = z in
    logarithms: errors of log(z) matter less the further out x is.
    """
    a = 0.147
    log = np.log(np.maximum(z, 1e-320)) + np.log1p(y)
    half = 2 / (math.pi * a) + log / 2
    start = np.sqrt(np.maximum(np.sqrt(half * half - log / a) - half, 0))
    x = np.where(y < 0.01, y * (ROOT_PI / 2), start)
    center = y < 0.5
    for _ in range(ITERATIONS):
        slope = 2 / ROOT_PI * np.exp(-x * x)
        step = (erf_f64(x) - y) / slope
        by_erf = x - step / (1 + x * step)
        scaled = _positive(x)
        # d/dx log(erfc) = -2 / (sqrt(pi) erfcx)
        difference = np.log(scaled) - x * x - np.log(z)
        by_log = x + difference * scaled * (ROOT_PI / 2)
        x = np.where(center, by_erf, by_log)
    x = np.where(z == 0, np.inf, np.where(y == 0, 0, x))
    return np.where((z < 0) | np.isnan(z), np.nan, x)
