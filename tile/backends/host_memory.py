"""Address ranges of host arrays, and merging of those that overlap."""

from __future__ import annotations

import bisect
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from tile.backends.base import accessible

Array = npt.NDArray[Any]


def span(array: Array) -> tuple[int, int]:
    """Return the addresses of an array's first accessible byte and of the end of its last one."""
    low, high = accessible(array)
    return array.ctypes.data + low, array.ctypes.data + high


def allocation(array: Array) -> Array:
    """Return the array that owns the memory of a view."""
    while isinstance(array.base, np.ndarray):
        array = array.base
    return array


@dataclass
class HostRange:
    """Host addresses [low, high) that are copied together; `written`: also copied back."""

    low: int
    high: int
    written: bool

    @property
    def size(self) -> int:
        return self.high - self.low


P = TypeVar("P", bound=HostRange)


def merged_ranges(kind: type[P], arrays: Iterable[tuple[Array, bool]]) -> list[P]:
    """Return the address ranges of arrays, in order; arrays that overlap share one.

    `arrays` has, for each array, whether the kernel writes it. Empty arrays are left out.
    """
    ranges: list[P] = []
    for low, high, written in sorted((*span(array), written) for array, written in arrays):
        if ranges and low < ranges[-1].high:
            ranges[-1].high = max(ranges[-1].high, high)
            ranges[-1].written |= written
        elif high > low:
            ranges.append(kind(low, high, written))
    return ranges


def range_at(ranges: Sequence[P], address: int) -> P | None:
    """Return the range that contains an address, or ends at it; None if there is none."""
    index = bisect.bisect_right(ranges, address, key=lambda one: one.low) - 1
    return ranges[index] if index >= 0 and address <= ranges[index].high else None
