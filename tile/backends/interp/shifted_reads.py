"""Loads that repeat an earlier one at a distance, as those of a loop do in its iterations.

Most of the time of a load of strided elements goes into its resolution: the array, its bounds, the
programs that share tiles. An access with the same steps whose start has moved by one distance in
all programs has the same resolution, moved; only its bounds and its alignment are checked again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tile.backends.interp.resolved_access import Buffer, Strided
from tile.backends.interp.values import Affine, Array, Repeated


@dataclass(frozen=True, slots=True)
class SeenRead:
    """A load of strided elements that was in bounds, and how to repeat it at a distance.

    base, steps: of its addresses. below, after: the first byte that it reads and the one after the
    last, as virtual addresses. first: the first byte in the span of `buffer`. shape, strides: of
    the elements read, those of `repeats` (rows, columns, along) if programs share tiles.
    """

    base: Array
    steps: tuple[int, ...]
    buffer: Buffer
    below: int
    after: int
    first: int
    dtype: np.dtype[Any]
    shape: Sequence[int]
    strides: Sequence[int]
    repeats: tuple[int, int, int] | None

    def moved(self, address: Affine) -> Array | Repeated | None:
        """Return the elements at addresses at one distance from those seen, else None.

        Also return None if some are out of bounds, for the ordinary way to report.
        """
        base = address.base
        if address.steps != self.steps or base.shape != self.base.shape:
            return None
        distances = base - self.base
        distance = distances.item(0)
        if distances.size > 1 and (distances != distance).any():
            return None
        buffer = self.buffer
        if (
            distance % self.dtype.itemsize
            or self.below + distance < buffer.start
            or self.after + distance > buffer.end
        ):
            return None
        start = self.first + distance
        values = np.ndarray(self.shape, self.dtype, buffer.span, start, self.strides).copy()
        return values if self.repeats is None else Repeated(values, *self.repeats)


def seen_read(
    address: Affine, strided: Strided, repeats: tuple[int, int, int] | None
) -> SeenRead | None:
    """Return what to remember of an access that was read; None if its elements are no view.

    strided: the access, or that of each tile once if programs share tiles as `repeats` says.
    """
    buffer = strided.buffer
    if buffer is None or strided.part is not None:
        return None
    view = strided.view()
    if view is None:
        return None
    size = view.itemsize
    reach = [step * (n - 1) for step, n in zip(address.steps, strided.extents, strict=True)]
    below = int(address.base.min()) + sum(x for x in reach if x < 0)
    after = int(address.base.max()) + sum(x for x in reach if x > 0) + size
    first = int(strided.offsets.item(0)) * size
    return SeenRead(
        address.base,
        address.steps,
        buffer,
        below,
        after,
        first,
        view.dtype,
        view.shape,
        view.strides,
        repeats,
    )
