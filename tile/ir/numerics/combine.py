"""Reductions and scans by a function that is given, over one axis, which counts from the right.

The function combines two groups of values: of n arrays for the first group and n for the second it
gives n. It is called with arrays that hold many elements at once, on neighbours first:

    x0 x1 x2 x3  ->  x0*x1  x2*x3  ->  (x0*x1)*(x2*x3)

That order is fixed, the first operand always stands before the second along the axis, and the
last element of a scan is the reduction, in every bit. A scan computes its other elements from the
same products: x0*x1*x2 is (x0*x1)*x2. So a number of calls that grows with log2(extent) does
either, on no more than twice the elements in all.
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
    """Combine the elements along `axis`, an extent that is a power of two; the results lack it."""
    parts = _over_all_programs(xs)
    while parts[0].shape[axis] > 1:
        parts = _combined(combine, _along(parts, axis, FIRST), _along(parts, axis, SECOND))
    return tuple(part.squeeze(axis) for part in parts)


def scan_by(
    xs: Sequence[Array], combine: Combine, axis: int, reverse: bool = False
) -> tuple[Array, ...]:
    """Combine each element with all before it along `axis`.

    With `reverse` the axis is read from its end: the first operand is then what stands behind.
    """
    if reverse:
        flipped = [np.flip(x, axis) for x in xs]
        return tuple(np.flip(x, axis) for x in scan_by(flipped, combine, axis))
    return tuple(_scan(_over_all_programs(xs), combine, axis))


def _scan(parts: list[Array], combine: Combine, axis: int) -> list[Array]:
    extent = parts[0].shape[axis]
    if extent == 1:
        return parts
    even = _along(parts, axis, FIRST)
    odd = _scan(_combined(combine, even, _along(parts, axis, SECOND)), combine, axis)
    results = [np.empty(part.shape, part.dtype) for part in parts]
    _put(results, axis, SECOND, odd)
    _put(results, axis, slice(0, 1), _along(even, axis, slice(0, 1)))
    if extent > 2:
        before, own = _along(odd, axis, slice(None, -1)), _along(even, axis, slice(1, None))
        _put(results, axis, slice(2, None, 2), _combined(combine, before, own))
    return results


def _over_all_programs(xs: Sequence[Array]) -> list[Array]:
    """Arrays of one shape; some may have come with one entry for all programs."""
    programs = max(x.shape[0] for x in xs)
    return [np.broadcast_to(x, (programs, *x.shape[1:])) for x in xs]


def _combined(combine: Combine, first: list[Array], second: list[Array]) -> list[Array]:
    """What `combine` gives, where it may have left out axes along which a result is constant."""
    shape = first[0].shape
    return [np.broadcast_to(result, shape) for result in combine(*first, *second)]


def _along(parts: Sequence[Array], axis: int, piece: slice) -> list[Array]:
    return [part[_place(axis, piece)] for part in parts]


def _put(results: Sequence[Array], axis: int, piece: slice, parts: Sequence[Array]) -> None:
    for result, part in zip(results, parts, strict=True):
        result[_place(axis, piece)] = part


def _place(axis: int, piece: slice) -> tuple[Any, ...]:
    return (..., piece, *(slice(None),) * (-axis - 1))
