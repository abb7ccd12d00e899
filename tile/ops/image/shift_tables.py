"""The configurations of shift convolution, by pixels, filters and channels."""

from __future__ import annotations

from typing import Any

from tile.ops.core.call import Call
from tile.ops.core.new_arrays import DType
from tile.ops.core.tables import ANY, Table
from tile.ops.linear.configurations import PORTABLE, tiles, tiles_of
from tile.ops.linear.few_tiles import dependent

VECTOR = 4  # channels of a run that are loaded at once
# For 16-bit types. H200, float16: runs of 8 channels of figure 11 (docs/results/paper.md,
# 2026-11-29), and single ones of 16 images of 56 x 56 x 256 and 256 filters (2026-11-26); the
# entries for fewer filters are not measured. Launches are dependent: most of these few microseconds
# is latency.
RUNS = Table(
    PORTABLE,
    {
        "nvptx": {
            (ANY, 64, ANY): tiles(64, 64, 64, stages=4),
            (1024, ANY, ANY): dependent(64, 64, 128),
            (4096, ANY, ANY): dependent(64, 256, 64),
            (ANY, 128, ANY): dependent(64, 128, 64, stages=2),
            (16384, ANY, ANY): dependent(64, 128, 64),
            (ANY, ANY, ANY): tiles(64, 256, 64, stages=2),
        }
    },
)
# Channels with shifts of their own are loaded one by one, so that few programs should load the same
# ones: tiles have all filters.
SINGLE = Table(
    PORTABLE,
    {
        "nvptx": {
            (ANY, 64, ANY): tiles(64, 64, 32),
            (ANY, 128, ANY): tiles(64, 128, 32, warps=8),
            (ANY, ANY, ANY): tiles(128, 256, 32, warps=8),
        }
    },
)


def configuration(
    call: Call, dtype: DType, sizes: tuple[int, int, int], run: int, precision: str
) -> dict[str, Any]:
    """Return the configuration for pixels, filters and channels with shifts in groups of `run`."""
    config = tiles_of(call.backend, dtype, *sizes, precision)
    if dtype.itemsize == 2:
        config = (RUNS if run >= VECTOR else SINGLE).select(call.backend, *sizes)
    return {name: value for name, value in config.items() if name != "GROUP"}
