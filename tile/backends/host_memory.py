"""What arrays of the host take in memory, and which of them share it."""

from __future__ import annotations

import bisect
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy.typing as npt

Array = npt.NDArray[Any]


def footprint(array: Array) -> tuple[int, int]:
    """The bytes that an array covers, relative to its first element: from low to before high."""
    if array.size == 0:
        return 0, 0
    reach = [s * (n - 1) for s, n in zip(array.strides, array.shape, strict=True)]
    low = sum(step for step in reach if step < 0)
    return low, sum(step for step in reach if step > 0) + array.itemsize


def span(array: Array) -> tuple[int, int]:
    """The addresses of an array's first byte, and after its last one."""
    low, high = footprint(array)
    return array.ctypes.data + low, array.ctypes.data + high


@dataclass
class Piece:
    """Bytes of the host from `low` to `high` that are copied as one; `written`: and come back."""

    low: int
    high: int
    written: bool

    @property
    def size(self) -> int:
        return self.high - self.low


P = TypeVar("P", bound=Piece)


def pieces(kind: type[P], arrays: Iterable[tuple[Array, bool]]) -> list[P]:
    """The pieces that hold arrays, in order: those whose bytes overlap are in one.

    Of each array it says whether it is written. Empty ones are in none.
    """
    found: list[P] = []
    for low, high, written in sorted((*span(array), written) for array, written in arrays):
        if found and low < found[-1].high:
            found[-1].high = max(found[-1].high, high)
            found[-1].written |= written
        elif high > low:
            found.append(kind(low, high, written))
    return found


def piece_at(found: Sequence[P], address: int) -> P | None:
    """The piece that an address lies in, or just behind; None for one that is in none."""
    at = bisect.bisect_right(found, address, key=lambda piece: piece.low) - 1
    return found[at] if at >= 0 and address <= found[at].high else None
