"""Points counted in cells, at bounded size: of what tiles, grids and arrays are drawn from.

The points of a tile are its elements, those of a grid its programs, those of an array the elements
of its memory. They are laid in rows, and so many rows and columns make a cell that there are at
most `MOST_ROWS` x `MOST_COLUMNS` cells.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

MOST_ROWS = 48
MOST_COLUMNS = 64
# The points of one line are laid in rows of this many, or of the last if there are very many.
LINES = (16, 32, 64)


@dataclass(frozen=True)
class Raster:
    """Cells over `points` points in rows of `columns`, and `margin` rows of cells on either side.

    Points in the margins have negative numbers, or such from `points` on.
    """

    points: int
    columns: int
    margin: int = 0

    @property
    def rows(self) -> int:
        """Rows of points."""
        return max(1, -(-self.points // self.columns))

    @property
    def high(self) -> int:
        """Rows of points in a cell."""
        return -(-self.rows // MOST_ROWS)

    @property
    def wide(self) -> int:
        """Columns of points in a cell."""
        return -(-self.columns // MOST_COLUMNS)

    @property
    def cells(self) -> tuple[int, int]:
        """Rows and columns of cells, with the margins."""
        return -(-self.rows // self.high) + 2 * self.margin, -(-self.columns // self.wide)

    def cell(self, points: Array) -> Array:
        """The number of the cell, row by row, that each point lies in; -1 if it is in none."""
        rows, columns = self.cells
        row = points // self.columns // self.high + self.margin
        found = row * columns + points % self.columns // self.wide
        return np.where((row >= 0) & (row < rows), found, -1)

    def sampled(self, most: int) -> Array:
        """All points of each cell, in and behind the raster, or `most` drawn of those of a cell.

        Draws are with replacement, so that no pattern of the points is in step with them.
        """
        rows, columns = self.cells
        row = (np.arange(rows) - self.margin)[:, None, None] * self.high
        column = np.arange(columns)[:, None] * self.wide
        size = self.high * self.wide
        if size > most:
            within = np.random.default_rng(0).integers(size, size=(rows, columns, most))
        else:
            within = np.arange(size)
        columns_of = column + within % self.wide
        points = (row + within // self.wide) * self.columns + columns_of
        chosen: Array = points[np.broadcast_to(columns_of < self.columns, points.shape)]
        return chosen

    def covered(self, low: int, high: int) -> Array:
        """Which cells hold a point from `low` to before `high`, as (rows, columns) of cells."""
        rows, columns = self.cells
        row = (np.arange(rows)[:, None] - self.margin) * self.high
        column = np.arange(columns)[None, :] * self.wide
        first = row * self.columns + column
        last_column = np.minimum(column + self.wide, self.columns) - 1
        last = (row + self.high - 1) * self.columns + last_column
        covered: Array = (first < high) & (last >= low)
        return covered

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)


def of_line(points: int, margin: int = 0) -> Raster:
    """A raster of points in one line, which is folded into rows."""
    width = next((n for n in LINES if points <= n * n), LINES[-1])
    if points > width * MOST_ROWS:  # few rows of many points, so that cells are few
        width *= -(-points // (width * MOST_ROWS))
    return Raster(points, max(1, min(points, width)), margin)


def of_shape(shape: tuple[int, ...]) -> Raster:
    """A raster of a tile: rows are those of its last axis."""
    points = math.prod(shape)
    if sum(extent > 1 for extent in shape) < 2:
        return of_line(points)
    return Raster(points, max(1, shape[-1]))


def of_grid(grid: tuple[int, int, int]) -> Raster:
    """A raster of programs: columns along the first axis of the grid."""
    return of_shape(grid[::-1])


@dataclass(eq=False)
class Heat:
    """How often there was something at the points of each cell."""

    raster: Raster
    counts: Array = field(init=False)

    def __post_init__(self) -> None:
        self.counts = np.zeros(self.raster.cells, np.int64)

    def add(self, points: Array, weight: int = 1) -> None:
        """Count points; those outside the raster are left out."""
        cells = self.raster.cell(points)
        found = np.bincount(cells[cells >= 0].ravel(), minlength=self.counts.size)
        self.counts += weight * found.reshape(self.counts.shape)

    def merge(self, other: Heat) -> None:
        """Take what another of the same raster counted."""
        self.counts += other.counts

    def as_dict(self) -> dict[str, Any]:
        """For JSON: the raster, and `[row, column, count]` of each cell that has any."""
        rows, columns = np.nonzero(self.counts)
        found = self.counts[rows, columns]
        places = zip(rows.tolist(), columns.tolist(), found.tolist(), strict=True)
        return {"raster": self.raster.as_dict(), "counts": [list(place) for place in places]}
