"""NumPy dtypes by kind, tables keyed by dtype, and distances between floats in ULPs.

Tests and claims of accuracy use the distances.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TypeAlias, TypeVar

import numpy as np

from tile.errors import ArgumentTypeError, TypeRuleError
from tile.ir import types
from tile.ir.types import DTYPES, SCALAR_OF_DTYPE, Array, Dtype, scalar_of

Unary: TypeAlias = Callable[[Array], Array]
Binary: TypeAlias = Callable[[Array, Array], Array]
V = TypeVar("V")


BOOL = DTYPES["i1"]
SIGNED = tuple(DTYPES[ty.name] for ty in types.SIGNED)
UNSIGNED = tuple(DTYPES[ty.name] for ty in types.UNSIGNED)
INTEGERS = SIGNED + UNSIGNED
FP8 = tuple(DTYPES[ty.name] for ty in types.FP8)
F16, BF16, F32, F64 = FLOATS = tuple(DTYPES[ty.name] for ty in types.FLOATS)
BITS = {size: np.dtype(f"u{size}") for size in (1, 2, 4, 8)}


class ByDtype(dict[Dtype, V]):
    """Implementations of an operation by dtype; any other dtype raises `TypeRuleError`."""

    def __init__(self, name: str, entries: Mapping[Dtype, V]) -> None:
        super().__init__(entries)
        self.name = name

    def __missing__(self, dtype: Dtype) -> V:
        accepted = ", ".join(SCALAR_OF_DTYPE[key].name for key in self)
        name = SCALAR_OF_DTYPE[dtype].name if dtype in SCALAR_OF_DTYPE else str(dtype)
        raise TypeRuleError(f"{self.name} is not defined on {name}; it takes {accepted}")


class Choices(dict[str, V]):
    """Implementations by an attribute's value; any other value raises `TypeRuleError`."""

    def __init__(self, attribute: str, entries: Mapping[str, V]) -> None:
        super().__init__(entries)
        self.attribute = attribute

    def __missing__(self, key: str) -> V:
        raise TypeRuleError(f"{self.attribute} is one of {', '.join(self)}, not {key!r}")


def each(dtypes: Iterable[Dtype], value: V) -> dict[Dtype, V]:
    """Return a table with the same entry for several dtypes."""
    return dict.fromkeys(dtypes, value)


def quiet() -> np.errstate:
    """Return a context manager that suppresses NumPy's floating-point and division warnings.

    The functions of this package do not use it themselves, since entering it takes as long as a
    small operation: a caller enters it once around many calls. Overflow, division by zero and
    invalid operations have defined results here and are not errors.
    """
    return np.errstate(all="ignore")


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
