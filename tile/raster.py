"""Heatmaps of bounded size over tiles, grids and arrays.

The points of a heatmap are the elements of a tile, the programs of a grid, or the elements of an
array in memory order. Points are arranged in rows, and rectangles of them form cells, so large that
there are at most `MOST_ROWS` x `MOST_COLUMNS` cells.
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
# Row lengths into which points of one axis are folded; the last one if there are very many.
LINES = (16, 32, 64)


@dataclass(frozen=True)
class Raster:
    """Cells over `points` points in rows of `columns`, and `margin` rows of cells on either side.

    Points in the margins have negative numbers, or numbers of at least `points`.
    """

    points: int
    columns: int
    margin: int = 0

    @property
    def rows(self) -> int:
        """The number of rows of points."""
        return max(1, -(-self.points // self.columns))

    @property
    def high(self) -> int:
        """The number of rows of points in a cell."""
        return -(-self.rows // MOST_ROWS)

    @property
    def wide(self) -> int:
        """The number of columns of points in a cell."""
        return -(-self.columns // MOST_COLUMNS)

    @property
    def cells(self) -> tuple[int, int]:
        """The numbers of rows and columns of cells, margins included."""
        return -(-self.rows // self.high) + 2 * self.margin, -(-self.columns // self.wide)

    def cell(self, points: Array) -> Array:
        """Return the row-major index of the cell that holds each point, or -1 for none."""
        rows, columns = self.cells
        row = points // self.columns // self.high + self.margin
        index = row * columns + points % self.columns // self.wide
        return np.where((row >= 0) & (row < rows), index, -1)

    def sampled(self, most: int) -> Array:
        """Return the points of each cell, or `most` random ones of a larger cell.

        Samples are drawn with replacement, so that they cannot align with a pattern of the points.
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
        sampled: Array = points[np.broadcast_to(columns_of < self.columns, points.shape)]
        return sampled

    def covered(self, low: int, high: int) -> Array:
        """Return True for each cell that holds a point in [low, high); shape (rows, columns)."""
        rows, columns = self.cells
        row = (np.arange(rows)[:, None] - self.margin) * self.high
        column = np.arange(columns)[None, :] * self.wide
        first = row * self.columns + column
        last_column = np.minimum(column + self.wide, self.columns) - 1
        last = (row + self.high - 1) * self.columns + last_column
        covered: Array = (first < high) & (last >= low)
        return covered

    def as_dict(self) -> dict[str, Any]:
        """Return the data for JSON."""
        return asdict(self)


def of_line(points: int, margin: int = 0) -> Raster:
    """Return the cells for points of one axis, which is folded into rows."""
    width = next((n for n in LINES if points <= n * n), LINES[-1])
    if points > width * MOST_ROWS:  # longer rows, so that the number of cells stays bounded
        width *= -(-points // (width * MOST_ROWS))
    return Raster(points, max(1, min(points, width)), margin)


def of_shape(shape: tuple[int, ...]) -> Raster:
    """Return the cells for a tile; a row runs along its last axis."""
    points = math.prod(shape)
    if sum(extent > 1 for extent in shape) < 2:
        return of_line(points)
    return Raster(points, max(1, shape[-1]))


def of_grid(grid: tuple[int, int, int]) -> Raster:
    """Return the cells for the programs of a grid; a row runs along the grid's first axis."""
    return of_shape(grid[::-1])


@dataclass(eq=False)
class Heat:
    """Counts of points in each cell."""

    raster: Raster
    counts: Array = field(init=False)

    def __post_init__(self) -> None:
        self.counts = np.zeros(self.raster.cells, np.int64)

    def add(self, points: Array, weight: int = 1) -> None:
        """Count points; those in no cell are ignored."""
        cells = self.raster.cell(points)
        counts = np.bincount(cells[cells >= 0].ravel(), minlength=self.counts.size)
        self.counts += weight * counts.reshape(self.counts.shape)

    def merge(self, other: Heat) -> None:
        """Add the counts of `other`, which has the same cells."""
        self.counts += other.counts

    def as_dict(self) -> dict[str, Any]:
        """Return the data for JSON: the cells, and `[row, column, count]` of each nonzero cell."""
        rows, columns = np.nonzero(self.counts)
        counts = self.counts[rows, columns]
        entries = zip(rows.tolist(), columns.tolist(), counts.tolist(), strict=True)
        return {"raster": self.raster.as_dict(), "counts": [list(entry) for entry in entries]}
