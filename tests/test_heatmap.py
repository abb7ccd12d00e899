"""Points in cells: every point is in the cell that its row and column say."""

from __future__ import annotations

import math
import tracemalloc

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tile.heatmap import (
    MOST_COLUMNS,
    MOST_ROWS,
    ArrayView,
    CellGrid,
    Heatmap,
    grid_cells,
    line_cells,
    tile_cells,
)

rasters = st.builds(
    CellGrid, st.integers(1, 20_000), st.integers(1, 3000), margin=st.integers(0, 3)
).filter(lambda raster: raster.columns <= raster.points)


@settings(max_examples=100, deadline=None)
@given(rasters, st.data())
def test_cells(raster: CellGrid, data: st.DataObject) -> None:
    rows, columns = raster.cells
    assert rows <= MOST_ROWS + 2 * raster.margin
    assert columns <= MOST_COLUMNS
    points = data.draw(st.lists(st.integers(-5000, raster.points + 5000), max_size=30))
    heat = Heatmap(raster)
    heat.add(np.array(points, np.int64), 3)
    wanted = np.zeros((rows, columns), np.int64)
    for point in points:
        row = math.floor(math.floor(point / raster.columns) / raster.high) + raster.margin
        column = (point % raster.columns) // raster.wide
        if 0 <= row < rows:
            wanted[row, column] += 3
    np.testing.assert_array_equal(heat.counts, wanted)


@settings(max_examples=100, deadline=None)
@given(rasters)
def test_every_point_is_in_a_covered_cell(raster: CellGrid) -> None:
    cells = raster.cell(np.arange(raster.points))
    assert (cells >= 0).all()
    assert raster.covered(0, raster.points).ravel()[cells].all()
    outside = np.setdiff1d(np.arange(raster.cells[0] * raster.cells[1]), cells)
    if raster.high == 1:  # a cell of several rows may span more than the points that it has
        assert not raster.covered(0, raster.points).ravel()[outside].any()


def test_samples_of_a_large_raster_take_memory_for_what_is_drawn() -> None:
    """Numbering all points of a cell took 5.6 GB here."""
    tracemalloc.start()
    try:
        points = line_cells(1 << 41).sample_points(64)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert 0 < points.size <= 64 * MOST_ROWS * MOST_COLUMNS
    assert peak < 64 << 20


def test_shapes() -> None:
    assert tile_cells((8, 32)) == CellGrid(256, 32)
    assert tile_cells((4, 8, 32)) == CellGrid(1024, 32)
    assert tile_cells((1, 64)) == line_cells(64) == CellGrid(64, 16)
    assert tile_cells(()) == CellGrid(1, 1)
    assert grid_cells((40, 3, 2)) == CellGrid(240, 40)
    for points in (1, 17, 1000, 100_000, 10_000_000):
        rows, columns = line_cells(points).cells
        assert rows * columns <= MOST_ROWS * MOST_COLUMNS


def test_rows_of_views() -> None:
    def pitch(shape: tuple[int, ...], strides: tuple[int, ...]) -> int | None:
        return ArrayView("x", shape, strides, "int8", 0, 1 << 20).pitch

    assert pitch((8, 6), (6, 1)) == 6
    assert pitch((8, 6), (24, 1)) == 24
    assert pitch((8, 6), (-24, 1)) == 24
    assert pitch((8, 6), (1, 8)) == 8  # columns are what lies in a row
    assert pitch((2, 8, 6), (48, 6, 1)) == 6
    assert pitch((1, 6), (6, 1)) is None
    assert pitch((100,), (2,)) is None
    assert pitch((7, 6), (0, 1)) is None
