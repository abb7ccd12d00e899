"""Tiles of matmuls of 65 to 1023 rows by thousands of columns, by the time that they take.

Multiprocessors have one program at a time, so a matmul takes as long as the programs of the one
with the most. In two splits of the inner axis each takes half as long, and another kernel adds up
their sums.
"""

from __future__ import annotations

from itertools import product
from typing import Any, NamedTuple

import tile
from tile.ops.linear.configurations import PROGRAMS, tiles

MOST_ROWS, LEAST_ROWS, LEAST_COLUMNS, LEAST_INNER = 1023, 65, 4096, 4096
# With the time of a multiplication, compared with that of tiles of 128 x 256. These and the numbers
# below choose .97 of cuBLAS's speed in the geometric mean of 56 shapes of 96 to 768 rows, where the
# fastest of all tiles have .99, and those of few_tiles.py .86 (H200, float16, cold L2 cache,
# 2026-11-29, docs/notes/ops.md).
_TILES = (
    (tiles(64, 128, 64, stages=8), 1.26),
    (tiles(64, 192, 64, stages=6), 1.21),
    (tiles(64, 256, 64, stages=5), 1.07),
    (tiles(128, 128, 64, stages=6), 1.43),
    (tiles(128, 192, 64, warps=8, stages=4), 1.01),
    (tiles(128, 256, 64, warps=8, stages=4), 1.0),
)
# Of a microsecond: multiplications by a multiprocessor, and bytes that are added up, besides a
# launch.
MULTIPLICATIONS, ADDED_BYTES, LAUNCH = 3.03e6, 5.6e6, 2.5


class Wide(NamedTuple):
    """A configuration, and the time, in that of a multiplication of all inner elements.

    swapped: True if the transpose of the result is computed, whose columns are one tile.
    """

    config: dict[str, Any]
    cost: float
    swapped: bool


def wide_tiles(backend: str, m: int, n: int, k: int) -> Wide | None:
    """Return the configuration of a matmul of 16-bit operands; None for other shapes."""
    few = LEAST_ROWS <= m <= MOST_ROWS
    if backend not in PROGRAMS or not few or n < LEAST_COLUMNS or k < LEAST_INNER:
        return None

    def microseconds(config: dict[str, Any], relative: float, splits: int) -> float:
        rows, columns = int(config["BLOCK_M"]), int(config["BLOCK_N"])
        programs = tile.cdiv(m, rows) * tile.cdiv(n, columns) * splits
        most = tile.cdiv(programs, PROGRAMS[backend])
        multiplied = most * rows * columns * relative * k / splits / MULTIPLICATIONS
        return multiplied + (splits - 1) * (LAUNCH + (4 * splits + 2) * m * n / ADDED_BYTES)

    choices = [(config, relative, splits) for (config, relative), splits in product(_TILES, (1, 2))]
    chosen = min(choices, key=lambda choice: microseconds(*choice))
    config = {**chosen[0], "splits": chosen[2], "launch_pdl": True}
    # 192 x 8192 x 8192 takes 41.3 us so, 50.2 if three programs load the same rows of weights.
    swapped = (config["BLOCK_M"], config["BLOCK_N"]) == (64, 192) and 128 < m <= 192
    if swapped:
        config["BLOCK_N"] = tile.cdiv(m, 8) * 8
    return Wide(config, microseconds(*chosen) * MULTIPLICATIONS / k, swapped)
