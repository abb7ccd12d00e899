"""Tiles of matmuls of about a hundred to a thousand rows by thousands of columns, by their times.

Such a matmul reads b, which is large, about as long as it multiplies. Its tiles are of 64 to 256
rows of the result, or of its transpose, whose columns are all rows of the result or a part of
them. If there are few tiles, programs share the inner axis of each, and another kernel adds up
their sums; if there are many, persistent programs load one while they store another. The tile with
the least estimated time is chosen.

Programs that load the same part of b are adjacent: 192 x 9216 x 2048 takes 15.3 us so, and 18.0 if
those of only two rows of tiles are (64 x 256; H200, 2026-11-30).
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from itertools import product
from typing import Any

from tile.ops.linear.configurations import PROGRAMS, dependent, tiles
from tile.ops.linear.shapes import FewTiles, Shape
from tile.ops.linear.tile_times import STEP, TileChoice, microseconds

LEAST_ROWS, MOST_ROWS, LEAST_COLUMNS, LEAST_INNER = 105, 1023, 1024, 512
LEAST_WITHIN_SECTORS = 65  # rows: others are of transposed_tiles.py
# Of a result: larger ones were not measured, and have enough tiles (balanced_tiles.py).
MOST_ELEMENTS = 2**24
# Splits, and the least elements of the inner axis of one; programs that share tiles are at most one
# a multiprocessor. Times the multiprocessors, the most tiles.
MOST_SPLITS, LEAST_SPLIT, MOST_TILES = 12, 256, 8
# Columns of tiles: of columns of b, of rows of a, so that results of so many rows have the same
# kernels, and of parts of strips.
COLUMNS, COLUMNS_OF_A, COLUMNS_OF_PARTS = (range(32, 257, step) for step in (8, 16, 32))
CLUSTER_COLUMNS = 16  # multiples of which two programs load half each
# Rows of tiles by four warpgroups: registers, shared memory and iterations are enough for so many
# columns.
TALL, TALL_COLUMNS, TALL_INNER = 256, range(96, 177), 1024
PERSISTENT_ROWS, PERSISTENT_COLUMNS = 128, range(64, 257)
STAGE_BYTES, MOST_STAGES = 218 * 1024, 10  # of shared memory
GROUP = 16  # rows of tiles whose programs are adjacent: all of a thousand


@functools.lru_cache(maxsize=1024)
def estimated_tiles(backend: str, shape: Shape) -> FewTiles | None:
    """Return the configuration of a matmul; None leaves it to others."""
    batches, m, n, k, *_ = shape
    least = LEAST_WITHIN_SECTORS if shape.within_sectors else LEAST_ROWS
    wide = least <= m <= MOST_ROWS and n >= LEAST_COLUMNS and k >= LEAST_INNER
    if backend not in PROGRAMS or batches > 1 or not wide or m * n > MOST_ELEMENTS:
        return None
    programs = PROGRAMS[backend]
    choices = tile_choices(shape, programs)
    chosen = min(choices, key=lambda choice: microseconds(shape, choice, programs))
    return FewTiles(_config(chosen, shape), swapped=chosen.swapped)


def tile_choices(shape: Shape, programs: int) -> Iterator[TileChoice]:
    """Yield the tiles of a matmul, and how programs compute them."""
    for swapped, rows in product((False, True), (64, 128, TALL)):
        whole = shape.a_inner if swapped else shape.b_inner
        possible = (COLUMNS_OF_A if swapped else COLUMNS) if whole else COLUMNS_OF_PARTS
        last = 0
        for columns in possible:
            choice = TileChoice(rows, columns, 1, swapped, whole)
            along = choice.across(shape)[1]
            # More columns of as many tiles would be multiplied in vain.
            if along != last and (rows < TALL or _is_tall(shape, columns)):
                yield from _programs(shape, choice, programs)
            last = along


def _is_tall(shape: Shape, columns: int) -> bool:
    return columns in TALL_COLUMNS and shape.k >= TALL_INNER


def _programs(shape: Shape, choice: TileChoice, programs: int) -> Iterator[TileChoice]:
    """Yield a tile with splits, in clusters, and of persistent programs."""
    down, along = choice.across(shape)
    count = down * along
    if count > MOST_TILES * programs:
        return
    most = min(programs // count, MOST_SPLITS, shape.k // LEAST_SPLIT)
    alike = along if choice.swapped else down  # programs of a part of b
    in_pairs = alike == 2 or (alike % 2 == 0 and shape.within_sectors)
    in_pairs = in_pairs and choice.columns % CLUSTER_COLUMNS == 0
    # All splits that leave less than half of the multiprocessors idle.
    for splits in {1, *range(-(-programs // (2 * count)), most + 1)}:
        one = choice._replace(splits=splits)
        yield one
        if count <= programs and in_pairs:
            yield one._replace(clustered=True)
    is_wide = choice.rows == PERSISTENT_ROWS and choice.columns in PERSISTENT_COLUMNS
    if count > programs and is_wide:
        yield choice._replace(persistent=True)


def _config(choice: TileChoice, shape: Shape) -> dict[str, Any]:
    rows, columns = choice.rows, choice.columns
    inner = 2 * STEP if rows == 64 and columns <= 64 else STEP
    stages = min(MOST_STAGES, STAGE_BYTES // (2 * inner * (rows + choice.loaded)))
    warps = 16 if rows == TALL else 8 if rows == 128 and columns > 128 else 4
    one_row = choice.swapped or rows >= shape.m
    common = {"GROUP": 1 if one_row else GROUP, "splits": choice.splits}
    produced = {"warp_specialize": True}
    if choice.persistent:
        config = tiles(rows, columns, inner, 8, 6 if columns <= 128 else 4)
        return {**config, **common, **produced, "persistent": True}
    clusters = produced | {"num_ctas": 2} if choice.clustered else {}
    return {**dependent(rows, columns, inner, warps, stages), **common, **clusters}
