"""Tiles of matmuls by the number of multiprocessors that they keep busy.

All tiles of a result take equally long, so that the last ones leave multiprocessors idle: 98 tiles
of 128 x 256 take as long as 132 do. So tiles have as many columns as make the work of the
multiprocessor with the most tiles least. If that has several, there are as many programs as
multiprocessors: the producer warps of each load the operands of a tile while it stores the one
before. Instead of two tiles, a program may have one of twice the rows, by twice the warps, whose
columns are loaded once.

TMA loads whole strips of 64 columns of a row-major right operand, and as many columns as there are
of one that is contiguous along the inner axis. If the left operand is, the transpose of the result
may be computed, whose right operand it is; rows of tiles are stored to whole strips then.

Rows of an operand that begin within sectors of the L2 cache take longer to load than to multiply,
so that programs are in clusters of two, which load the columns that both need once.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import tile
from tile.ops.linear.configurations import PROGRAMS, tiles
from tile.ops.linear.shapes import FewTiles, Shape

ROWS, INNER = 128, 64  # of a tile
LEAST, LEAST_INNER = 128, 512  # rows and columns, and elements of the inner axis
# By columns, the time of a column of a tile, relative to that of 256 (H200, float16, 2026-11-29).
COLUMNS = {256: 1.0, 224: 1.03, 208: 1.06, 200: 1.03, 192: 1.02, 176: 1.04, 168: 1.04}
COLUMNS |= {160: 1.07, 144: 1.08, 128: 1.1}
# The same where strips have columns that are not used, and where results are stored to parts of
# strips. Single tiles of other columns are slow: 1536 cubed takes 14.9 us with 144, 12.5
# transposed.
STRIP, PARTS_OF_STRIPS, STORED_PARTS, SINGLE = 64, 1.04, 1.01, 32
# Tiles of twice the rows, their time compared with that of two (.90 to .98), their most columns, as
# a thread has 128 registers, and the least inner axis: shorter ones gain more by storing one tile
# while they load another (2048 x 3072 x 1024: 20.7 us, 21.3 with tall tiles).
TALL, TALL_TIME, TALL_COLUMNS, TALL_INNER = 256, 0.97, 200, 2048
# Of shared memory, 16-bit operands of a tile that is the only one of its program.
STAGES_BYTES, MOST_STAGES = 218 * 1024, 6
# Clusters: two programs load columns of such multiples in parts; the time of strips with unused
# columns, for which memory lacks a stage; the columns that take as long as loading a row.
# Single tiles of a long inner axis whose columns are parts of strips have clusters, too: 3072 x 768
# x 8192, both row-major along the result, takes 58.7 us with 128 x 160, 66.4 without.
LONG_INNER = 4096
SHARED_COLUMNS, CLUSTER_PARTS, LOADED = 16, 1.15, 115


class _Tile(NamedTuple):
    """A tile of the result, or of its transpose if `swapped`."""

    rows: int
    columns: int
    swapped: bool

    def count(self, shape: Shape) -> int:
        """Return the number of tiles."""
        rows, columns = (shape.n, shape.m) if self.swapped else (shape.m, shape.n)
        return shape.batches * tile.cdiv(rows, self.rows) * tile.cdiv(columns, self.columns)

    def is_inner(self, shape: Shape) -> bool:
        """Return True if the right operand is contiguous along the inner axis."""
        return shape.a_inner if self.swapped else shape.b_inner

    def is_whole(self, shape: Shape) -> bool:
        """Return True if TMA loads as many columns as there are."""
        return self.is_inner(shape) or self.columns % STRIP == 0


def balanced_tiles(backend: str, shape: Shape) -> FewTiles | None:
    """Return the configuration of a matmul; None leaves it to others."""
    _, m, n, k, *_ = shape
    if backend not in PROGRAMS or min(m, n) < LEAST or k < LEAST_INNER:
        return None
    programs = PROGRAMS[backend]

    def most(choice: _Tile) -> int:
        return tile.cdiv(choice.count(shape), programs)

    choices = [
        _Tile(rows, columns, swapped)
        for swapped in (False, True)
        for rows in (ROWS, TALL)
        for columns in COLUMNS
    ]
    chosen = min(
        (choice for choice in choices if _is_fast(shape, choice, most(choice))),
        key=lambda choice: most(choice) * _cost(shape, choice),
    )
    config = _config(shape, chosen, single=most(chosen) == 1)
    return FewTiles(config, chosen.swapped)


def _config(shape: Shape, choice: _Tile, *, single: bool) -> dict[str, Any]:
    """Return the configuration of a tile, which is the only one of its program if `single`."""
    rows, columns, _ = choice
    clusters = {"num_ctas": 2, "warp_specialize": True}
    long_strips = single and not choice.is_whole(shape) and shape.k >= LONG_INNER
    if not (shape.within_sectors or long_strips):
        clusters = {}
    if not single:
        config = tiles(rows, columns, INNER, 8, 6 if columns == ROWS else 4)
        return {**config, "persistent": True, "warp_specialize": True, **clusters}
    most_stages = min(MOST_STAGES, STAGES_BYTES // (2 * INNER * (rows + columns)))
    stages = most_stages if choice.is_inner(shape) else 4
    config = {**tiles(rows, columns, INNER, rows // 16, stages), "launch_pdl": True}
    if clusters and choice.count(shape) % 2 == 0:
        return {**config, **clusters}
    if (rows, columns) == (ROWS, 160):
        # With a producer: 14.3 us, 15.0 without (1536 cubed); with five stages 14.1.
        return {**config, "warp_specialize": True, "num_stages": min(stages, 5)}
    return config


def _cost(shape: Shape, choice: _Tile) -> float:
    """Return the time of a tile, in that of a column of a row."""
    rows, columns, swapped = choice
    whole = choice.is_whole(shape)
    parts = PARTS_OF_STRIPS if not whole else 1.0 if swapped else STORED_PARTS
    parts = parts if columns % STRIP else 1.0
    tall = TALL_TIME if rows == TALL else 1.0
    multiplied = rows * columns * COLUMNS[columns] * tall
    if not shape.within_sectors:
        return multiplied * parts
    loaded = columns if whole else tile.cdiv(columns, STRIP) * STRIP
    return max(multiplied, LOADED * (rows + loaded / 2)) * (1.0 if whole else CLUSTER_PARTS)


def _is_fast(shape: Shape, choice: _Tile, most: int) -> bool:
    rows, columns, _ = choice
    if shape.within_sectors and (rows == TALL or columns % SHARED_COLUMNS):
        return False
    if rows == TALL:
        whole = choice.is_whole(shape)
        return most == 1 and whole and columns <= TALL_COLUMNS and shape.k >= TALL_INNER
    return choice.is_inner(shape) or columns % SINGLE == 0 or most > 1
