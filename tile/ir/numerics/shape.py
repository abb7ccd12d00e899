"""Shape operations. Axis 0 of every array is the program axis; the rest are the tile's.

Results are views if NumPy allows that: do not write to them.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tile.ir.dtypes import Array


def splat(x: Array, shape: Sequence[int]) -> Array:
    """Broadcast scalars (P,) to tiles (P, *shape)."""
    return np.broadcast_to(x.reshape(x.shape[0], *(1,) * len(shape)), (x.shape[0], *shape))


def broadcast_to(x: Array, shape: Sequence[int]) -> Array:
    """Broadcast axes of extent 1 of tiles (P, ...) to (P, *shape)."""
    target = (x.shape[0], *shape)
    return x if x.shape == target else np.broadcast_to(x, target)


def reshape(x: Array, shape: Sequence[int]) -> Array:
    """Reshape tiles (P, ...) to (P, *shape), with elements in row-major order."""
    return x.reshape(x.shape[0], *shape)


def permute(x: Array, order: Sequence[int]) -> Array:
    """Permute the axes of tiles: axis i of the result is axis order[i] of `x`."""
    return x.transpose(0, *(axis + 1 for axis in order))


def expand_dims(x: Array, axis: int) -> Array:
    """Insert an axis of extent 1, which is axis `axis` < 0 of the result."""
    at = x.ndim + 1 + axis
    return x.reshape(*x.shape[:at], 1, *x.shape[at:])


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
