"""Where values decide which element goes where.

Axes count from the right; axis 0 of every array is the program axis.
"""

from __future__ import annotations

import numpy as np

from tile.ir.dtypes import Array


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

    Of the two zeros the negative one is less.
    """
    if x.dtype.kind in "biu":
        ordered = np.sort(x, axis)
    else:
        ordered = _in_order(np.sort(_in_order(x.view(f"i{x.itemsize}"), np.isnan(x)), axis))
        ordered = ordered.view(x.dtype)
    if descending:
        ordered = np.flip(ordered, axis)
    return ordered[(..., slice(count), *(slice(None),) * (-axis - 1))]


def _in_order(bits: Array, nan: Array | None = None) -> Array:
    """The bits of floats, as signed integers, in the order of the floats; or the other way round.

    Those of negative numbers count backwards. A NaN, greater than all, loses its sign.
    """
    greatest = np.iinfo(bits.dtype).max
    turned: Array = bits ^ ((bits >> (8 * bits.itemsize - 1)) & greatest)
    return turned if nan is None else np.where(nan, bits & greatest, turned)
