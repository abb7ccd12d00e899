"""Shape operations, and those with data-dependent indices: gather, histogram and sort.

Axis 0 of every array is the program axis; the rest are the tile's, and count from the right.
Results are views if NumPy allows that: do not write to them.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

import numpy as np

from tile.ir.numpy_dtypes import Array, numpy_dtype
from tile.ir.types import Scalar


def reshape(x: Array, shape: Sequence[int]) -> Array:
    """Reshape tiles (P, ...) to (P, *shape), with elements in row-major order."""
    return x.reshape(x.shape[0], *shape)


def permute(x: Array, order: Sequence[int]) -> Array:
    """Permute the axes of tiles: axis i of the result is axis order[i] of `x`."""
    return x.transpose(0, *(axis + 1 for axis in order))


def arange(start: int, end: int) -> Array:
    """Return the integers in [start, end) as i32 of shape (1, end - start)."""
    return np.arange(start, end, dtype=np.int32)[None]


def join(x: Array, y: Array) -> Array:
    """Pair the elements of two tiles along a new last axis; axes of extent 1 broadcast."""
    return np.stack(np.broadcast_arrays(x, y), -1)


def split(x: Array) -> tuple[Array, Array]:
    """Return the first and second elements along the last axis; extent 1 stands for both."""
    return x[..., 0], x[..., -1]


def flip(x: Array, axis: int) -> Array:
    """Reverse the elements along axis `axis` < 0."""
    return np.flip(x, axis)


def gather(x: Array, index: Array, axis: int) -> Array:
    """Return the elements of `x` at positions `index` along `axis`.

    A position out of range is undefined in the language; here it is clamped to the axis.
    """
    inside = np.clip(index, 0, x.shape[axis] - 1)
    return np.take_along_axis(x, inside, axis)


def scatter(x: Array, index: Array, axis: int) -> Array:
    """Move the elements of `x` to positions `index` along `axis`, a permutation of the axis."""
    return np.take_along_axis(x, np.argsort(index, axis, kind="stable"), axis)


def rank(x: Array) -> Array:
    """Return the position of each element of (P, N) if its row was sorted, stably, as i32."""
    order = np.argsort(x, axis=-1, kind="stable")
    positions = np.arange(x.shape[-1], dtype=np.int32)
    return scatter(np.broadcast_to(positions, x.shape), order, -1)


@functools.lru_cache(maxsize=64)
def _entries(of: Scalar, entries: tuple[int, ...]) -> Array:
    return np.array(entries, numpy_dtype(of))


def table(index: Array, of: Scalar, entries: tuple[int, ...]) -> Array:
    """Return entries of a table of 2^n unsigned integers, by the lowest n bits of an index."""
    looked_up: Array = _entries(of, entries)[index & (len(entries) - 1)]
    return looked_up


def histogram(x: Array, mask: Array | None, bins: int) -> Array:
    """Count each of 0 to bins - 1 among the integers (P, N) where the mask (P, N) is true.

    The result is i32 of shape (P, bins). Other integers are ignored.
    """
    wide = x.astype(np.int64)  # large u64 values become negative, which is out of range as well
    counted = (wide >= 0) & (wide < bins)
    if mask is not None:
        counted = counted & mask
    programs = counted.shape[0]
    positions = wide + np.arange(programs)[:, None] * bins
    counts = np.bincount(positions[counted], minlength=programs * bins)
    return counts.reshape(programs, bins).astype(np.int32)


def sort(x: Array, axis: int, descending: bool = False, count: int | None = None) -> Array:
    """Return the first `count` elements along `axis` in order (None: all).

    A NaN is greater than every number, and -0.0 is less than 0.0.
    """
    if x.dtype.kind in "biu":
        ordered = np.sort(x, axis)
    else:
        ordered = _to_order(np.sort(_to_order(x.view(f"i{x.itemsize}"), np.isnan(x)), axis))
        ordered = ordered.view(x.dtype)
    if descending:
        ordered = np.flip(ordered, axis)
    return ordered[(..., slice(count), *(slice(None),) * (-axis - 1))]


def _to_order(bits: Array, nan: Array | None = None) -> Array:
    """Map the bits of floats to signed integers of the same order. The map is its own inverse.

    It flips the magnitude bits of negative numbers. With `nan`, NaNs lose their sign first, so that
    they are the greatest.
    """
    greatest = np.iinfo(bits.dtype).max
    mapped: Array = bits ^ ((bits >> (8 * bits.itemsize - 1)) & greatest)
    return mapped if nan is None else np.where(nan, bits & greatest, mapped)
