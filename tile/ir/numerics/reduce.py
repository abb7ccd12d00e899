"""Reductions and scans over one axis, which counts from the right (axis < 0).

Results have the dtype of the operand. Integer sums and products wrap; on i1 a sum is modulo 2. Sums
and products of f16 and bf16 are accumulated in f32 and rounded at the end (a scan rounds each
element of its result). The order of a float sum is NumPy's: pairwise along the last axis,
sequential along others. Maxima and minima treat NaN as `maximum` and `minimum` do. Callers hold
`quiet()` around these functions.
"""

from __future__ import annotations

import numpy as np

from tile.ir.dtypes import Array, Dtype
from tile.ir.numerics.dtypes import (
    BF16,
    BOOL,
    F16,
    FLOATS,
    INTEGERS,
    ByDtype,
    Choices,
    each,
)
from tile.ir.numerics.narrow import narrow, widen

NARROW = frozenset((F16, BF16))
NUMBER_WINS = (np.fmin, np.fmax)


def reduce(x: Array, kind: str, axis: int, propagate_nan: bool = False) -> Array:
    """Combine the elements along `axis`, and drop the axis.

    `kind` is sum, prod, max, min, and, or, xor; the last three are for integers and i1.
    """
    return _fold("reduce", x, _COMBINE[propagate_nan][kind][x.dtype], axis)


def scan(x: Array, kind: str, axis: int, reverse: bool = False) -> Array:
    """Combine each element with all before it along `axis`, or with `reverse` all after it.

    `kind` is as in `reduce`.
    """
    if reverse:
        return np.flip(scan(np.flip(x, axis), kind, axis), axis)
    return _fold("accumulate", x, _COMBINE[False][kind][x.dtype], axis)


def argreduce(x: Array, kind: str, axis: int, tie_break_left: bool = True) -> tuple[Array, Array]:
    """Return the greatest (`kind` argmax) or least (argmin) elements along `axis`, and i32 indices.

    Ties are resolved to the first element, or without `tie_break_left` to the last (the language
    leaves that choice open). A NaN is returned only if all elements are NaNs.
    """
    if not tie_break_left:
        values, indices = argreduce(np.flip(x, axis), kind, axis)
        return values, np.int32(x.shape[axis] - 1) - indices
    find, best = _ARGREDUCE[kind]
    wide = widen(x) if x.dtype in NARROW else x
    indices = find(wide, axis)
    values = _along(wide, indices, axis)
    if x.dtype in FLOATS and np.isnan(values).any():  # `find` takes the first NaN
        values = _fold("reduce", wide, best, axis)
        indices = np.argmax(wide == np.expand_dims(values, axis), axis)
        values = _along(wide, indices, axis)  # the zero of the right sign at that index
    if x.dtype in NARROW:
        values = narrow(values, x.dtype)
    return values, indices.astype(np.int32)


def _fold(method: str, x: Array, combine: np.ufunc, axis: int) -> Array:
    if x.dtype in NARROW:
        return narrow(_fold(method, widen(x), combine, axis), x.dtype)
    apply = getattr(combine, method)
    result: Array = apply(x, axis, x.dtype)
    if combine in NUMBER_WINS and np.isnan(result).any():
        result = apply(x * 1, axis, x.dtype)  # without signaling NaNs, as in `minimum`
    return result


def _along(x: Array, indices: Array, axis: int) -> Array:
    return np.take_along_axis(x, np.expand_dims(indices, axis), axis).squeeze(axis)


def _combinations(least: np.ufunc, greatest: np.ufunc) -> Choices[ByDtype[np.ufunc]]:
    numbers = (*INTEGERS, *FLOATS)
    bits = (BOOL, *INTEGERS)
    tables: dict[str, dict[Dtype, np.ufunc]] = {
        "sum": {BOOL: np.bitwise_xor, **each(numbers, np.add)},
        "prod": {BOOL: np.bitwise_and, **each(numbers, np.multiply)},
        "max": {BOOL: np.bitwise_or, **each(INTEGERS, np.maximum), **each(FLOATS, greatest)},
        "min": {BOOL: np.bitwise_and, **each(INTEGERS, np.minimum), **each(FLOATS, least)},
        "and": each(bits, np.bitwise_and),
        "or": each(bits, np.bitwise_or),
        "xor": each(bits, np.bitwise_xor),
    }
    return Choices(
        "the kind of a reduction", {kind: ByDtype(kind, table) for kind, table in tables.items()}
    )


_COMBINE = (_combinations(np.fmin, np.fmax), _combinations(np.minimum, np.maximum))
_ARGREDUCE = Choices(
    "the kind of an argreduce", {"argmax": (np.argmax, np.fmax), "argmin": (np.argmin, np.fmin)}
)
