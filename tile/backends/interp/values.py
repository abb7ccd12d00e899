"""Run-time values: an array over all programs, or an affine index.

The array of a value of shape (m, n) has axes (program, m, n). An axis of extent 1 stands for a
value that is constant along it, whatever extent the type has: values that are equal in all programs
are stored once, a splat costs nothing, and NumPy's broadcasting does the rest. A scalar has only
the program axis.

Most operations of a kernel are index arithmetic. Integers and pointers that are affine in the
indices of their tile are therefore represented as an `Affine`:

    value[p, i, j] = base[p, i, j] + steps[0] * i + steps[1] * j

with a `base` that has extent 1 wherever possible. `x + tl.arange(0, 1024)` is then one number per
program, whatever the size of the tile, and a load through such a pointer is a strided view instead
of a gather.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

Array: TypeAlias = npt.NDArray[Any]
Rows: TypeAlias = npt.NDArray[np.intp]

TRUE = np.ones(1, np.bool_)


class Affine:
    """Integers or addresses that are affine in the indices of their tile; see the top of the file.

    `base` is int64; `shape` is the tile's; `dtype` is that of the array it stands for. Integers
    have inclusive bounds `low` and `high`, with which rules prove that arithmetic does not wrap;
    addresses have none.
    """

    __slots__ = ("_array", "base", "dtype", "high", "low", "shape", "steps")

    def __init__(
        self,
        base: Array,
        steps: tuple[int, ...],
        shape: tuple[int, ...],
        dtype: np.dtype[Any],
        low: int = 0,
        high: int = 0,
    ) -> None:
        self.base = base
        self.steps = steps
        self.shape = shape
        self.dtype = dtype
        self.low = low
        self.high = high
        self._array: Array | None = None

    def array(self) -> Array:
        """Return the elements as an array; computed once."""
        if self._array is None:
            self._array = self._expand().astype(self.dtype, copy=False)
        return self._array

    def _expand(self) -> Array:
        total = self.base
        rank = len(self.shape)
        for axis, step in enumerate(self.steps):
            if step:
                extent = self.shape[axis]
                ramp = np.arange(extent, dtype=np.int64) * step
                total = total + ramp.reshape((extent,) + (1,) * (rank - axis - 1))
        return total

    def span(self) -> tuple[int, int]:
        """Return the least and the greatest offset of elements from their base."""
        below = above = 0
        for step, extent in zip(self.steps, self.shape, strict=True):
            reach = step * (extent - 1)
            if reach < 0:
                below += reach
            else:
                above += reach
        return below, above

    def folded(self) -> Affine:
        """Return the same value, with steps 0 along axes on which the base varies."""
        steps, base, rank = list(self.steps), self.base, len(self.shape)
        for axis, step in enumerate(steps):
            if step and base.shape[axis + 1] != 1:
                extent = self.shape[axis]
                ramp = np.arange(extent, dtype=np.int64) * step
                base = base + ramp.reshape((extent,) + (1,) * (rank - axis - 1))
                steps[axis] = 0
        if base is self.base:
            return self
        return Affine(base, tuple(steps), self.shape, self.dtype, self.low, self.high)


class CheckedValue:
    """A value with poison, which only runs with checks create (`checks/marked.py`)."""

    __slots__ = ()

    def array(self) -> Array:
        raise NotImplementedError

    def take_rows(self, rows: Rows) -> CheckedValue:
        """Return the value in some of the programs."""
        raise NotImplementedError

    def merged(self, parts: Sequence[tuple[Rows, Held]], programs: int) -> Held:
        """Merge parts, of which this value is one; see `merge`."""
        raise NotImplementedError


RunValue: TypeAlias = Array | Affine
Held: TypeAlias = Array | Affine | CheckedValue


def array_of(value: Held) -> Array:
    """Return the value as an array; axes of extent 1 are kept."""
    return value if isinstance(value, np.ndarray) else value.array()


def full(value: Held, shape: tuple[int, ...]) -> Array:
    """Return the value as an array of the tile's full shape; the program axis is kept as it is."""
    array = array_of(value)
    target = array.shape[:1] + shape
    return array if array.shape == target else np.broadcast_to(array, target)


def broadcast_rows(value: Held, shape: tuple[int, ...], programs: int) -> Array:
    """Return the value as an array of the tile's full shape over all programs (a view)."""
    array, target = array_of(value), (programs, *shape)
    return array if array.shape == target else np.broadcast_to(array, target)


def is_true(mask: Array | None) -> bool:
    """Return True if a mask is known, at no cost, to be true everywhere."""
    return mask is None or (mask.size == 1 and bool(mask.flat[0]))


def take(value: Held, rows: Rows) -> Held:
    """Return the value in some of the programs."""
    if isinstance(value, np.ndarray):
        return value if value.shape[0] == 1 else value[rows]
    if isinstance(value, CheckedValue):
        return value.take_rows(rows)
    if value.base.shape[0] == 1:
        return value
    base = value.base[rows]
    return Affine(base, value.steps, value.shape, value.dtype, value.low, value.high)


def merge(parts: Sequence[tuple[Rows, Held]], programs: int) -> Held:
    """Merge the parts of a value, in disjoint sets of rows that cover all `programs`."""
    for _, value in parts:
        if isinstance(value, CheckedValue):
            return value.merged(parts, programs)
    first = parts[0][1]
    if all(value is first for _, value in parts) and _uniform(first):
        return first
    affine = [(rows, value) for rows, value in parts if isinstance(value, Affine)]
    if len(affine) == len(parts) and len({value.steps for _, value in affine}) == 1:
        model = affine[0][1]
        base = _merge_arrays([(rows, value.base) for rows, value in affine], programs)
        low = min(value.low for _, value in affine)
        high = max(value.high for _, value in affine)
        return Affine(base, model.steps, model.shape, model.dtype, low, high)
    return _merge_arrays([(rows, array_of(value)) for rows, value in parts], programs)


def _uniform(value: Held) -> bool:
    array = value.base if isinstance(value, Affine) else array_of(value)
    return bool(array.shape[0] == 1)


def _merge_arrays(parts: Sequence[tuple[Rows, Array]], programs: int) -> Array:
    arrays = [array for _, array in parts]
    shape = (
        programs,
        *(max(extents) for extents in zip(*(a.shape[1:] for a in arrays), strict=True)),
    )
    merged = np.empty(shape, arrays[0].dtype)
    for rows, array in parts:
        merged[rows] = array
    return merged


def same(a: Held, b: Held) -> bool:
    """Return True if two values are equal in every bit of every program."""
    if a is b:
        return True
    x, y = np.broadcast_arrays(array_of(a), array_of(b))
    return x.tobytes() == y.tobytes()
