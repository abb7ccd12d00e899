"""Arrays as matrices of any strides."""

from __future__ import annotations

from typing import Any, NamedTuple

INT32_LIMIT = 2**31


class Strided(NamedTuple):
    """An array as matrices; strides are those of a batch, a row and a column, in elements."""

    value: Any
    strides: tuple[int, int, int]

    def transposed(self) -> Strided:
        """Return the transposed matrices."""
        batch, row, column = self.strides
        return Strided(self.value, (batch, column, row))


def rows_of(value: Any, length: int) -> Strided:
    """Return a matrix of contiguous rows."""
    return Strided(value, (0, length, 1))


def reaches_far(a: Strided, b: Strided, sizes: tuple[int, int, int, int]) -> bool:
    """Return True if the distance of elements of a matrix is no integer of 32 bits."""
    _, m, n, k = sizes
    extents = ((a, m, k), (b, k, n))
    reaches = (
        (rows - 1) * abs(one.strides[1]) + (columns - 1) * abs(one.strides[2])
        for one, rows, columns in extents
    )
    return max(reaches) >= INT32_LIMIT
