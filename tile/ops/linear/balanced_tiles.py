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
"""

from __future__ import annotations

from typing import Any, NamedTuple

import tile
from tile.ops.linear.configurations import PROGRAMS, tiles

ROWS, INNER = 128, 64  # of a tile
LEAST, LEAST_INNER = 1024, 512  # rows and columns, and elements of the inner axis
# By columns, the time of a column of a tile, relative to that of 256 (H200, float16, 2026-11-29).
COLUMNS = {256: 1.0, 224: 1.03, 208: 1.06, 200: 1.03, 192: 1.02, 176: 1.04, 168: 1.04}
COLUMNS |= {160: 1.07, 144: 1.08}
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


class _Tile(NamedTuple):
    """A tile of the result, or of its transpose if `swapped`."""

    rows: int
    columns: int
    swapped: bool

    def most(self, m: int, n: int, programs: int) -> int:
        """Return the number of tiles of the multiprocessor with the most."""
        rows, columns = (n, m) if self.swapped else (m, n)
        return tile.cdiv(tile.cdiv(rows, self.rows) * tile.cdiv(columns, self.columns), programs)


def balanced_tiles(
    backend: str, m: int, n: int, k: int, a_inner: bool, b_inner: bool
) -> tuple[dict[str, Any], bool]:
    """Return the configuration of a matmul of 16-bit operands, and if it computes the transpose.

    An empty configuration leaves it to others. a_inner, b_inner: True for operands that are
    contiguous along the inner axis.
    """
    if backend not in PROGRAMS or min(m, n) < LEAST or k < LEAST_INNER:
        return {}, False
    programs = PROGRAMS[backend]

    def is_whole(choice: _Tile) -> bool:
        return a_inner if choice.swapped else b_inner

    def cost(choice: _Tile) -> float:
        columns = choice.columns
        parts = PARTS_OF_STRIPS if not is_whole(choice) else 1.0 if choice.swapped else STORED_PARTS
        parts = parts if columns % STRIP else 1.0
        tall = TALL_TIME if choice.rows == TALL else 1.0
        return choice.most(m, n, programs) * choice.rows * columns * COLUMNS[columns] * parts * tall

    def is_fast(choice: _Tile) -> bool:
        single = choice.most(m, n, programs) == 1
        if choice.rows == TALL:
            strips = is_whole(choice) or choice.columns % STRIP == 0
            return single and strips and choice.columns <= TALL_COLUMNS and k >= TALL_INNER
        return is_whole(choice) or choice.columns % SINGLE == 0 or not single

    choices = [
        _Tile(rows, columns, swapped)
        for swapped in (False, True)
        for rows in (ROWS, TALL)
        for columns in COLUMNS
    ]
    chosen = min(filter(is_fast, choices), key=cost)
    rows, columns, swapped = chosen
    if chosen.most(m, n, programs) > 1:
        config = tiles(rows, columns, INNER, 8, 4)
        return {**config, "persistent": True, "warp_specialize": True}, swapped
    most_stages = min(MOST_STAGES, STAGES_BYTES // (2 * INNER * (rows + columns)))
    stages = most_stages if is_whole(chosen) else 4
    config = {**tiles(rows, columns, INNER, rows // 16, stages), "launch_pdl": True}
    if (rows, columns) == (ROWS, 160):
        # With a producer: 14.3 us, 15.0 without (1536 cubed); with five stages 14.1.
        return {**config, "warp_specialize": True, "num_stages": min(stages, 5)}, swapped
    return config, swapped
