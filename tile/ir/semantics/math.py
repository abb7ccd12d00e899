"""Elementwise functions of floats, with fma, which NumPy lacks; `erf` has the error function.

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
