"""Reductions and scans over one axis, which counts from the right (axis < 0).

*By kind*: results have the dtype of the operand. Integer sums and products wrap; on i1 a sum is
modulo 2. Sums and products of f16 and bf16 are accumulated in f32 and rounded at the end (a scan
rounds each element of its result). The order of a float sum is NumPy's: pairwise along the last
axis, sequential along others. Maxima and minima treat NaN as `maximum` and `minimum` do. Callers
hold `quiet()` around these functions.

*By a combine function*, which combines two groups of n values each and returns n values; it takes
2 n arrays of many elements at once. A tree combines adjacent elements first:

    x0 x1 x2 x3  ->  x0*x1  x2*x3  ->  (x0*x1)*(x2*x3)

The order is fixed, the first operand always precedes the second along the axis, and the last
element of a scan equals the reduction, bit for bit. A scan computes its other elements from the
same partial results: x0*x1*x2 is (x0*x1)*x2. Both take O(log2(extent)) calls, on at most twice the
elements in total.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from tile.ir.numpy_dtypes import (
    BOOL,
    FLOATS,
    INTEGERS,
    NARROW_FLOATS,
    Array,
    ByDtype,
    Choices,
    Dtype,
    each,
)
from tile.ir.semantics.cast import narrow, widen

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
    wide = widen(x) if x.dtype in NARROW_FLOATS else x
    indices = find(wide, axis)
    values = _along(wide, indices, axis)
    if x.dtype in FLOATS and np.isnan(values).any():  # `find` takes the first NaN
        values = _fold("reduce", wide, best, axis)
        indices = np.argmax(wide == np.expand_dims(values, axis), axis)
        values = _along(wide, indices, axis)  # the zero of the right sign at that index
    if x.dtype in NARROW_FLOATS:
        values = narrow(values, x.dtype)
    return values, indices.astype(np.int32)


def _fold(method: str, x: Array, combine: np.ufunc, axis: int) -> Array:
    if x.dtype in NARROW_FLOATS:
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


Combine: TypeAlias = Callable[..., Sequence[Array]]

FIRST = slice(0, None, 2)
SECOND = slice(1, None, 2)


def reduce_region(xs: Sequence[Array], combine: Combine, axis: int) -> tuple[Array, ...]:
    """Combine the elements along `axis`, and drop the axis; a last one of an odd number waits."""
    arrays = _over_all_programs(xs)
    while (extent := arrays[0].shape[axis]) > 1:
        first = _sliced(arrays, axis, slice(0, extent - 1, 2))
        pairs = _combined(combine, first, _sliced(arrays, axis, SECOND))
        if extent % 2:
            last = _sliced(arrays, axis, slice(extent - 1, None))
            pairs = [np.concatenate(both, axis) for both in zip(pairs, last, strict=True)]
        arrays = pairs
    return tuple(array.squeeze(axis) for array in arrays)


def scan_region(
    xs: Sequence[Array], combine: Combine, axis: int, reverse: bool = False
) -> tuple[Array, ...]:
    """Combine each element with all before it along `axis` (inclusive scan).

    With `reverse` the axis is traversed from its end: the first operand is the one further along.
    """
    if reverse:
        flipped = [np.flip(x, axis) for x in xs]
        return tuple(np.flip(x, axis) for x in scan_region(flipped, combine, axis))
    return tuple(_scan(_over_all_programs(xs), combine, axis))


def _scan(arrays: list[Array], combine: Combine, axis: int) -> list[Array]:
    extent = arrays[0].shape[axis]
    if extent == 1:
        return arrays
    even, after = _sliced(arrays, axis, FIRST), _sliced(arrays, axis, SECOND)
    before = _sliced(even, axis, slice(extent // 2))
    odd = _scan(_combined(combine, before, after), combine, axis)
    results = [np.empty(array.shape, array.dtype) for array in arrays]
    _put(results, axis, SECOND, odd)
    _put(results, axis, slice(0, 1), _sliced(even, axis, slice(0, 1)))
    if extent > 2:
        own = _sliced(even, axis, slice(1, None))
        before = _sliced(odd, axis, slice((extent - 1) // 2))
        _put(results, axis, slice(2, None, 2), _combined(combine, before, own))
    return results


def _over_all_programs(xs: Sequence[Array]) -> list[Array]:
    """Broadcast the arrays to one shape; some may have a single entry for all programs."""
    programs = max(x.shape[0] for x in xs)
    return [np.broadcast_to(x, (programs, *x.shape[1:])) for x in xs]


def _combined(combine: Combine, first: list[Array], second: list[Array]) -> list[Array]:
    """Call `combine` and broadcast results whose constant axes have extent 1."""
    shape = first[0].shape
    return [np.broadcast_to(result, shape) for result in combine(*first, *second)]


def _sliced(arrays: Sequence[Array], axis: int, positions: slice) -> list[Array]:
    return [array[_index(axis, positions)] for array in arrays]


def _put(results: Sequence[Array], axis: int, positions: slice, arrays: Sequence[Array]) -> None:
    for result, array in zip(results, arrays, strict=True):
        result[_index(axis, positions)] = array


def _index(axis: int, positions: slice) -> tuple[Any, ...]:
    return (..., positions, *(slice(None),) * (-axis - 1))
