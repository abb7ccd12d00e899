"""Elementary functions of f32 and f64 that NumPy lacks.

Roots of sums, remainders, exponents, and sine and cosine of multiples of pi.

`in_f64` makes a function of f32 of one of f64: it is rounded once, so its error is little more than
half a unit in the last place.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from tile.ir.numpy_dtypes import F32, F64, Array
from tile.ir.semantics.libdevice.rounding import reciprocal
from tile.ir.semantics.math import fma, two_sum

Function = Callable[..., Array]
INTEGER_MIN, INTEGER_MAX = -(2**31), 2**31 - 1
PI_LOW = 1.2246467991473532e-16  # pi - math.pi


def in_f64(function: Callable[..., Any]) -> Function:
    """Return `function` for operands of f32 or integers, with a result of f32."""

    def apply(*operands: Array) -> Array:
        wide = [x.astype(F64) if x.dtype == F32 else x for x in operands]
        result: Array = np.asarray(function(*wide)).astype(F32)
        return result

    return apply


def exp10(x: Array) -> Array:
    """Return 10 to the power x of f64."""
    return np.power(10.0, x)


def _root_of_squares(*operands: Array) -> tuple[Array, Array, Array]:
    """Return root, error and exponent: sqrt(x^2 + y^2 + ...) is (root + error) 2^exponent."""
    operands = tuple(np.broadcast_arrays(*operands))
    largest = np.maximum.reduce([np.abs(x) for x in operands])
    _, exponent = np.frexp(largest)
    total = low = np.zeros(largest.shape)
    for operand in operands:
        x = np.ldexp(operand, -exponent)
        square = x * x
        total, error = two_sum(total, square)
        low = low + (error + fma(x, x, -square))
    root = np.sqrt(total)
    error = (fma(-root, root, total) + low) / (2 * root)
    return root, np.where(total > 0, error, 0), exponent


def norm(*operands: Array) -> Array:
    """Return the square root of the sum of squares of f64; infinite if one operand is infinite."""
    root, error, exponent = _root_of_squares(*operands)
    result = np.ldexp(root + error, exponent)
    return _with_infinities(operands, result, np.inf)


def rnorm(*operands: Array) -> Array:
    """Return the reciprocal of `norm`; 0 if one operand is infinite."""
    root, error, exponent = _root_of_squares(*operands)
    return _with_infinities(operands, np.ldexp(reciprocal(root, error), -exponent), 0.0)


def _with_infinities(operands: tuple[Array, ...], result: Array, value: float) -> Array:
    for operand in operands:
        result = np.where(np.isinf(operand), value, result)
    return result


def cbrt(x: Array) -> Array:
    """Return the cube root of f64; that of the C library, which NumPy calls, may be 3 ulp off."""
    root, error = _cube_root(x)
    return np.where(x == 0, root, root + error)  # of -0, it is -0


def rcbrt(x: Array) -> Array:
    """Return one over the cube root of f64."""
    return reciprocal(*_cube_root(x))


def _cube_root(x: Array) -> tuple[Array, Array]:
    """Return a cube root and what it lacks to the exact one, by a step of Newton's method."""
    root = np.cbrt(x)
    square = root * root
    low = fma(root, root, -square)
    cube = square * root
    error = (x - cube) - fma(square, root, -cube) - low * root
    correction = error / (3 * square)
    return root, np.where(np.isfinite(correction), correction, 0)


def remainder(x: Array, y: Array) -> Array:
    """Return x - n y with the integer n nearest to x / y; of two equally near, the even one."""
    size, divisor = np.broadcast_arrays(np.abs(x), np.abs(y))
    twice = divisor + divisor
    rest = np.where(np.isfinite(twice), np.fmod(size, twice), size)
    # Halves of small divisors are not exact; their doubles are.
    scale, half = np.where(divisor < 1, 2, 1), np.where(divisor < 1, divisor, divisor / 2)
    first = (rest * scale > half) & np.isfinite(divisor)
    rest = np.where(first, rest - divisor, rest)
    second = (rest * scale >= half) & first
    rest = np.where(second, rest - divisor, rest)
    invalid = (divisor == 0) | ~np.isfinite(size) | np.isnan(divisor)
    rest = np.where(invalid, np.nan, np.where(np.signbit(x), -rest, rest))
    return np.where(rest == 0, np.copysign(0.0, x), rest).astype(x.dtype)


def fdim(x: Array, y: Array) -> Array:
    """Return x - y where that is positive, else 0."""
    return np.where(x <= y, x.dtype.type(0), x - y)


def nearest_away(x: Array) -> Array:
    """Return the nearest integer; of two equally near, the one further from zero."""
    whole = np.trunc(x)
    further = np.abs(x - whole) >= 0.5
    return np.where(further, whole + np.copysign(x.dtype.type(1), x), np.copysign(whole, x))


def ldexp(x: Array, n: Array) -> Array:
    """Return x 2^n, rounded once."""
    return np.ldexp(x, n)


def ilogb(x: Array) -> Array:
    """Return the exponent as i32; the least i32 for 0 and NaN, the greatest for infinity."""
    exponent = np.frexp(x)[1] - 1
    special = (x == 0) | np.isnan(x)
    result = np.where(np.isinf(x), INTEGER_MAX, np.where(special, INTEGER_MIN, exponent))
    return result.astype(np.int32)


def logb(x: Array) -> Array:
    """Return the exponent as a float; -infinity for 0."""
    exponent = (np.frexp(x)[1] - 1).astype(x.dtype)
    result = np.where(np.isinf(x), np.abs(x), np.where(np.isnan(x), x, exponent))
    return np.where(x == 0, x.dtype.type(-np.inf), result)


def powi(x: Array, n: Array) -> Array:
    """Return x to an integer power by repeated squaring; every product is rounded."""
    x, n = np.broadcast_arrays(x, n)
    bits = np.abs(n.astype(np.int64))
    result = np.ones_like(x)
    while True:
        result = np.where(bits & 1, result * x, result)
        bits = bits >> 1
        if not bits.any():
            break
        x = np.where(bits > 0, x * x, x)
    return np.where(n < 0, 1 / result, result)


def saturate(x: Array) -> Array:
    """Return x clamped to the range from 0 to 1; 0 for a NaN."""
    result: Array = np.where(x > 0, np.minimum(x, x.dtype.type(1)), x.dtype.type(0))
    return result


def classify(test: Callable[[Array], Array]) -> Function:
    """Return a predicate whose result is i32, 1 or 0."""

    def apply(x: Array) -> Array:
        return test(x).astype(np.int32)

    return apply


def _in_quadrant(x: Array, quarters: int) -> Array:
    """Return sin(pi x) advanced by `quarters` of a period."""
    quadrant = np.rint(2 * np.fmod(x, 2.0))
    rest = np.fmod(x, 2.0) - quadrant / 2
    high = math.pi * rest
    low = fma(np.full_like(rest, math.pi), rest, -high) + PI_LOW * rest
    sine, cosine = np.sin(high), np.cos(high)
    quadrant = (quadrant + quarters) % 4
    size = np.where(quadrant % 2 == 1, cosine - low * sine, sine + low * cosine)
    result: Array = np.where(quadrant >= 2, -size, size)
    return result


def sinpi(x: Array) -> Array:
    """Return sin(pi x) of f64; for an integer, a zero with its sign."""
    result = _in_quadrant(x, 0)
    return np.where(np.isfinite(x) & (x == np.trunc(x)), np.copysign(0.0, x), result)


def cospi(x: Array) -> Array:
    """Return cos(pi x) of f64; its zeros are positive."""
    result = _in_quadrant(x, 1)
    return np.where(result == 0, 0.0, result)
