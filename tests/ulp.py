"""Distances between floats in units in the last place, which claims of accuracy are stated in."""

from __future__ import annotations

import numpy as np

from tile.errors import ArgumentTypeError
from tile.ir.numpy_dtypes import BITS, FLOATS, FP8, Array, scalar_of

FAR = np.uint64((1 << 64) - 1)


def ulp_distance(a: Array, b: Array) -> Array:
    """Return the number of floating-point steps between `a` and `b`, elementwise, as u64.

    Adjacent numbers are 1 apart, the two zeros 0, and infinity is adjacent to the largest finite
    number. Two NaNs are 0 apart, and a NaN is 2^64 - 1 from any number. Raises `ArgumentTypeError`
    unless both arrays have the same float dtype.
    """
    if a.dtype != b.dtype or a.dtype not in (*FLOATS, *FP8):
        dtypes = f"{scalar_of(a.dtype)} and {scalar_of(b.dtype)}"
        raise ArgumentTypeError(f"ulp_distance takes two arrays of one float type, not {dtypes}")
    x, y = _rank(a), _rank(b)
    distance = np.maximum(x, y) - np.minimum(x, y)
    x_nan, y_nan = np.isnan(a), np.isnan(b)
    return np.where(x_nan | y_nan, np.where(x_nan & y_nan, np.uint64(0), FAR), distance)


def _rank(x: Array) -> Array:
    """Return the rank of each number among all of its dtype, with zero in the middle of u64."""
    sign = 1 << (8 * x.dtype.itemsize - 1)
    bits = x.view(BITS[x.dtype.itemsize]).astype(np.uint64)
    middle = np.uint64(1 << 63)
    magnitude = bits & np.uint64(sign - 1)
    return np.where(bits >= np.uint64(sign), middle - magnitude, middle + magnitude)
