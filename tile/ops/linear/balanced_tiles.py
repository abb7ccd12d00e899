"""Tiles of matmuls by the number of multiprocessors that they keep busy.

All tiles of a result take equally long, so that the last ones leave multiprocessors idle: 98 tiles
of 128 x 256 take as long as 132 do. So tiles have as many columns as make the work of the
multiprocessor with the most tiles least. If that has several, there are as many programs as
multiprocessors: the producer warps of each load the operands of a tile while it stores the one
before.
"""

from __future__ import annotations

from typing import Any

import tile
from tile.ops.linear.configurations import PROGRAMS, tiles

ROWS = 128
LEAST = 1024  # rows, columns and elements of the inner axis
# By columns, the time of a column of a tile, relative to that of 256 (H200, float16, 2026-11-29).
COLUMNS = {256: 1.0, 224: 1.02, 208: 1.06, 192: 1.02, 160: 1.07}
# Programs of one tile are slow unless their columns are multiples of these: 1760 cubed takes
# 23.7 us with 208, 19.3 with 224.
SINGLE = 32


def balanced_tiles(backend: str, m: int, n: int, k: int) -> dict[str, Any]:
    """Return the configuration of a matmul of 16-bit operands; an empty one leaves it to others."""
    if backend not in PROGRAMS or min(m, n, k) < LEAST:
        return {}

    def most_tiles(columns: int) -> int:
        return tile.cdiv(tile.cdiv(m, ROWS) * tile.cdiv(n, columns), PROGRAMS[backend])

    widths = [width for width in COLUMNS if width % SINGLE == 0 or most_tiles(width) > 1]
    columns = min(widths, key=lambda width: most_tiles(width) * width * COLUMNS[width])
    config = tiles(ROWS, columns, 64, 8, 4)
    if most_tiles(columns) == 1:
        # One tile of 160 columns: 14.3 us with a producer, 15.0 without (1536 cubed).
        producer = {"warp_specialize": True} if columns == 160 else {}
        return {**config, **producer, "launch_pdl": True}
    return {**config, "persistent": True, "warp_specialize": True}
