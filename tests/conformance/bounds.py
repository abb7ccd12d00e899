"""Error bounds of floating-point results whose order of summation is a backend's own.

A bound takes the operands of all programs and the results wanted, and gives the absolute difference
that is allowed to each result.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import ml_dtypes
import numpy as np

from tile.ir import semantics
from tile.ir.types import Precision, Scalar, Tile

Array = np.ndarray[Any, Any]
Bound = Callable[[Sequence[Any], Any], Any]


def epsilon(element: Any) -> float:
    """The distance from 1 to the next number."""
    return float(ml_dtypes.finfo(semantics.numpy_dtype(element)).eps)


def accumulation(element: Scalar) -> float:
    """The epsilon of sums and products of a type: those of narrow ones are accumulated in f32."""
    return min(epsilon(element), 2.0**-23)


def of_error(ulp: float, absolute: float) -> Bound:
    """Return the bound for results within `ulp` units in the last place plus `absolute`."""
    return lambda arrays, wanted: ulp * np.spacing(np.abs(wanted)) + absolute


def of_reduction(magnitudes: Callable[[Array], Array], ty: Tile, axis: int) -> Bound:
    """Return the bound for n numbers combined in any order.

    Each of n - 1 steps rounds by eps / 2 of what is combined so far, and that is at most what
    `magnitudes` says of the operand; two orders differ by twice that. Each result is then rounded
    to its own type.
    """
    element = ty.element
    assert isinstance(element, Scalar)
    steps, own = ty.shape[axis] * accumulation(element), epsilon(element)

    def bound(arrays: Sequence[Any], wanted: Any) -> Any:
        size = magnitudes(np.abs(arrays[0].astype(np.float64)).reshape(-1, *ty.shape)).ravel()
        return steps * size + own * np.abs(wanted.astype(np.float64))

    return bound


def of_sums(ty: Tile, axis: int) -> Bound:
    return of_reduction(lambda sizes: sizes.sum(axis), ty, axis)


def of_products(ty: Tile, axis: int) -> Bound:
    """Return the bound for products of numbers near 1, none of which loses digits."""
    return of_reduction(lambda sizes: sizes.prod(axis), ty, axis)


def of_running(fold: Any, ty: Tile, axis: int, *, reverse: bool) -> Bound:
    """Return the bound for running sums or products: `fold` is np.add or np.multiply."""

    def totals(sizes: Array) -> Array:
        if not reverse:
            return np.asarray(fold.accumulate(sizes, axis))
        return np.asarray(np.flip(fold.accumulate(np.flip(sizes, axis), axis), axis))

    return of_reduction(totals, ty, axis)


# What a product of numbers in parts leaves out, of its magnitude (`numerics.dot`); a backend that
# multiplies more exactly is as good. One that cuts both operands of tf32 off instead of rounding
# them has each up to 2^-10 smaller.
LEFT_OUT = {
    Precision.TF32: 2.0**-9,
    Precision.TF32X3: 2.0**-21,
    Precision.BF16X3: 2.0**-15,
    Precision.BF16X6: 2.0**-22,
}


FEW_DIGITS = 2.0**-13  # the epsilon of sums of 8-bit floats that may be imprecise


def of_dots(
    a: Tile,
    b: Tile,
    accumulator: Scalar,
    precision: Precision = Precision.IEEE,
    *,
    imprecise: bool = False,
) -> Bound | None:
    """A sum of k products may be off by k units in the last place of the sum of their magnitudes."""
    if accumulator.is_int():
        return None
    digits, k = epsilon(accumulator), a.shape[-1]
    if imprecise:
        digits = max(digits, FEW_DIGITS)

    def bound(arrays: Sequence[Any], wanted: Any) -> Any:
        x, y, c = (np.abs(array.astype(np.float64)) for array in arrays)
        total = (x.reshape(-1, *a.shape) @ y.reshape(-1, *b.shape)).ravel() + c
        return ((k + 4) * digits + LEFT_OUT.get(precision, 0.0)) * total + 1e-30

    return bound
