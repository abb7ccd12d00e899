"""Shapes. Axis 0 of every array is the program axis; the rest are the tile's.

All results are views where NumPy allows that: do not write to them.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tile.ir.dtypes import Array


def splat(x: Array, shape: Sequence[int]) -> Array:
    """Scalars (P,) as tiles (P, *shape) of one value each."""
    return np.broadcast_to(x.reshape(x.shape[0], *(1,) * len(shape)), (x.shape[0], *shape))


def broadcast_to(x: Array, shape: Sequence[int]) -> Array:
    """Tiles (P, ...) with axes of extent 1 repeated, as (P, *shape)."""
    target = (x.shape[0], *shape)
    return x if x.shape == target else np.broadcast_to(x, target)


def reshape(x: Array, shape: Sequence[int]) -> Array:
    """Tiles (P, ...) as (P, *shape), elements in row-major order."""
    return x.reshape(x.shape[0], *shape)


def permute(x: Array, order: Sequence[int]) -> Array:
    """Tiles with axes rearranged: axis i of each is axis order[i] of the tile in `x`."""
    return x.transpose(0, *(axis + 1 for axis in order))


def expand_dims(x: Array, axis: int) -> Array:
    """Tiles with a new axis of extent 1, which is axis `axis` < 0 of the result."""
    at = x.ndim + 1 + axis
    return x.reshape(*x.shape[:at], 1, *x.shape[at:])


def arange(start: int, end: int) -> Array:
    """The integers from `start` up to, not including, `end`: i32 of shape (1, end - start)."""
    return np.arange(start, end, dtype=np.int32)[None]


def join(x: Array, y: Array) -> Array:
    """The elements of two tiles in pairs, along a new last axis; axes of extent 1 are repeated."""
    return np.stack(np.broadcast_arrays(x, y), -1)


def split(x: Array) -> tuple[Array, Array]:
    """The first and the second elements along the last axis, which may be one for both."""
    return x[..., 0], x[..., -1]


def flip(x: Array, axis: int) -> Array:
    """The elements along axis `axis` < 0 in reverse."""
    return np.flip(x, axis)
