"""Heatmaps of bounded size over tiles, grids and arrays, and the extent of a fault.

The points of a heatmap are the elements of a tile, the programs of a grid, or the elements of an
array in memory order. Points are arranged in rows, and rectangles of them form cells, so large that
there are at most `MOST_ROWS` x `MOST_COLUMNS` cells.

The extent of a fault is its wrong elements within the tile, the grid and the accessed arrays. They
are counted into the cells of heatmaps as they are reported, so that a fault of a million elements
takes no more memory than a fault of one. Faults of one source line add up.
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
class CellGrid:
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

    def sample_points(self, most: int) -> Array:
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
        sample_points: Array = points[np.broadcast_to(columns_of < self.columns, points.shape)]
        return sample_points

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


def line_cells(points: int, margin: int = 0) -> CellGrid:
    """Return the cells for points of one axis, which is folded into rows."""
    width = next((n for n in LINES if points <= n * n), LINES[-1])
    if points > width * MOST_ROWS:  # longer rows, so that the number of cells stays bounded
        width *= -(-points // (width * MOST_ROWS))
    return CellGrid(points, max(1, min(points, width)), margin)


def tile_cells(shape: tuple[int, ...]) -> CellGrid:
    """Return the cells for a tile; a row runs along its last axis."""
    points = math.prod(shape)
    if sum(extent > 1 for extent in shape) < 2:
        return line_cells(points)
    return CellGrid(points, max(1, shape[-1]))


def grid_cells(grid: tuple[int, int, int]) -> CellGrid:
    """Return the cells for the programs of a grid; a row runs along the grid's first axis."""
    return tile_cells(grid[::-1])


@dataclass(eq=False)
class Heatmap:
    """Counts of points in each cell."""

    raster: CellGrid
    counts: Array = field(init=False)

    def __post_init__(self) -> None:
        self.counts = np.zeros(self.raster.cells, np.int64)

    def add(self, points: Array, weight: int = 1) -> None:
        """Count points; those in no cell are ignored."""
        cells = self.raster.cell(points)
        counts = np.bincount(cells[cells >= 0].ravel(), minlength=self.counts.size)
        self.counts += weight * counts.reshape(self.counts.shape)

    def merge(self, other: Heatmap) -> None:
        """Add the counts of `other`, which has the same cells."""
        self.counts += other.counts

    def as_dict(self) -> dict[str, Any]:
        """Return the data for JSON: the cells, and `[row, column, count]` of each nonzero cell."""
        rows, columns = np.nonzero(self.counts)
        counts = self.counts[rows, columns]
        entries = zip(rows.tolist(), columns.tolist(), counts.tolist(), strict=True)
        return {"raster": self.raster.as_dict(), "counts": [list(entry) for entry in entries]}


# Rows of cells before and after an array that show out-of-range addresses near it.
MARGIN = 3
# Heatmaps of one source line: the most tile shapes, grids and arrays, each.
SHAPES = 4


@dataclass(frozen=True)
class ArrayView:
    """An array as programs see it.

    `strides` and the half-open range [`low`, `high`) that its elements occupy are in elements,
    relative to the element at index 0.
    """

    argument: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: str
    low: int
    high: int

    @property
    def pitch(self) -> int | None:
        """The row stride in elements, or None for an array of fewer than two axes."""
        pairs = zip(self.shape, self.strides, strict=True)
        steps = sorted({abs(step) for n, step in pairs if n > 1 and step})
        return steps[1] if len(steps) > 1 else None

    def raster(self, margin: int = 0) -> CellGrid:
        """Return cells that cover the memory from the view's lowest element to its highest."""
        if self.pitch is None:
            return line_cells(max(1, self.high - self.low), margin)
        return CellGrid(self.high - self.low, self.pitch, margin)


@dataclass
class OutOfRange:
    """Addresses beyond the margins of an array's heatmap: their number, and the farthest one."""

    count: int = 0
    farthest: int = 0

    def add(self, elements: Array) -> None:
        """Count elements that lie on one side."""
        if elements.size:
            self.count += elements.size
            candidates = (self.farthest, int(elements.min()), int(elements.max()))
            self.farthest = max(candidates, key=abs)

    def merge(self, other: OutOfRange) -> None:
        """Add the counts of `other`, which are of the same side."""
        self.count += other.count
        self.farthest = max(self.farthest, other.farthest, key=abs)


@dataclass(eq=False)
class ArrayHeatmap:
    """A heatmap of the addresses accessed through one array, in it and around it.

    `inside` has one entry for each cell of the heatmap: the fraction of the cell's elements that
    belong to the view, from 0 to 1.
    """

    view: ArrayView
    inside: Array
    heatmap: Heatmap = field(init=False)
    before: OutOfRange = field(default_factory=OutOfRange)
    after: OutOfRange = field(default_factory=OutOfRange)

    def __post_init__(self) -> None:
        self.heatmap = Heatmap(self.view.raster(MARGIN))

    def add(self, elements: Array) -> None:
        """Count elements, given by their offset from the element at index 0."""
        points = elements - self.view.low
        self.heatmap.add(points)
        outside = self.heatmap.raster.cell(points) < 0
        if outside.any():
            far = elements[outside]
            self.before.add(far[far < self.view.low])
            self.after.add(far[far >= self.view.low])

    def merge(self, other: ArrayHeatmap) -> None:
        """Add the counts of `other`, which has the same view."""
        self.heatmap.merge(other.heatmap)
        self.before.merge(other.before)
        self.after.merge(other.after)

    def as_dict(self) -> dict[str, Any]:
        """Return the data for JSON.

        `inside` is one string for each row of cells: `#` for a cell that lies wholly in the view,
        `+` for one that lies partly in it, `.` for one outside.
        """
        rows = [
            "".join(".+#"[int(share > 0) + int(share >= 1)] for share in row) for row in self.inside
        ]
        return {
            "view": asdict(self.view),
            **self.heatmap.as_dict(),
            "inside": rows,
            "before": asdict(self.before),
            "after": asdict(self.after),
        }


@dataclass(eq=False)
class FaultExtent:
    """The wrong elements of one execution, within the tile (None for a scalar), grid and arrays."""

    shape: tuple[int, ...]
    grid: tuple[int, int, int]
    tile: Heatmap | None
    programs: Heatmap
    array_heatmaps: tuple[ArrayHeatmap, ...] = ()

    @property
    def count(self) -> int:
        """The number of wrong elements in all programs."""
        return int(self.programs.counts.sum())


def fault_extent(
    wrong: Array,
    rows: Array,
    grid: tuple[int, int, int],
    array_heatmaps: tuple[ArrayHeatmap, ...] = (),
) -> FaultExtent:
    """Count the wrong elements of one execution.

    wrong: booleans of shape (P, *tile); P is the number of programs, or 1 if all agree.
    rows: the program numbers, of shape (programs,).
    """
    shape = wrong.shape[1:]
    positions = np.flatnonzero(wrong)
    size = max(1, wrong[:1].size)
    uniform = len(wrong) == 1
    tile = None
    if shape:
        tile = Heatmap(tile_cells(shape))
        tile.add(positions % size, len(rows) if uniform else 1)
    programs = Heatmap(grid_cells(grid))
    if uniform:
        programs.add(rows, len(positions))
    else:
        programs.add(rows[positions // size])
    return FaultExtent(shape, grid, tile, programs, array_heatmaps)


def program_fault_extent(programs: Array, grid: tuple[int, int, int]) -> FaultExtent:
    """Return the extent of a fault of whole programs, given by their numbers."""
    heat = Heatmap(grid_cells(grid))
    heat.add(programs)
    return FaultExtent((), grid, None, heat)


@dataclass
class FaultExtents:
    """Merged extents of many faults, by tile shape, grid and array."""

    tiles: dict[tuple[int, ...], Heatmap] = field(default_factory=dict)
    grids: dict[tuple[int, int, int], Heatmap] = field(default_factory=dict)
    array_heatmaps: dict[ArrayView, ArrayHeatmap] = field(default_factory=dict)

    def add(self, spread: FaultExtent) -> None:
        """Add one fault's extent; the first `SHAPES` shapes are recorded, further ones ignored."""
        if spread.tile is not None:
            _merge_into(self.tiles, spread.shape, spread.tile)
        _merge_into(self.grids, spread.grid, spread.programs)
        for landing in spread.array_heatmaps:
            _merge_into(self.array_heatmaps, landing.view, landing)

    def as_dict(self) -> dict[str, Any]:
        """Return the data for JSON."""
        return {
            "tiles": [{"shape": shape, **heat.as_dict()} for shape, heat in self.tiles.items()],
            "grids": [{"grid": grid, **heat.as_dict()} for grid, heat in self.grids.items()],
            "arrays": [landing.as_dict() for landing in self.array_heatmaps.values()],
        }


def _merge_into(heatmaps: dict[Any, Any], key: Any, added: Heatmap | ArrayHeatmap) -> None:
    if key in heatmaps:
        heatmaps[key].merge(added)
    elif len(heatmaps) < SHAPES:
        heatmaps[key] = added
