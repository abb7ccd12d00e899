"""Alignment of rows of 16-bit matrices, as TMA and the L2 cache ask for it."""

from __future__ import annotations

Strides = tuple[int, int, int]  # of a batch, a row and a column, in elements
LINE, SECTOR = 64, 16  # elements: of a line of the L2 cache, and of a sector
ALIGNED = 8  # elements: strides of arrays that TMA loads from are multiples of 16 bytes


def is_aligned(strides: Strides) -> bool:
    """Return True if TMA can load tiles of matrices of 16-bit elements with these strides."""
    batch, row, column = strides
    contiguous, other = sorted((row, column))
    return contiguous == 1 and batch % ALIGNED == 0 == other % ALIGNED


def is_within_sectors(strides: Strides) -> bool:
    """Return True if rows of 16-bit elements begin within sectors of the L2 cache."""
    _, row, column = strides
    return max(row, column) % SECTOR != 0


def is_between_lines(strides: Strides) -> bool:
    """Return True if rows of 16-bit elements begin within lines of the L2 cache."""
    _, row, column = strides
    return column == 1 and row % LINE != 0
