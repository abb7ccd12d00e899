"""Tiles of as many columns as give most multiprocessors one, for results of few tiles.

The tables of few_tiles.py have tiles of powers of two, of which some shapes have hardly more than
half as many as there are multiprocessors: 1024 x 1280 has 80 of 128 x 128, and 128 of 64 x 160.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import tile
from tile.ops.linear.configurations import PROGRAMS, tiles
from tile.ops.linear.shapes import FewTiles, Shape

LEAST_INNER = 512  # elements of the inner axis
MOST_INNER = (
    4095  # of results of several tiles of rows: 768 x 768 x 8192 takes 26.8 us with 64 x 72
)
STEP, STRIP, MOST_COLUMNS = 8, 64, 256  # columns
# Results of a tile of rows: the least and most rows, those of a tile, and the columns that are
# faster than those of the tables (bfloat16, H200, 2026-11-30): 64 x 5120 x 5120 takes 15.1 us (18.7
# before), 64 x 6144 x 4096 14.4 (16.2), 128 x 768 x 8192 8.7 (12.1).
LOW = ((49, 64, 64, range(24, 57)), (105, 128, 128, range(40, 73)))
LEAST_ROWS, LEAST_BATCHED_ROWS = 257, 33  # of other results: of a single matmul, of batches
# Of other results, the most tiles of 64 x 64 for which the tables have a tile, and the part of its
# time that others may take: 1024 x 1280 x 1280 takes 6.6 us (8.9), 1024 x 768 x 768 3.9 (4.3), but
# 1536 x 1152 x 1152 8.7 us with 128 x 112, for which .90 is estimated, and 8.5 with 128 x 128.
TABLES = ((132, (0, 0)), (264, (64, 128)), (528, (128, 128)))
FASTER = 0.87
STAGES_BYTES = 218 * 1024


class _Tile(NamedTuple):
    rows: int
    columns: int
    swapped: bool = False

    @property
    def time(self) -> float:
        """The cycles of 64 elements of the inner axis: multiplied, and loaded."""
        return self.rows * self.columns / 32 + self.rows + self.columns


def low_tiles(backend: str, shape: Shape) -> FewTiles | None:
    """Return the configuration of a matmul of one tile of rows; None leaves it to others."""
    if backend not in PROGRAMS or shape.batches > 1 or shape.k < LEAST_INNER:
        return None
    for least, most, rows, columns in LOW:
        low = _filling(rows, shape, PROGRAMS[backend]) if least <= shape.m <= most else None
        if low and low.columns in columns:
            return FewTiles({**_config(low, shape.k), "GROUP": 1}, swapped=False)
    return None


def filling_tiles(backend: str, shape: Shape) -> FewTiles | None:
    """Return the configuration of a matmul; None leaves it to others."""
    batches, m, n, k, *_ = shape
    least = LEAST_ROWS if batches == 1 else LEAST_BATCHED_ROWS
    if backend not in PROGRAMS or m < least or not LEAST_INNER <= k <= MOST_INNER:
        return None
    programs = PROGRAMS[backend]
    count = batches * tile.cdiv(m, 64) * tile.cdiv(n, 64)
    usual = next((_Tile(*edges) for most, edges in TABLES if count <= most), _Tile(0, 0))
    choices = _choices(shape, programs)
    chosen = min(choices, key=lambda choice: choice.time, default=usual)
    if chosen.time >= FASTER * usual.time:
        return None
    return FewTiles(_config(chosen, k), swapped=chosen.swapped)


def _choices(shape: Shape, programs: int) -> Iterator[_Tile]:
    for one in (shape, shape.transposed()):
        for rows in (64, 128):
            choice = _filling(rows, one, programs)
            if choice:
                yield choice._replace(swapped=one is not shape)


def _filling(rows: int, shape: Shape, programs: int) -> _Tile | None:
    """Return the tile of least columns of which there are no more than programs."""
    across = programs // (shape.batches * tile.cdiv(shape.m, rows))
    if not across:
        return None
    # Strips of 64 columns are loaded whole, unless columns are contiguous along the inner axis.
    step = STEP if shape.b_inner else STRIP
    columns = tile.cdiv(tile.cdiv(shape.n, across), step) * step
    return _Tile(rows, columns) if columns <= MOST_COLUMNS else None


def _config(choice: _Tile, k: int) -> dict[str, Any]:
    rows, columns, _ = choice
    inner = 128 if columns < STRIP and rows < 128 and k >= 1024 else 64
    stages = min(10, STAGES_BYTES // (2 * inner * (rows + columns)))
    warps = 8 if rows * columns >= 128 * 128 else 4
    return {**tiles(rows, columns, inner, warps, stages), "launch_pdl": True}
