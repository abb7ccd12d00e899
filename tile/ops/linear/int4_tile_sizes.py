"""Tiles of matmuls by weights of 4 bits, and how many programs share the inner axis of each."""

from __future__ import annotations

from itertools import product
from typing import Any, NamedTuple

import tile
from tile.ops.core.call import F32, Call
from tile.ops.core.new_arrays import DType
from tile.ops.core.tables import ANY, Table
from tile.ops.linear.configurations import PROGRAMS, dependent, tiles
from tile.ops.linear.splits import splits_of

# By M, for few rows: two programs of 64 rows of weights run on a multiprocessor at a time. The
# fastest for five shapes (docs/notes/ops.md; H200, float16, 2026-11-30).
FEW = Table(
    {(ANY,): tiles(16, 32, 32)},
    {
        "nvptx": {
            (16,): dependent(16, 64, 128, stages=4),  # of float32; others have int4_rows.py
            (32,): dependent(32, 64, 128, stages=4),
            (48,): dependent(48, 64, 128, stages=4),
            (ANY,): dependent(64, 64, 128),
        }
    },
)
MOST_FEW = 64  # rows
RESIDENT = 2


class _Tile(NamedTuple):
    """A tile of rows of a, and its step of the inner axis.

    time: microseconds of 128 of 128 rows of weights, from which tiles are chosen.
    """

    rows: int
    step: int
    stages: int
    time: float


# Of more rows: tiles of 128 rows of weights, one of which runs on a multiprocessor at a time. Times
# are fitted to those of 35 shapes in one to four splits, to .035; for 33 shapes what is chosen is
# the fastest measured, for two it was not measured (H200, float16, 2026-11-30).
MANY = (
    _Tile(96, 128, 3, 0.99),
    _Tile(128, 128, 3, 1.13),
    _Tile(192, 64, 4, 1.33),
    _Tile(256, 64, 4, 1.60),
)
WEIGHT_ROWS, INNER, WARPS = 128, 128, 8
STARTING = 1.1  # microseconds of a program besides
ADDING, ADDING_RATE = 1.3, 4.4e6  # microseconds of a second kernel, and its bytes in one
MOST_SPLITS = 4


def tiles_and_splits(
    call: Call, dtype: DType, sizes: tuple[int, int, int], group: int, splits: int | None
) -> tuple[dict[str, Any], int]:
    """Return the configuration of a matmul, and how many programs share a tile.

    sizes: M, N and K. group: weights of a group. splits: those asked for, or None.
    """
    m, n, k = sizes
    if m > MOST_FEW and dtype != F32 and call.backend in PROGRAMS:
        config, wanted = fastest_tiles(sizes, PROGRAMS[call.backend])
    else:
        config, wanted = dict(FEW.select(call.backend, m)), 0
    config["BLOCK_K"] = min(config["BLOCK_K"], group)
    count = tile.cdiv(m, config["BLOCK_M"]) * tile.cdiv(n, config["BLOCK_N"])
    steps = tile.cdiv(k, config["BLOCK_K"])
    if splits is None and wanted:
        return config, min(wanted, max(1, steps))
    return config, splits_of(call, splits, tile.cdiv(count, RESIDENT), steps)


def fastest_tiles(sizes: tuple[int, int, int], programs: int) -> tuple[dict[str, Any], int]:
    """Return the configuration and splits of the least time, of a device of so many programs."""
    m, n, k = sizes

    def time(choice: tuple[_Tile, int]) -> float:
        each, splits = choice
        count = tile.cdiv(m, each.rows) * tile.cdiv(n, WEIGHT_ROWS) * splits
        inner = tile.cdiv(tile.cdiv(k, each.step), splits) * each.step
        total = tile.cdiv(count, programs) * (STARTING + each.time * inner / INNER)
        return total + (splits > 1) * (ADDING + splits * m * n * 8 / ADDING_RATE)

    each, splits = min(product(MANY, range(1, MOST_SPLITS + 1)), key=time)
    return dependent(each.rows, WEIGHT_ROWS, each.step, WARPS, each.stages), splits


def runs_at_once(backend: str, m: int, n: int) -> bool:
    """Return True if a device runs all of the largest tiles of a result at once."""
    count = tile.cdiv(m, MANY[-1].rows) * tile.cdiv(n, WEIGHT_ROWS)
    return count <= PROGRAMS.get(backend, 0)
