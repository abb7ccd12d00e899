"""Fused multiply-add with a single rounding.

The sum is *rounded to odd* in f64: an inexact result becomes the adjacent number whose last bit is
1. This preserves on which side of every midpoint of a narrower format the exact sum lies, so that a
second rounding, to a format with at least two bits less, gives the result of a single rounding (S.
Boldo and G. Melquiond, "Emulation of FMA and correctly rounded sums: proved algorithms using
rounding to odd", 2008).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np

from tile.ir.dtypes import Array
from tile.ir.numerics.dtypes import (
    BF16,
    F16,
    F32,
    F64,
    ByDtype,
)
from tile.ir.numerics.narrow import narrow, round_to_odd_f32, widen


def fma(x: Array, y: Array, z: Array) -> Array:
    """Return x * y + z, correctly rounded to nearest even, in f16, bf16, f32 and f64."""
    return _FMA[x.dtype](x, y, z)


def _two_sum(a: Array, b: Array) -> tuple[Array, Array]:
    """Return the rounded sum a + b and its exact error (Knuth)."""
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)


def _add_to_odd(a: Array, b: Array) -> Array:
    """Return a + b in f64, rounded to odd."""
    total, error = _two_sum(a, b)
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
    return narrow(round_to_odd_f32(_add_to_odd(x * y, z)), BF16)


def _fma_f32(x: Array, y: Array, z: Array) -> Array:
    return _add_to_odd(x.astype(F64) * y.astype(F64), z.astype(F64)).astype(F32)


def _fma_f64(x: Array, y: Array, z: Array) -> Array:
    """Use error-free transformations, and exact rationals near the ends of the range."""
    product = x * y
    size = np.maximum(np.maximum(np.abs(x), np.abs(y)), np.maximum(np.abs(product), np.abs(z)))
    safe = (size < 2.0**990) & (np.abs(product) > 2.0**-900)
    result: Array = np.where(safe, _fma_by_parts(x, y, product, z), product + z)
    if safe.all():
        return result
    # If all operands are finite and none is zero, `product + z` rounds twice or overflows early.
    finite = np.isfinite(x) & np.isfinite(y) & np.isfinite(z)
    hard = finite & ~safe & (x != 0) & (y != 0)
    operands = (np.broadcast_to(operand, hard.shape)[hard].tolist() for operand in (x, y, z))
    result = np.asarray(result)
    result[hard] = [_fma_exactly(*values) for values in zip(*operands, strict=True)]
    return result


def _fma_by_parts(x: Array, y: Array, product: Array, z: Array) -> Array:
    """Add z to x * y and its error, with the small terms rounded to odd (Boldo and Melquiond)."""
    error = _product_error(x, y, product)
    upper, low = _two_sum(z, error)
    total, lower = _two_sum(product, upper)
    result: Array = total + _add_to_odd(low, lower)
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


def _fma_exactly(x: float, y: float, z: float) -> float:
    exact = Fraction(x) * Fraction(y) + Fraction(z)
    try:
        return float(exact)
    except OverflowError:
        return math.inf if exact > 0 else -math.inf


_FMA: ByDtype[Callable[[Array, Array, Array], Array]] = ByDtype(
    "fma", {F16: _fma_f16, BF16: _fma_bf16, F32: _fma_f32, F64: _fma_f64}
)
