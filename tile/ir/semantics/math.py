"""Elementwise functions of floats, with the error function and fma, which NumPy lacks.

f32 and f64 are as accurate as NumPy's SIMD kernels: a few units in the last place; `sqrt`, `floor`,
`ceil`, `trunc` and `rint` are exact. f16 and bf16 are computed in f32 and rounded once. Arguments
outside a function's domain return NaN. Callers hold `quiet()` around these functions.

Fused multiply-add has a single rounding. Its sum is *rounded to odd* in f64: an inexact result
becomes the adjacent number whose last bit is 1. This preserves on which side of every midpoint of a
narrower format the exact sum lies, so that a second rounding, to a format with at least two bits
less, gives the result of a single rounding (S. Boldo and G. Melquiond, "Emulation of FMA and
correctly rounded sums: proved algorithms using rounding to odd", 2008).
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from tile.ir.numpy_dtypes import BF16, F16, F32, F64, Array, ByDtype, Unary, each
from tile.ir.semantics.cast import narrow, round_to_odd_f32, through_f32_unary, widen

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


def erf_f32(x: Array) -> Array:
    """Return erf of f32 values, computed in f64 and rounded once: within 0.6 ulp."""
    return _in_blocks(_erf_f32, x)


def erf_f64(x: Array) -> Array:
    """Return erf of f64 values, by the C library: within 1 ulp."""
    return np.fromiter(map(math.erf, x.ravel().tolist()), F64, x.size).reshape(x.shape)


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


def elementwise(f32: Unary, f64: Unary | None = None) -> ByDtype[Unary]:
    """Return the reference semantics of a function of floats, named like `f32`.

    f64: the function of f64 values, if it differs. Narrow floats are computed in f32 and rounded
    once.
    """
    narrow = each((F16, BF16), through_f32_unary(f32))
    return ByDtype(f32.__name__, {**narrow, F32: f32, F64: f64 or f32})


def rsqrt(x: Array) -> Array:
    """Return 1 / sqrt(x) with two roundings."""
    return np.reciprocal(np.sqrt(x))


def two_sum(a: Array, b: Array) -> tuple[Array, Array]:
    """Return the rounded sum a + b and its exact error (Knuth)."""
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)


def add_to_odd(a: Array, b: Array) -> Array:
    """Return a + b in f64, rounded to odd."""
    total, error = two_sum(a, b)
    bits = total.view(np.int64)
    # The error of an infinite or NaN total is NaN, and NaN > 0 is false: the total is unchanged.
    step = ((np.abs(error) > 0) > (bits & 1)).astype(np.int64)
    step *= (bits ^ error.view(np.int64)) >> np.int64(63) | np.int64(1)  # -1 for unlike signs
    odd: Array = bits + step
    return odd.view(F64)


def _fma_f16(x: Array, y: Array, z: Array) -> Array:
    """Compute in f64: the product is exact, and so is the sum if rounding to f16 depends on it."""
    x, y, z = widen(x).astype(F64), widen(y).astype(F64), widen(z).astype(F64)
    return (x * y + z).astype(F16)


def _fma_bf16(x: Array, y: Array, z: Array) -> Array:
    x, y, z = widen(x).astype(F64), widen(y).astype(F64), widen(z).astype(F64)
    return narrow(round_to_odd_f32(add_to_odd(x * y, z)), BF16)


def _fma_f32(x: Array, y: Array, z: Array) -> Array:
    return add_to_odd(x.astype(F64) * y.astype(F64), z.astype(F64)).astype(F32)


def _fma_f64(x: Array, y: Array, z: Array) -> Array:
    """Use error-free transformations, and integers near the ends of the range."""
    product = x * y
    size = np.maximum(np.maximum(np.abs(x), np.abs(y)), np.maximum(np.abs(product), np.abs(z)))
    safe = (size < 2.0**990) & (np.abs(product) > 2.0**-900)
    result: Array = np.where(safe, _fma_by_parts(x, y, product, z), product + z)
    if safe.all():
        return result
    # If all operands are finite and none is zero, `product + z` rounds twice or overflows early.
    finite = np.isfinite(x) & np.isfinite(y)
    result = np.where(finite & np.isinf(z), z, result)  # the product may have overflowed
    hard = finite & np.isfinite(z) & ~safe & (x != 0) & (y != 0)
    numbers = (np.broadcast_to(v, hard.shape)[hard].tolist() for v in (x, y, z))
    result[hard] = list(map(_fma_of_integers, *numbers))
    return result


def _fma_of_integers(x: float, y: float, z: float) -> float:
    """Return x * y + z of finite numbers, as a quotient of integers, which is rounded once."""
    (a, b), (c, d), (e, f) = (number.as_integer_ratio() for number in (x, y, z))
    numerator = a * c * f + e * b * d
    try:
        return numerator / (b * d * f)
    except OverflowError:
        return math.inf if numerator > 0 else -math.inf


def _fma_by_parts(x: Array, y: Array, product: Array, z: Array) -> Array:
    """Add z to x * y and its error, with the small terms rounded to odd (Boldo and Melquiond)."""
    error = _product_error(x, y, product)
    upper, low = two_sum(z, error)
    total, lower = two_sum(product, upper)
    result: Array = total + add_to_odd(low, lower)
    return result


def _product_error(x: Array, y: Array, product: Array) -> Array:
    """Return the exact error x * y - product (Dekker)."""
    x_high, x_low = _split(x)
    y_high, y_low = _split(y)
    error: Array = (x_high * y_high - product) + x_high * y_low + x_low * y_high
    error += x_low * y_low
    return error


def _split(x: Array) -> tuple[Array, Array]:
    """Split x into a sum of two numbers of 26 bits each (Veltkamp)."""
    scaled = x * (2.0**27 + 1)
    high: Array = scaled - (scaled - x)
    return high, x - high


# x * y + z, correctly rounded to nearest even.
fma: ByDtype[Callable[[Array, Array, Array], Array]] = ByDtype(
    "fma", {F16: _fma_f16, BF16: _fma_bf16, F32: _fma_f32, F64: _fma_f64}
)
