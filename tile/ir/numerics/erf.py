"""The error function, which NumPy lacks."""

from __future__ import annotations

import math

import numpy as np

from tile.ir.dtypes import Array
from tile.ir.numerics.dtypes import (
    F32,
    F64,
    Unary,
)

BLOCK = 1 << 14  # elements computed at a time, so that intermediate values stay in cache

# erf(x) / x as a quotient of polynomials in x * x, on |x| <= 4, fitted by weighted least squares.
# Its relative error, 2.6e-9, is less than 1/20 of the rounding error of f32. Lowest power first.
F32_LIMIT = 4.0
F32_NUMERATOR = (
    1.1283791699732557,
    0.1928789905196938,
    0.0557496326482994,
    0.004226507086961894,
    0.00041128080305766814,
    6.79146106059804e-06,
)
F32_DENOMINATOR = (
    1.0,
    0.5042679885935385,
    0.11749550649414484,
    0.016295183426334296,
    0.0014212143815689833,
    7.256461330371874e-05,
    2.604909109197652e-07,
)

# Up to 1/2, the Maclaurin series of erf(x) / x in x * x. The first coefficient is reduced by 1, so
# that x + x * series has a small rounding error.
SERIES_LIMIT = 0.5
SERIES = tuple(
    (-1) ** n * 2 / math.sqrt(math.pi) / (math.factorial(n) * (2 * n + 1)) - (n == 0)
    for n in range(12)
)

# Above, erf(x) = 1 - exp(-x * x) P(x) / Q(x), with the polynomials that W. J. Cody gives for
# 0.46875 <= x <= 4 in "Rational Chebyshev Approximations for the Error Function", Mathematics of
# Computation 23 (1969). Beyond 4 they are good to 1e-11, where erfc is below 2e-8; beyond 6 the
# result is 1. Lowest power first.
F64_LIMIT = 6.0
CODY_NUMERATOR = (
    1.23033935479799725e03,
    2.05107837782607147e03,
    1.71204761263407058e03,
    8.81952221241769090e02,
    2.98635138197400131e02,
    6.61191906371416295e01,
    8.88314979438837594e00,
    5.64188496988670089e-01,
    2.15311535474403846e-08,
)
CODY_DENOMINATOR = (
    1.23033935480374942e03,
    3.43936767414372164e03,
    4.36261909014324716e03,
    3.29079923573345963e03,
    1.62138957456669019e03,
    5.37181101862009858e02,
    1.17693950891312499e02,
    1.57449261107098347e01,
    1.0,
)


def erf_f32(x: Array) -> Array:
    """Return erf of f32 values, computed in f64 and rounded once: within 0.6 ulp."""
    return _in_blocks(_erf_f32, x)


def erf_f64(x: Array) -> Array:
    """Return erf of f64 values, within 2 ulp."""
    return _in_blocks(_erf_f64, x)


def _in_blocks(function: Unary, x: Array) -> Array:
    if x.size <= BLOCK:
        return function(x)
    source = x.reshape(-1)
    result = np.empty_like(source)
    for start in range(0, source.size, BLOCK):
        result[start : start + BLOCK] = function(source[start : start + BLOCK])
    return result.reshape(x.shape)


def _polynomial(coefficients: tuple[float, ...], t: Array) -> Array:
    """Evaluate a polynomial by Horner's rule; coefficients start with the lowest power."""
    value = t * coefficients[-1]
    value += coefficients[-2]
    for coefficient in coefficients[-3::-1]:
        value *= t
        value += coefficient
    return value


def _erf_f32(x: Array) -> Array:
    y: Array = np.minimum(np.maximum(x, -F32_LIMIT), F32_LIMIT).astype(F64)
    t = y * y
    ratio: Array = _polynomial(F32_NUMERATOR, t)
    ratio /= _polynomial(F32_DENOMINATOR, t)
    ratio *= y
    return ratio.astype(F32)


def _erf_f64(x: Array) -> Array:
    size = np.minimum(np.abs(x), F64_LIMIT)
    near = size < SERIES_LIMIT
    square = size * size
    if near.all():
        small: Array = x + x * _polynomial(SERIES, square)
        return small
    rest: Array = np.exp(-square)
    rest *= _polynomial(CODY_NUMERATOR, size)
    rest /= _polynomial(CODY_DENOMINATOR, size)
    far: Array = np.copysign(1 - rest, x)
    if near.any():
        far = np.where(near, x + x * _polynomial(SERIES, square), far)
    return far
