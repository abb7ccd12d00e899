"""Bessel functions of f64: J, Y and I of orders 0 and 1, J and Y of any order.

Below `FAR` they are Taylor polynomials, whose coefficients follow from the differential equation
x^2 y'' + x y' + (+-x^2 - n^2) y = 0; above, Hankel's asymptotic expansion (DLMF 10.17, 10.40).
Y near zero is its logarithmic part and an even or odd series (DLMF 10.8).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator
from decimal import Decimal, localcontext

import numpy as np

from tile.ir.numpy_dtypes import Array
from tile.ir.semantics.libdevice.gamma import lgamma
from tile.ir.semantics.libdevice.piecewise import (
    EULER,
    PRECISION,
    Piecewise,
    Series,
    pi,
    piecewise,
)

FAR = 25.0  # beyond, 25 terms of the asymptotic expansion are below 1e-17
NEAR = 0.5  # below, Y is computed by its logarithm
TERMS = 25
DEGREE = 26

Values = Callable[[Decimal], tuple[Decimal, Decimal]]  # of orders 0 and 1


def _powers(x: Decimal, sign: int) -> Iterator[tuple[int, Decimal]]:
    """Yield k and (sign x^2 / 4)^k / k!^2 until the terms vanish."""
    term, k = Decimal(1), 0
    while abs(term) > Decimal(10) ** -PRECISION or k < abs(x):
        yield k, term
        k += 1
        term = term * sign * x * x / (4 * k * k)


def _first_kind(x: Decimal, sign: int) -> tuple[Decimal, Decimal]:
    """Return J0 and J1, or for a positive `sign` I0 and I1."""
    terms = list(_powers(x, sign))
    zero = sum((term for _, term in terms), Decimal(0))
    return zero, sum((term * x / 2 / (k + 1) for k, term in terms), Decimal(0))


def _second_kind(x: Decimal) -> tuple[Decimal, Decimal]:
    """Return Y0 and Y1; the latter from the Wronskian (DLMF 10.5.2)."""
    j0, j1 = _first_kind(x, -1)
    harmonic = total = Decimal(0)
    for k, term in _powers(x, -1):
        harmonic += Decimal(1) / k if k else 0
        total += harmonic * term
    y0 = 2 / pi() * (((x / 2).ln() + EULER) * j0 - total)
    return y0, (j1 * y0 - 2 / (pi() * x)) / j0


def _series(values: Values, order: int, sign: int) -> Series:
    """Return the Taylor series of a solution of the differential equation."""

    def around(c: Decimal, degree: int) -> list[Decimal]:
        zero, one = values(c)
        if c == 0:
            return _at_zero(order, sign, degree)
        slope = sign * one if order == 0 else zero - one / c
        a = [zero if order == 0 else one, slope]
        square = c * c
        for k in range(degree - 1):
            total = c * (k + 1) * (2 * k + 1) * a[k + 1] + (k * k - sign * square - order) * a[k]
            total -= sign * (2 * c * a[k - 1] if k >= 1 else 0)
            total -= sign * (a[k - 2] if k >= 2 else 0)
            a.append(-total / (square * (k + 2) * (k + 1)))
        return a

    return around


def _at_zero(order: int, sign: int, degree: int) -> list[Decimal]:
    a = [Decimal(0)] * (degree + 1)
    for k in range((degree - order) // 2 + 1):
        n = 2 * k + order
        a[n] = Decimal(sign**k) / (2**n * math.factorial(k) * math.factorial(k + order))
    return a


@functools.cache
def first_kind(order: int, sign: int) -> Piecewise:
    """Return the polynomials of J (`sign` -1) or I (1) of order 0 or 1, from 0 to `FAR`."""
    with localcontext(prec=PRECISION):
        around = _series(lambda x: _first_kind(x, sign), order, sign)
        edges = [float(edge) for edge in range(1, int(FAR) + 1)]
        table = piecewise(around, edges, DEGREE)
        start = [float(number) for number in _at_zero(order, sign, DEGREE)]
    zero = np.zeros(1)
    return Piecewise(
        np.concatenate((zero, table.edges)),
        np.concatenate((zero, table.high)),
        np.concatenate((zero, table.low)),
        np.vstack((start, table.coefficients)),
    )


@functools.cache
def second_kind(order: int) -> Piecewise:
    """Return the polynomials of Y of order 0 or 1, from `NEAR` to `FAR`."""
    with localcontext(prec=PRECISION):
        edges = [NEAR]
        while edges[-1] < FAR:  # the series around c converges within c
            edges.append(min(edges[-1] + min(0.3 * edges[-1], 1.0), FAR))
        return piecewise(_series(_second_kind, order, -1), edges, DEGREE)


@functools.cache
def regular_part(order: int) -> tuple[float, ...]:
    """Return the coefficients of x^(2k + order) in Y - 2 / pi ln(x) J, for order 1 + 2 / (pi x)."""
    result = []
    with localcontext(prec=PRECISION):
        for k in range(10):
            harmonic = sum((Decimal(1) / j for j in range(1, k + 1)), Decimal(0))
            mean = harmonic + Decimal(order) / (2 * (k + 1)) - EULER
            n = 2 * k + order
            j = Decimal((-1) ** k) / (2**n * math.factorial(k) * math.factorial(k + order))
            result.append(float(-2 / pi() * j * (mean + Decimal(2).ln())))
    return tuple(result)


@functools.cache
def hankel(order: int) -> tuple[float, ...]:
    """Return the coefficients a_k of the asymptotic expansions in 1 / x."""
    a, result = 1.0, []
    for k in range(TERMS):
        result.append(a)
        a *= (4 * order * order - (2 * k + 1) ** 2) / (8 * (k + 1))
    return tuple(result)


def horner(coefficients: tuple[float, ...], t: Array) -> Array:
    """Evaluate a polynomial; coefficients start with the lowest power."""
    result = np.full_like(t, coefficients[-1])
    for coefficient in coefficients[-2::-1]:
        result = result * t + coefficient
    return result


def _oscillating(x: Array, order: int) -> tuple[Array, Array]:
    """Return J and Y for large x."""
    a = hankel(order)
    square = -1 / (x * x)
    p, q = horner(a[::2], square), horner(a[1::2], square) / x
    sine, cosine = np.sin(x), np.cos(x)
    near, far = (cosine + sine, sine - cosine) if order == 0 else (sine - cosine, -cosine - sine)
    scale = 1 / np.sqrt(math.pi * x)
    scale = np.where(np.isinf(x), 0, scale)
    return _finite(scale, p * near - q * far), _finite(scale, p * far + q * near)


def _finite(scale: Array, part: Array) -> Array:
    return np.where(scale == 0, 0, scale * part)


def j(order: int) -> Callable[[Array], Array]:
    """Return J of order 0 or 1."""

    def apply(x: Array) -> Array:
        size = np.abs(x)
        result = np.where(size < FAR, first_kind(order, -1)(size), _oscillating(size, order)[0])
        return np.copysign(1, x) * result if order else result

    return apply


def y(order: int) -> Callable[[Array], Array]:
    """Return Y of order 0 or 1; NaN for negative numbers."""

    def apply(x: Array) -> Array:
        near = horner(regular_part(order), x * x) * (x if order else 1)
        near += 2 / math.pi * np.log(x) * first_kind(order, -1)(x)
        near -= 2 / math.pi / x if order else 0
        result = np.where(x < NEAR, near, second_kind(order)(x))
        result = np.where(x < FAR, result, _oscillating(x, order)[1])
        return np.where(x == 0, -np.inf, np.where(x >= 0, result, np.nan))

    return apply


def i(order: int) -> Callable[[Array], Array]:
    """Return I of order 0 or 1."""

    def apply(x: Array) -> Array:
        size = np.abs(x)
        half = np.exp(size / 2)
        far = half * (horner(hankel(order), -1 / size) / np.sqrt(2 * math.pi * size)) * half
        far = np.where(np.isinf(size), np.inf, far)
        result = np.where(size < FAR, first_kind(order, 1)(size), far)
        return np.copysign(1, x) * result if order else result

    return apply


def yn(n: Array, x: Array) -> Array:
    """Return Y of order n, by its upward recurrence; NaN for a negative order."""
    n, x = np.broadcast_arrays(n, x)
    before, value = y(0)(x), y(1)(x)
    result = np.where(n == 0, before, value)
    for k in range(1, int(n.max(initial=0))):
        before, value = value, np.where(np.isinf(value), value, 2 * k / x * value - before)
        result = np.where(n == k + 1, value, result)
    return np.where(n < 0, np.nan, result)


def jn(n: Array, x: Array) -> Array:
    """Return J of order n; NaN for a negative order.

    Below x the recurrence upward is stable. Else Miller's algorithm: the recurrence downward from
    a greater order, divided by the sum J0 + 2 J2 + 2 J4 + ... = 1.
    """
    n, x = np.broadcast_arrays(n, x)
    size = np.abs(x)
    before, value = j(0)(size), j(1)(size)
    result = np.where(n == 0, before, value)
    top = int(n.max(initial=0))
    for k in range(1, top):
        before, value = value, 2 * k / size * value - before
        result = np.where(n == k + 1, value, result)
    downward = (n > size) & (n > 1)
    if downward.any():
        result = np.where(downward, _miller(n, np.where(downward, size, 1.0), top), result)
    result = np.where((size == 0) & (n > 0) | np.isinf(size), 0, result)
    result = np.where((x < 0) & (n % 2 == 1), -result, result)
    return np.where(n < 0, np.nan, result)


def _miller(n: Array, x: Array, top: int) -> Array:
    tiny = np.exp(n * np.log(x / 2) - lgamma(n + 1.0))
    small, x = x < 1e-6, np.maximum(x, 1e-6)
    start = 2 * ((top + int(math.sqrt(60 * (top + 10))) + 30) // 2)
    above, value = np.zeros(x.shape), np.full(x.shape, 1e-300)
    wanted = total = np.zeros(x.shape)
    for k in range(start, 0, -1):
        above, value = value, 2 * k / x * value - above
        large = np.abs(value) > 1e200
        scale = np.where(large, 1e-200, 1)
        above, value, wanted, total = (part * scale for part in (above, value, wanted, total))
        wanted = np.where(n == k - 1, value, wanted)
        total = total + (2 * value if k % 2 == 1 and k > 1 else 0)
    result: Array = np.where(small, tiny, wanted / (total + value))
    return result
