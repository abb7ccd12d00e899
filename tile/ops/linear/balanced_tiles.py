"""Tiles of matmuls by the number of multiprocessors that they keep busy.

All tiles of a result take equally long, so that the last ones leave multiprocessors idle: 98 tiles
of 128 x 256 take as long as 132 do. So tiles have as many columns as make the work of the
multiprocessor with the most tiles least. If that has several, there are as many programs as
multiprocessors: the producer warps of each load the operands of a tile while it stores the one
before.

TMA loads whole strips of 64 columns of a row-major right operand, and as many columns as there are
of one that is contiguous along the inner axis. If the left operand is, the transpose of the result
may be computed, whose right operand it is; rows of tiles are stored to whole strips then.
"""

from __future__ import annotations

from typing import Any

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
# Of shared memory, 16-bit operands of a tile that is the only one of its program.
STAGES_BYTES, MOST_STAGES = 218 * 1024, 6


def balanced_tiles(
    backend: str, m: int, n: int, k: int, a_inner: bool, b_inner: bool
) -> tuple[dict[str, Any], bool]:
    """Return the configuration of a matmul of 16-bit operands, and if it computes the transpose.

    An empty configuration leaves it to others. a_inner, b_inner: True for operands that are
    contiguous along the inner axis.
    """
    if backend not in PROGRAMS or min(m, n) < LEAST or k < LEAST_INNER:
        return {}, False

    def most_tiles(columns: int, swapped: bool) -> int:
        rows, others = (n, m) if swapped else (m, n)
        count = tile.cdiv(rows, ROWS) * tile.cdiv(others, columns)
        return tile.cdiv(count, PROGRAMS[backend])

    def cost(choice: tuple[int, bool]) -> float:
        columns, swapped = choice
        whole = a_inner if swapped else b_inner
        parts = PARTS_OF_STRIPS if not whole else 1.0 if swapped else STORED_PARTS
        parts = parts if columns % STRIP else 1.0
        return most_tiles(*choice) * columns * COLUMNS[columns] * parts

    def is_fast(choice: tuple[int, bool]) -> bool:
        columns, swapped = choice
        whole = a_inner if swapped else b_inner
        return whole or columns % SINGLE == 0 or most_tiles(*choice) > 1

    choices = [(columns, swapped) for swapped in (False, True) for columns in COLUMNS]
    columns, swapped = min(filter(is_fast, choices), key=cost)
    if most_tiles(columns, swapped) > 1:
        config = tiles(ROWS, columns, INNER, 8, 4)
        return {**config, "persistent": True, "warp_specialize": True}, swapped
    whole = a_inner if swapped else b_inner
    stages = min(MOST_STAGES, STAGES_BYTES // (2 * INNER * (ROWS + columns))) if whole else 4
    config = {**tiles(ROWS, columns, INNER, 8, stages), "launch_pdl": True}
    if columns == 160:
        # With a producer: 14.3 us, 15.0 without (1536 cubed); with five stages 14.1.
        return {**config, "warp_specialize": True, "num_stages": min(stages, 5)}, swapped
    return config, swapped
