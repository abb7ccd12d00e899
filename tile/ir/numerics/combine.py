"""Reductions and scans by a combine function, over one axis, which counts from the right.

The function combines two groups of n values each and returns n values; it takes 2 n arrays of many
elements at once. A tree combines adjacent elements first:

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

from tile.ir.dtypes import Array

Combine: TypeAlias = Callable[..., Sequence[Array]]

FIRST = slice(0, None, 2)
SECOND = slice(1, None, 2)


def reduce_by(xs: Sequence[Array], combine: Combine, axis: int) -> tuple[Array, ...]:
    """Combine the elements along `axis`, whose extent is a power of two, and drop the axis."""
    arrays = _over_all_programs(xs)
    while arrays[0].shape[axis] > 1:
        arrays = _combined(combine, _sliced(arrays, axis, FIRST), _sliced(arrays, axis, SECOND))
    return tuple(array.squeeze(axis) for array in arrays)


def scan_by(
    xs: Sequence[Array], combine: Combine, axis: int, reverse: bool = False
) -> tuple[Array, ...]:
    """Combine each element with all before it along `axis` (inclusive scan).

    With `reverse` the axis is traversed from its end: the first operand is the one further along.
    """
    if reverse:
        flipped = [np.flip(x, axis) for x in xs]
        return tuple(np.flip(x, axis) for x in scan_by(flipped, combine, axis))
    return tuple(_scan(_over_all_programs(xs), combine, axis))


def _scan(arrays: list[Array], combine: Combine, axis: int) -> list[Array]:
    extent = arrays[0].shape[axis]
    if extent == 1:
        return arrays
    even = _sliced(arrays, axis, FIRST)
    odd = _scan(_combined(combine, even, _sliced(arrays, axis, SECOND)), combine, axis)
    results = [np.empty(array.shape, array.dtype) for array in arrays]
    _put(results, axis, SECOND, odd)
    _put(results, axis, slice(0, 1), _sliced(even, axis, slice(0, 1)))
    if extent > 2:
        before, own = _sliced(odd, axis, slice(None, -1)), _sliced(even, axis, slice(1, None))
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
