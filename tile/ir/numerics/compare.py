"""Comparisons and selection."""

from __future__ import annotations

import numpy as np

from tile.ir.dtypes import Array
from tile.ir.numerics.dtypes import (
    BF16,
    BITS,
    BOOL,
    F16,
    F32,
    F64,
    FP8,
    INTEGERS,
    Binary,
    ByDtype,
    Choices,
    each,
)
from tile.ir.numerics.narrow import MANY, widen

_FUNCTIONS = {
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
}


def cmp(x: Array, y: Array, kind: str) -> Array:
    """Compare elements: `kind` is eq, ne, lt, le, gt or ge; the result is i1.

    Every comparison with a NaN is false, except `ne`, which is true.
    """
    return _CMP[kind][x.dtype](x, y)


def select(condition: Array, x: Array, y: Array) -> Array:
    """Return elements of `x` where the i1 `condition` holds, else of `y`; all three broadcast."""
    if condition.size < MANY:
        return np.where(condition, x, y)
    # `np.where` branches on every element; bit operations are several times faster on irregular
    # masks.
    bits = _SIGNED_BITS[x.dtype.itemsize]
    other = y.view(bits)
    selected = (x.view(bits) ^ other) & np.negative(condition.view(np.int8), dtype=bits)
    selected ^= other
    result: Array = selected.view(x.dtype)
    return result


def _widened(function: Binary) -> Binary:
    def apply(x: Array, y: Array) -> Array:
        return function(widen(x), widen(y))

    return apply


_CMP: Choices[ByDtype[Binary]] = Choices(
    "the kind of a comparison",
    {
        kind: ByDtype(
            "cmp",
            {
                **each((BOOL, *INTEGERS, F32, F64), function),
                **each((F16, BF16, *FP8), _widened(function)),
            },
        )
        for kind, function in _FUNCTIONS.items()
    },
)
_SIGNED_BITS = {size: np.dtype(f"i{size}") for size in BITS}
