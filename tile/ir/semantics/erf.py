"""The error function, which NumPy lacks: by polynomials, on blocks of elements.

In f64, erf(x) = x + x P(x^2) near zero. Beyond, it is a number plus u Q(u), in intervals, where u
is the distance from the middle of one. The number, in two parts, is added last, so the error of the
result is little more than that of an addition.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tile.ir.numpy_dtypes import F32, F64, Array, Unary

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


class _Interval(NamedTuple):
    """A polynomial up to a number: erf(x) = high + (low + u Q(u)), where u = x - middle."""

    end: float
    middle: float
    high: float
    low: float
    coefficients: tuple[float, ...]


# Interpolated at Chebyshev nodes in 60 digits. Errors are below 1.3e-17 x, and 1e-17 in intervals.
F64_NEAR = 0.75
F64_NUMBERS = (
    0.1283791670955126,
    -0.37612638903183754,
    0.11283791670955087,
    -0.026866170645118446,
    0.005223977625222192,
    -0.0008548327001135946,
    0.00012055331545294116,
    -1.4925589383821143e-05,
    1.646038320985815e-06,
    -1.63332293434337e-07,
    1.4413879289095029e-08,
    -9.502840894774706e-10,
)
F64_INTERVALS = (
    _Interval(
        2.0,
        1.375,
        0.9481700727820903,
        1.071691533519912e-17,
        (
            0.1703597736875156,
            -0.23424468882033372,
            0.1579377068561342,
            -0.03050061052351401,
            -0.030605976268916993,
            0.022161235264342022,
            -0.0014190623610566416,
            -0.004261033471824343,
            0.0015779112408438017,
            0.00032359180685065364,
            -0.00033910161336312555,
            2.867953488194537e-05,
            4.175530764799056e-05,
            -1.19752357426853e-05,
            -2.974918266213684e-06,
            1.888274967004313e-06,
            2.4664937564564796e-08,
            -1.7546269030424688e-07,
            1.9944776472295284e-08,
        ),
    ),
    _Interval(
        4.0,
        3.0,
        0.9999779095030014,
        5.363397058636269e-17,
        (
            0.00013925305194674271,
            -0.0004177591558402426,
            0.0007891006276994829,
            -0.001044397889600851,
            0.0010165472791614273,
            -0.0007380411753080605,
            0.00039057165600032257,
            -0.00013477706114333387,
            1.3906879241971658e-05,
            1.56162363354225e-05,
            -1.0793589415124638e-05,
            3.0307072988805755e-06,
            1.2330114803181393e-07,
            -4.525173092277634e-07,
            1.6589728761611673e-07,
            -9.388279157249775e-09,
            -1.5171225894452588e-08,
            6.011174404831254e-09,
            -2.5065252244382397e-10,
            -4.782608917831651e-10,
            1.0070263428361818e-10,
            8.779058302050862e-12,
        ),
    ),
    _Interval(
        6.0,
        5.0,
        0.9999999999984626,
        -2.294992711807301e-17,
        (
            1.5670866531017336e-11,
            -7.835427816657364e-11,
            2.5595759977061834e-10,
            -6.137782815208231e-10,
            1.1507585554152748e-09,
            -1.7542269416407463e-09,
            2.232178618701082e-09,
            -2.414485647562346e-09,
            2.2479758504315573e-09,
            -1.8182277734093957e-09,
            1.2874487456352902e-09,
            -7.982537827011685e-10,
            4.2818322001294826e-10,
            -1.9972749958820767e-10,
            8.462754417353461e-11,
            -3.003729703274141e-11,
            5.8279464394722046e-12,
        ),
    ),
)


def erf_f32(x: Array) -> Array:
    """Return erf of f32 values, computed in f64 and rounded once: within 0.6 ulp."""
    return _in_blocks(_erf_f32, x)


def erf_f64(x: Array) -> Array:
    """Return erf of f64 values: within 1 ulp."""
    return _in_blocks(_erf_f64, x)


def _in_blocks(function: Unary, x: Array) -> Array:
    """Return a function of the elements, which it gets along one axis."""
    source = x.reshape(-1)
    if source.size <= BLOCK:
        return function(source).reshape(x.shape)
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
    size = np.abs(x)
    far = np.flatnonzero(size >= F64_NEAR)
    y = np.clip(x, -F64_NEAR, F64_NEAR)
    result: Array = _polynomial(F64_NUMBERS, y * y)
    result *= y
    result += y
    if far.size:
        result[far] = np.copysign(_erf_of_far(size[far]), x[far])
    return result


def _erf_of_far(x: Array) -> Array:
    """Return erf of numbers from `F64_NEAR` on."""
    result = np.empty_like(x)
    np.minimum(x, F64_INTERVALS[-1].end, out=x)  # beyond, it is 1
    start = F64_NEAR
    for interval in F64_INTERVALS:
        inside = np.flatnonzero((x >= start) & (x <= interval.end))
        if inside.size:
            u = x[inside] - interval.middle
            value = _polynomial(interval.coefficients, u)
            value *= u
            value += interval.low
            value += interval.high
            result[inside] = value
        start = interval.end
    return result
