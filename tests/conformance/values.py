"""Random arrays of every element type, with the values at which implementations differ."""

from __future__ import annotations

from typing import Any

import numpy as np

from tile.ir import semantics
from tile.ir.types import Pointer, Scalar

Array = np.ndarray[Any, Any]


def random_array(
    rng: np.random.Generator,
    element: Scalar,
    count: int,
    domain: tuple[float, float] | None = None,
    *,
    special: bool = True,
    nonzero: bool = False,
) -> Array:
    """`count` elements; floats from `domain`, or normal with zeros, infinities and NaN among them."""
    dtype = semantics.numpy_dtype(element)
    if element.is_bool():
        return rng.integers(0, 2, count).astype(np.bool_)
    if element.is_int():
        narrow = rng.integers(-20 if element.signed else 0, 21, count)
        wide = rng.integers(element.min_value, element.max_value, count, dtype, endpoint=True)
        values = np.where(rng.random(count) < 0.5, narrow.astype(dtype), wide)
        if special and count >= 4:
            values[:2] = [element.min_value, element.max_value]
        if nonzero:
            values[values == 0] = 3
        return values.astype(dtype)
    if domain is not None:
        low, high = domain
        if low > 0:
            return np.exp(rng.uniform(np.log(low), np.log(high), count)).astype(dtype)
        return rng.uniform(low, high, count).astype(dtype)
    values = rng.standard_normal(count) * 10.0 ** rng.integers(-2, 3, count)
    if special and count >= 8:
        values[:6] = [0.0, -0.0, np.inf, -np.inf, np.nan, 1.0]
    with np.errstate(over="ignore"):
        return values.astype(dtype)


def placeholder(element: Scalar | Pointer, count: int) -> Array:
    """An array to be written, filled with a pattern that no result has by chance."""
    dtype = semantics.numpy_dtype(element)
    return np.frombuffer(
        bytes([0x5A if dtype != np.bool_ else 1]) * (count * dtype.itemsize), dtype
    ).copy()
