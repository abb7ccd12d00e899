"""Arithmetic and conversions with a rounding mode: `rn`, `rz`, `rd` (down) and `ru` (up).

A result is first rounded to nearest. The sign of its error, exact - rounded, is known exactly, by
error-free transformations (T. J. Dekker, 1971; D. E. Knuth). It decides if the result is replaced
by the adjacent number in the direction of the mode. An overflow to infinity is such an error, too:
of 2 * max, `rz` and `rd` give the largest finite number.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tile.ir.numpy_dtypes import F32, F64, Array, Dtype
from tile.ir.semantics.math import add_to_odd, fma, two_sum

MODES = ("rn", "rz", "rd", "ru")
Function = Callable[..., Array]
SCALE = 512  # a power of two that moves a product near the least number away from it


def direct(nearest: Array, error: Array, mode: str) -> Array:
    """Return the rounding in `mode` of a number that rounds to `nearest`.

    error: has the sign of the number minus `nearest`; NaN and 0 if that is exact.
    """
    if mode == "rn":
        return nearest
    infinity = nearest.dtype.type(np.inf)
    lower = np.nextafter(nearest, -infinity)
    upper = np.nextafter(nearest, infinity)
    down, up = error < 0, error > 0
    if mode == "rd":
        return np.where(down, lower, nearest)
    if mode == "ru":
        return np.where(up, upper, nearest)
    inward = np.where(down & (nearest > 0), lower, nearest)
    return np.where(up & (nearest < 0), upper, inward)


def add(mode: str) -> Function:
    """Return x + y of f32 or f64."""

    def apply(x: Array, y: Array) -> Array:
        total, error = two_sum(x, y)
        overflow = np.isinf(total) & np.isfinite(x) & np.isfinite(y)
        result = direct(total, np.where(overflow, -total, error), mode)
        if mode == "rd":  # x - x is -0
            cancelled = (total == 0) & (np.signbit(x) != np.signbit(y))
            result = np.where(cancelled, -np.abs(total), result)
        return result

    return apply


def sub(mode: str) -> Function:
    """Return x - y of f32 or f64."""
    apply = add(mode)
    return lambda x, y: apply(x, -y)


def mul(mode: str) -> Function:
    """Return x * y of f32 or f64."""
    return lambda x, y: direct(x * y, _product_error(x, y, x * y), mode)


def _product_error(x: Array, y: Array, product: Array) -> Array:
    """Return a number with the sign of x * y - product."""
    if x.dtype == F32:
        return _difference(x.astype(F64) * y.astype(F64), product)
    x, y, product = np.broadcast_arrays(x, y, product)
    small = np.abs(product) < 2.0**-500
    larger = np.abs(x) > np.abs(y)
    x, y = np.where(larger, x, y), np.where(larger, y, x)
    near = np.where(small, np.ldexp(product, SCALE), product)
    error = fma(x, np.where(small, np.ldexp(y, SCALE), y), -near)
    error = np.where(np.isinf(product) & np.isfinite(x) & np.isfinite(y), -product, error)
    vanished = (product == 0) & (x != 0) & (y != 0)
    return np.where(vanished, np.sign(x) * np.sign(y), error)


def _difference(exact: Array, nearest: Array) -> Array:
    """Return exact - nearest; infinite for finite numbers that overflow, else NaN at infinity."""
    error = exact - nearest.astype(F64)
    return np.where(np.isfinite(exact), error, np.nan)


def div(mode: str) -> Function:
    """Return x / y of f32 or f64."""

    def apply(x: Array, y: Array) -> Array:
        return direct(x / y, _quotient_error(x, y), mode)

    return apply


def rcp(mode: str) -> Function:
    """Return 1 / x of f32 or f64."""
    apply = div(mode)
    return lambda x: apply(np.ones_like(x), x)


def _quotient_error(x: Array, y: Array) -> Array:
    """Return a number with the sign of x / y minus the nearest quotient."""
    quotient = x / y
    regular = np.isfinite(x) & np.isfinite(y) & (x != 0) & (y != 0)
    if x.dtype == F32:
        wide, divisor = x.astype(F64), y.astype(F64)
        residual = wide - quotient.astype(F64) * divisor
    else:
        # Numbers of moderate size, so that neither the residual nor the quotient underflows.
        x_part, x_exponent = np.frexp(x)
        divisor, y_exponent = np.frexp(y)
        near = np.ldexp(quotient, np.clip(y_exponent - x_exponent, -2000, 2000))
        residual = fma(-near, divisor, x_part)
    error = residual * np.sign(divisor)
    error = np.where(np.isinf(quotient), -quotient, error)
    error = np.where(quotient == 0, np.sign(x) * np.sign(y), error)
    return np.where(regular, error, np.nan)


def sqrt(mode: str) -> Function:
    """Return the square root of f32 or f64."""

    def apply(x: Array) -> Array:
        root = np.sqrt(x)
        if x.dtype == F32:
            wide = root.astype(F64)
            return direct(root, x.astype(F64) - wide * wide, mode)
        # An even power of two moves subnormal residuals into the normal range.
        scaled, near = np.ldexp(x, 200), np.ldexp(root, 100)
        large = np.abs(x) > 1
        residual = fma(
            np.where(large, -root, -near), np.where(large, root, near), np.where(large, x, scaled)
        )
        return direct(root, residual, mode)

    return apply


def rsqrt_rn(x: Array) -> Array:
    """Return 1 / sqrt(x) of f32, rounded to nearest."""
    return rsqrt(x.astype(F64)).astype(F32)


def rsqrt(x: Array) -> Array:
    """Return 1 / sqrt(x) of f64 within 0.6 ulp."""
    root = np.sqrt(x)
    moderate = (root > 1e-150) & (root < 1e150)
    error = np.where(moderate, fma(-root, root, x) / (2 * root), 0)
    return reciprocal(root, error)


def reciprocal(x: Array, error: Array) -> Array:
    """Return 1 / (x + error) of f64, where `error` is small against x."""
    first = 1 / x
    residual = fma(-first, x, np.ones_like(x)) - first * error
    corrected = first + first * residual
    return np.where(np.isfinite(corrected), corrected, first)


def fma_in(mode: str) -> Function:
    """Return x * y + z of f32 or f64, rounded once."""

    def apply(x: Array, y: Array, z: Array) -> Array:
        x, y, z = np.broadcast_arrays(x, y, z)
        nearest = fma(x, y, z)
        if mode == "rn":
            return nearest
        if x.dtype == F32:
            exact = add_to_odd(x.astype(F64) * y.astype(F64), z.astype(F64))
            error = _difference(exact, nearest)
        else:
            error = _sum_error(x, y, z, nearest)
        result = direct(nearest, error, mode)
        if mode == "rd":
            negative = np.signbit(x) != np.signbit(y)
            exact_zero = (nearest == 0) & (error == 0)
            cancelled = exact_zero & (negative != np.signbit(z))
            result = np.where(cancelled, -np.abs(nearest), result)
        return result

    return apply


def _sum_error(x: Array, y: Array, z: Array, nearest: Array) -> Array:
    """Return a number with the sign of x * y + z - nearest, in f64."""
    x_part, x_exponent = np.frexp(x)
    y_part, y_exponent = np.frexp(y)
    shift = -(x_exponent + y_exponent)
    product = x_part * y_part
    low = fma(x_part, y_part, -product)
    addend = np.clip(np.ldexp(z, shift), -(2.0**300), 2.0**300)
    # An addend too small to matter but for its sign.
    addend = np.where(np.abs(addend) < 2.0**-300, np.sign(z) * 2.0**-300, addend)
    total, total_low = two_sum(product, addend)
    first, first_low = two_sum(total - np.ldexp(nearest, shift), total_low)
    second, second_low = two_sum(first, low)
    error = second + (first_low + second_low)
    error = np.where(np.abs(addend) > 2.0**250, np.sign(product), error)
    error = np.where(np.isinf(nearest), -nearest, error)
    error = np.where(product == 0, 0, error)
    return np.where(np.isfinite(x) & np.isfinite(y) & np.isfinite(z), error, np.nan)


def float_to_float(mode: str) -> Function:
    """Return f64 as f32."""

    def apply(x: Array) -> Array:
        nearest = x.astype(F32)
        return direct(nearest, _difference(x, nearest), mode)

    return apply


def int_to_float(dtype: Dtype, mode: str) -> Function:
    """Return integers of 32 or 64 bits as f32 or f64."""

    def apply(x: Array) -> Array:
        nearest = x.astype(dtype)
        low = x & x.dtype.type(0xFFFF)
        high = (x - low).astype(F64)  # exact: at most 48 bits
        return direct(nearest, (high - nearest.astype(F64)) + low.astype(F64), mode)

    return apply


_TO_INTEGER: dict[str, Callable[..., Any]] = {
    "rn": np.rint,
    "rz": np.trunc,
    "rd": np.floor,
    "ru": np.ceil,
}


def float_to_int(dtype: Dtype, mode: str, result: Dtype | None = None) -> Function:
    """Return floats as integers of `dtype`, saturated, reinterpreted as `result`.

    A NaN becomes 0 if both types have 32 bits, else the number whose only bit is the highest, as
    the PTX ISA defines for `cvt`.
    """
    info = np.iinfo(dtype)
    highest = np.array(1 << (8 * dtype.itemsize - 1), f"u{dtype.itemsize}").view(dtype)[()]

    def apply(x: Array) -> Array:
        whole = _TO_INTEGER[mode](x).astype(F64)
        low, high = F64.type(info.min), F64.type(info.max)
        inside = (whole >= low) & (whole < high)
        number = np.where(inside, whole, 0).astype(dtype)
        number = np.where(whole >= high, dtype.type(info.max), number)
        number = np.where(whole < low, dtype.type(info.min), number)
        wide = x.dtype == F64 or dtype.itemsize == 8
        number = np.where(np.isnan(x), highest if wide else dtype.type(0), number)
        return number.astype(dtype).view(result or dtype)

    return apply
