"""Where values decide which element goes where.

Axes count from the right; axis 0 of every array is the program axis.
"""

from __future__ import annotations

import numpy as np

from tile.ir.numerics.dtypes import BF16, F16, Array
from tile.ir.numerics.narrow import narrow, widen

NARROW = frozenset((F16, BF16))


def gather(x: Array, index: Array, axis: int) -> Array:
    """The elements of `x` at positions `index` along `axis`.

    A position outside is undefined in the language; here it counts as the nearest one inside.
    """
    inside = np.clip(index, 0, x.shape[axis] - 1)
    return np.take_along_axis(x, inside, axis)


def histogram(x: Array, mask: Array | None, bins: int) -> Array:
    """How often each of 0 to bins - 1 is among the integers (P, N) where the mask (P, N) is true.

    The result is i32 of shape (P, bins). Other integers count nowhere.
    """
    wide = x.astype(np.int64)  # the greatest of u64 become negative: outside as well
    counted = (wide >= 0) & (wide < bins)
    if mask is not None:
        counted = counted & mask
    programs = counted.shape[0]
    places = wide + np.arange(programs)[:, None] * bins
    counts = np.bincount(places[counted], minlength=programs * bins)
    return counts.reshape(programs, bins).astype(np.int32)


def sort(x: Array, axis: int, descending: bool = False, count: int | None = None) -> Array:
    """The first `count` elements along `axis` in order. A NaN is greater than every number.

    Which of equal elements, such as the two zeros, comes first is not defined.
    """
    ordered = narrow(np.sort(widen(x), axis), x.dtype) if x.dtype in NARROW else np.sort(x, axis)
    if descending:
        ordered = np.flip(ordered, axis)
    return ordered[(..., slice(count), *(slice(None),) * (-axis - 1))]
