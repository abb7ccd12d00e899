"""An affine access as strided elements of one array: how it is read and written.

    flat[offsets + sum(steps[k] * i_k)]   for i_k below extents[k]

`offsets` holds where each program starts, and varies along tile axes only where `steps` is zero.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from tile.backends.interp.values import Array


def restrided(array: Array, shape: Sequence[int], strides: Sequence[int]) -> Array:
    """A view of other extents from the array's first element on; writeable if the array is.

    NumPy's `as_strided` does not know the dtypes of all floats of 8 bits, so it is shown integers.
    """
    bits = array.view(f"u{array.itemsize}")
    view = as_strided(bits, shape, strides, writeable=bool(array.flags.writeable))
    return view.view(array.dtype)


@dataclass
class Strided:
    """An access as `flat[offsets + sum(steps[k] * i_k)]` for i_k below `extents[k]`.

    `part` is (axis, first, count) if the access covers only that run of one axis of its tile, and
    `low` the least address.
    """

    flat: Array
    offsets: Array
    steps: tuple[int, ...]
    extents: Sequence[int]
    part: tuple[int, int, int] | None
    low: int = 0

    def view(self) -> Array | None:
        """The elements as a view of the array, if the programs too stand at even distances."""
        offsets = self.offsets
        distance = 0
        if offsets.size != 1:
            if offsets.size != offsets.shape[0]:
                return None
            line = offsets.reshape(-1)
            distance = int(line[1] - line[0])
            if len(line) > 2 and (np.diff(line) != distance).any():
                return None
        size = self.flat.itemsize
        extents = [e if step else 1 for e, step in zip(self.extents, self.steps, strict=True)]
        return restrided(
            self.flat[int(offsets.flat[0]) :],
            (offsets.shape[0], *extents),
            (distance * size, *(step * size for step in self.steps)),
        )

    def rows(self) -> tuple[Array, Array, tuple[int, ...]]:
        """What reads the access row by row: `view[places].transpose(order)`.

        The view has a window at every place of the array.
        """
        size = self.flat.itemsize
        moving = [axis for axis, step in enumerate(self.steps) if step]
        still = [axis for axis, step in enumerate(self.steps) if not step]
        windows = restrided(
            self.flat,
            (len(self.flat), *(self.extents[axis] for axis in moving)),
            (size, *(self.steps[axis] * size for axis in moving)),
        )
        places = self.offsets.squeeze(tuple(axis + 1 for axis in moving))
        order = [0] * (1 + len(self.steps))
        for position, axis in enumerate(still):
            order[axis + 1] = 1 + position
        for position, axis in enumerate(moving):
            order[axis + 1] = 1 + len(still) + position
        return windows, places, tuple(order)

    def read(self) -> Array:
        """The elements, an array of their own."""
        if not self.flat.size:
            return np.empty((1, *self.extents), self.flat.dtype)
        view = self.view()
        if view is not None:
            return view.copy()
        windows, places, order = self.rows()
        return windows[places].transpose(order)

    def distinct(self, value: Array) -> bool:
        """Whether all elements have addresses of their own, so that their order does not matter."""
        if not self.flat.size:
            return True
        if self.offsets.shape[0] == 1 and value.shape[0] > 1:
            return False
        size = [(abs(step), e) for step, e in zip(self.steps, self.extents, strict=True) if e > 1]
        for axis, step in enumerate(self.steps):
            if step == 0 and self.extents[axis] > 1 and self.offsets.shape[axis + 1] == 1:
                return False
        moving = sorted(pair for pair in size if pair[0])
        reach = 1
        for step, extent in moving:
            if step < reach:
                return False
            reach = step * (extent - 1) + reach
        places = self.offsets.reshape(-1)
        if len(places) == 1:
            return True
        gaps = np.diff(places)
        if (gaps >= reach).all() or (-gaps >= reach).all():
            return True
        return bool((np.diff(np.sort(places)) >= reach).all())

    def write(self, value: Array, compare: bool) -> bool:
        """Store the values; whether anything changed (taken for granted unless `compare`)."""
        if not self.flat.size:
            return False
        if self.part is not None:
            axis, first, count = self.part
            if value.shape[axis + 1] != 1:
                value = value[(slice(None),) * (axis + 1) + (slice(first, first + count),)]
        before = self.read().tobytes() if compare else b""
        view = self.view()
        if view is not None and view.shape[1:] == tuple(self.extents):
            view[...] = value
        else:
            windows, places, order = self.rows()
            extents = (self.offsets.shape[0], *self.extents)
            whole = np.broadcast_to(value, extents)
            for axis, step in enumerate(self.steps):
                if step == 0 and self.offsets.shape[axis + 1] == 1:  # the last one at an address
                    whole = whole[(slice(None),) * (axis + 1) + (slice(-1, None),)]
            windows[places] = whole.transpose(np.argsort(order))
        return not compare or self.read().tobytes() != before

    def padded(
        self, values: Array, other: Array | None, dtype: np.dtype[Any], shape: tuple[int, ...]
    ) -> Array:
        """The values of the active run in a tile that holds `other` elsewhere."""
        assert self.part is not None
        axis, first, count = self.part
        fill = np.zeros((1,) * (1 + len(shape)), dtype) if other is None else other
        extents = np.broadcast_shapes(
            (*values.shape[: axis + 1], 1, *values.shape[axis + 2 :]), fill.shape
        )
        extents = (*extents[: axis + 1], shape[axis], *extents[axis + 2 :])
        whole = np.empty(extents, dtype)
        whole[...] = fill
        whole[(slice(None),) * (axis + 1) + (slice(first, first + count),)] = values
        return whole


def active_run(mask: Array, shape: tuple[int, ...]) -> tuple[int, int, int] | None:
    """(axis, first, count) of a mask that is one run along one axis in all programs alike."""
    if mask.shape[0] != 1:
        return None
    varying = [axis for axis in range(len(shape)) if mask.shape[axis + 1] != 1]
    if len(varying) > 1 or not shape:
        return None
    axis = varying[0] if varying else len(shape) - 1
    line = mask.reshape(-1)
    if not varying:
        return (axis, 0, 0) if not line[0] else None
    first = int(line.argmax())
    count = int(line.sum())
    if count and not line[first : first + count].all():
        return None
    return axis, first, count
