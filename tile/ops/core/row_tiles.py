"""Tiles of rows: how many rows a program has, and how many of their columns at a time.

A program with one short row leaves most of its threads idle, so it has several: a tile of ROWS x
BLOCK elements. A longer row is a program's, which goes over blocks of the longest ones; of few long
rows, several programs share each, in two launches.
"""

from __future__ import annotations

from typing import Any

import tile
import tile.language as tl
from tile.ops.core.operand import Rows
from tile.ops.core.tables import ANY, Table

ELEMENTS = 1024  # of a tile of short rows
LONG = 16384  # elements of rows that are shared if they are few
PART = 4096  # elements of a part are a multiple of it
FEWEST_PARTS = 4  # of a row, to be worth a second launch
PROGRAMS = 264  # that short rows are shared by: two for each multiprocessor of an H200
# By the elements of a tile: 16 for each thread of short rows. H200, 2026-11-29.
WARPS = Table(
    {(ANY,): {}},
    {
        "nvptx": {
            (512,): {"num_warps": 1},
            (1024,): {"num_warps": 2},
            (2048,): {"num_warps": 4},
            (ANY,): {"num_warps": 8},
        }
    },
)


@tile.jit
def rows_of(rows, ROWS: tl.constexpr):
    """Return the rows of this program, a column of int64, and which of them exist."""
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)[:, None]
    return row, row < rows


def row_tile(
    backend: str, rows: Rows, longest: int, elements: int = ELEMENTS, warps: Table = WARPS
) -> dict[str, Any]:
    """Return ROWS, BLOCK and the options of a program, whose blocks are not above `longest`.

    elements: of a tile of several rows. warps: by the elements of a tile.
    """
    block = min(longest, tile.next_power_of_2(rows.length))
    enough = tile.next_power_of_2(max(1, rows.count // PROGRAMS))
    count = max(1, min(elements // block, enough))
    return {"ROWS": count, "BLOCK": block, **warps.select(backend, count * block)}


def parts_of(rows: Rows) -> tuple[int, int]:
    """Return how many programs share each of few long rows, and the elements of each."""
    if not rows.count or rows.length <= LONG:
        return 1, rows.length
    span = PART
    wanted = min(2 * PROGRAMS // rows.count, tile.cdiv(rows.length, span))
    if wanted < FEWEST_PARTS:
        return 1, rows.length
    span *= tile.cdiv(rows.length, span * wanted)
    return tile.cdiv(rows.length, span), span
