"""Sine and cosine of multiples of pi."""

from __future__ import annotations

import math

import numpy as np

from tile.ir.semantics.math import fma
from tile.ir.types import Array

PI_LOW = 1.2246467991473532e-16  # pi - math.pi


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
