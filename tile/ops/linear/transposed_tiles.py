"""Tiles of matmuls of 33 to 104 rows by a thousand columns or more, by the time that they take.

    out.T = b.T @ a.T

Such a matmul takes the time of reading b. As its transpose, all rows of the result are the columns
of one tile, or of two, so that b is read once or twice; and there are programs for all
multiprocessors: of 64 or 128 columns of b, or of parts of the inner axis, whose sums another kernel
adds up. Several small programs on a multiprocessor have more even shares than one.
"""

from __future__ import annotations

from itertools import product
from typing import Any, NamedTuple

import tile
from tile.ops.linear.configurations import PROGRAMS, dependent
from tile.ops.linear.shapes import FewTiles, Shape

LEAST_ROWS, MOST_ROWS, LEAST_COLUMNS, LEAST_INNER = 33, 104, 1024, 1024
# Times the multiprocessors, programs of splits, and those that share them: of more, which follow
# others, large ones are faster (96 x 28672 x 8192: 129 us instead of 156).
MOST_PROGRAMS = 3
LEAST_SPLIT = 512  # elements of the inner axis
# Shared memory of a program that has a multiprocessor for itself, and of one of three, in bytes;
# that of a multiprocessor.
ALONE, SHARED, SHARED_MEMORY = 218 * 1024, 73 * 1024, 225 * 1024
MOST_STAGES, LEAST_SHARED_STAGES = 10, 3
# In microseconds: a launch, a program that follows another one, and a second launch; by bytes
# loaded by a multiprocessor, by a pair, which share a path, and from memory; by multiplications of
# a multiprocessor; by bytes that are added up. Columns of the tile, which other programs load as
# well, count less than rows. Fitted to 1,000 times of 27 shapes: they choose 1.03 times the least
# time in the geometric mean (bfloat16, H200, 2026-11-30; docs/notes/ops.md, "Few rows").
LAUNCH, NEXT, ADDING = 1.24, 1.32, 0.78
BYTES, PAIR_BYTES, MEMORY_BYTES, COLUMN = 110e3, 124e3, 3.81e6, 0.657
MULTIPLICATIONS, ADDED_BYTES = 3.25e6, 2.7e6


class _Choice(NamedTuple):
    """A tile of the transpose: rows are columns of b."""

    rows: int
    columns: int
    splits: int
    shared: bool

    @property
    def inner(self) -> int:
        """Return the elements of the inner axis of an iteration."""
        return 128 if self.rows == 64 and self.columns <= 64 else 64

    @property
    def bytes_of_stage(self) -> int:
        return 2 * self.inner * (self.rows + self.columns)

    @property
    def stages(self) -> int:
        return min(MOST_STAGES, (SHARED if self.shared else ALONE) // self.bytes_of_stage)

    def tiles(self, shape: Shape) -> int:
        return tile.cdiv(shape.n, self.rows) * tile.cdiv(shape.m, self.columns)


def transposed_tiles(backend: str, shape: Shape) -> FewTiles | None:
    """Return the configuration of a matmul; None leaves it to others."""
    batches, m, n, k, *_ = shape
    few = LEAST_ROWS <= m <= MOST_ROWS and n >= LEAST_COLUMNS and k >= LEAST_INNER
    if backend not in PROGRAMS or batches > 1 or not few or shape.within_sectors:
        return None
    programs = PROGRAMS[backend]
    choices = (
        _Choice(rows, tile.cdiv(tile.cdiv(m, parts), 16) * 16, splits, shared)
        for rows, parts, splits, shared in product((64, 128), (1, 2), (1, 2, 3, 4), (False, True))
    )
    possible = (choice for choice in choices if _is_possible(shape, choice, programs))
    chosen = min(possible, key=lambda choice: _microseconds(shape, choice, programs))
    config: dict[str, Any] = dependent(
        chosen.rows, chosen.columns, chosen.inner, stages=chosen.stages
    )
    return FewTiles({**config, "GROUP": 1, "splits": chosen.splits}, swapped=True)


def _is_possible(shape: Shape, choice: _Choice, programs: int) -> bool:
    count = choice.tiles(shape)
    if choice.shared and (choice.rows > 64 or choice.stages < LEAST_SHARED_STAGES):
        return False
    few = count * choice.splits <= MOST_PROGRAMS * programs
    if choice.shared and not (programs <= count and few):
        return False
    return choice.splits == 1 or (few and shape.k // choice.splits >= LEAST_SPLIT)


def _microseconds(shape: Shape, choice: _Choice, programs: int) -> float:
    _, m, n, k, *_ = shape
    count = choice.tiles(shape) * choice.splits
    inner = tile.cdiv(tile.cdiv(k, 64), choice.splits) * 64
    resident = max(1, min(3, SHARED_MEMORY // (choice.stages * choice.bytes_of_stage + 2048)))
    most, most_of_pair = tile.cdiv(count, programs), tile.cdiv(count, programs // 2)
    loaded = 2 * inner * (choice.rows + COLUMN * choice.columns)
    time = LAUNCH + NEXT * tile.cdiv(most, resident)
    time += max(
        most_of_pair * loaded / PAIR_BYTES,
        most * loaded / BYTES,
        most * inner * choice.rows * choice.columns / MULTIPLICATIONS,
        2 * k * (n + m) / MEMORY_BYTES,
    )
    if choice.splits > 1:
        time += ADDING + (4 * choice.splits + 2) * m * n / ADDED_BYTES
    return time
