"""Fused multiply-add with a single rounding.

The sum is *rounded to odd* in f64: an inexact result takes the neighbour whose last bit is 1. That
keeps on which side of every midpoint of a narrower format the exact sum lies, so that rounding once
more, to a format with at least two bits less, gives what one rounding gives (S. Boldo and G.
Melquiond, "Emulation of FMA and correctly rounded sums: proved algorithms using rounding to odd",
2008).
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
    """The value x * y + z, correctly rounded to nearest even in f16, bf16, f32 and f64."""
    return _FMA[x.dtype](x, y, z)


def _two_sum(a: Array, b: Array) -> tuple[Array, Array]:
    """The sum a + b rounded, and its error, exactly (Knuth)."""
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)


def _add_to_odd(a: Array, b: Array) -> Array:
    """The sum a + b in f64, rounded to odd."""
    total, error = _two_sum(a, b)
    bits = total.view(np.int64)
    # An infinite or NaN total has error NaN, and NaN > 0 is false: it stays as it is.
    step = ((np.abs(error) > 0) > (bits & 1)).astype(np.int64)
    step *= (bits ^ error.view(np.int64)) >> np.int64(63) | np.int64(1)  # -1 for unlike signs
    odd: Array = bits + step
    return odd.view(F64)


def _fma_f16(x: Array, y: Array, z: Array) -> Array:
    """The product is exact in f64, and the sum is exact wherever rounding to f16 could tell."""
    x, y, z = widen(x).astype(F64), widen(y).astype(F64), widen(z).astype(F64)
    return (x * y + z).astype(F16)


def _fma_bf16(x: Array, y: Array, z: Array) -> Array:
    x, y, z = widen(x).astype(F64), widen(y).astype(F64), widen(z).astype(F64)
    return narrow(round_to_odd_f32(_add_to_odd(x * y, z)), BF16)


def _fma_f32(x: Array, y: Array, z: Array) -> Array:
    return _add_to_odd(x.astype(F64) * y.astype(F64), z.astype(F64)).astype(F32)


def _fma_f64(x: Array, y: Array, z: Array) -> Array:
    """Error-free transformations, and exact rationals near the ends of the range."""
    product = x * y
    size = np.maximum(np.maximum(np.abs(x), np.abs(y)), np.maximum(np.abs(product), np.abs(z)))
    safe = (size < 2.0**990) & (np.abs(product) > 2.0**-900)
    result: Array = np.where(safe, _fma_by_parts(x, y, product, z), product + z)
    if safe.all():
        return result
    # Where all operands are finite and none zero, `product + z` rounds twice or overflows early.
    finite = np.isfinite(x) & np.isfinite(y) & np.isfinite(z)
    hard = finite & ~safe & (x != 0) & (y != 0)
    operands = (np.broadcast_to(operand, hard.shape)[hard].tolist() for operand in (x, y, z))
    result = np.asarray(result)
    result[hard] = [_fma_exactly(*values) for values in zip(*operands, strict=True)]
    return result


def _fma_by_parts(x: Array, y: Array, product: Array, z: Array) -> Array:
    """Boldo and Melquiond: z plus both halves of x * y, the small terms rounded to odd."""
    error = _product_error(x, y, product)
    upper, low = _two_sum(z, error)
    total, lower = _two_sum(product, upper)
    result: Array = total + _add_to_odd(low, lower)
    return result


def _product_error(x: Array, y: Array, product: Array) -> Array:
    """The error x * y - product, exactly (Dekker)."""
    x_high, x_low = _split(x)
    y_high, y_low = _split(y)
    error: Array = (x_high * y_high - product) + x_high * y_low + x_low * y_high
    error += x_low * y_low
    return error


def _split(x: Array) -> tuple[Array, Array]:
    """Write x as a sum of two numbers of 26 bits each (Veltkamp)."""
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
