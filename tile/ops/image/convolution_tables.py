"""The configurations of convolutions by pointers, by pixels, filters and the inner axis."""

from __future__ import annotations

from tile.ops.core.call import F32, F64
from tile.ops.core.new_arrays import DType
from tile.ops.core.tables import ANY, Table
from tile.ops.linear.configurations import PORTABLE, tiles

# Few pixels take small tiles, so that there are as many
# programs as multiprocessors, and a short inner axis takes a short iteration. H200, float16, 3 x 3
# of 64 to 512 channels, forward and backward, 2026-11-23; the first three are not measured.
TABLE = Table(
    PORTABLE,
    {
        "nvptx": {
            (ANY, ANY, 32): tiles(128, 64, 32),
            (ANY, 32, ANY): tiles(128, 32, 64),
            (1024, ANY, ANY): tiles(64, 64, 64, stages=4),
            (ANY, 64, ANY): tiles(128, 64, 64),
            (4096, ANY, ANY): tiles(128, 128, 64, warps=8),
            (8192, ANY, ANY): tiles(64, 128, 64),
            (ANY, 255, ANY): tiles(64, 128, 64),
            (ANY, ANY, ANY): tiles(128, 256, 64, warps=8),
        }
    },
)
# The same for float32 by fused multiply-adds: H200, tasks 2 to 5 of docs/results/paper.md,
# 2026-11-26; the entries for other sizes are not measured.
WIDE = Table(
    PORTABLE,
    {
        "nvptx": {
            (ANY, ANY, 32): tiles(128, 64, 32),
            (ANY, 32, ANY): tiles(128, 32, 64),
            (256, ANY, ANY): tiles(64, 64, 32, stages=2),
            (1024, ANY, ANY): tiles(128, 128, 32, warps=8, stages=2),
            (4096, ANY, ANY): tiles(64, 64, 32, stages=2),
            (ANY, 64, ANY): tiles(128, 64, 64),
            (ANY, 128, ANY): tiles(128, 128, 64, warps=8),
            (ANY, ANY, ANY): tiles(128, 64, 16, warps=8),
        }
    },
)
# By tf32, not measured.
ROUNDED = Table(
    PORTABLE,
    {
        "nvptx": {
            (ANY, ANY, 32): tiles(128, 64, 32),
            (ANY, 32, ANY): tiles(128, 32, 64),
            (1024, ANY, ANY): tiles(64, 64, 64, stages=4),
            (ANY, 64, ANY): tiles(128, 64, 64),
            (ANY, ANY, ANY): tiles(128, 128, 64, warps=8),
        }
    },
)
WIDEST = Table(PORTABLE, {"nvptx": {(ANY, ANY, ANY): tiles(64, 64, 32)}})


def table_of(dtype: DType, precision: str) -> Table:
    """Return the table of configurations for a type of elements."""
    if dtype == F32:
        return WIDE if precision == "ieee" else ROUNDED
    return WIDEST if dtype == F64 else TABLE
