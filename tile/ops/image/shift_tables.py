"""The configurations of shift convolution, by pixels, filters and channels."""

from __future__ import annotations

from typing import Any

from tile.ops.core.call import Call, Operand
from tile.ops.core.tables import ANY, Configuration, Table
from tile.ops.linear.configurations import PORTABLE, dependent, tiles, tiles_of

VECTOR = 4  # channels of a run that are loaded at once
# For 16-bit types. REST: pixels of a tile besides BLOCK_M. CACHE: of copies of vectors; parts of a
# sector have other shifts, so that it is read again. SPREAD: the next launch begins after the loop,
# when multiprocessors are equally full. EARLY: pixels and filters are fetched while the launch
# before ends. H200, float16: runs of 8 channels of figure 11 (docs/notes/ops.md, 2026-11-29), and
# single ones of 16 images of 56 x 56 x 256 and 256 filters (2026-11-26); the entries for fewer
# filters are not measured. Launches are dependent: most of these few microseconds is latency.
RUNS = Table(
    PORTABLE,
    {
        "nvptx": {
            (ANY, 64, ANY): tiles(64, 64, 64, stages=4),
            (1024, ANY, ANY): dependent(64, 64, 128),
            (4096, ANY, ANY): dependent(64, 256, 64),
            (ANY, 128, 64): {
                **dependent(128, 128, 64, stages=2),
                "STORED": True,
                "CACHE": ".ca",
                "SPREAD": True,
            },
            (ANY, 128, ANY): {**dependent(64, 128, 64, stages=2), "STORED": True},
            (16384, ANY, 128): {
                **dependent(64, 128, 64),
                "STORED": True,
                "CACHE": ".ca",
                "SPREAD": True,
                "EARLY": True,
                "max_programs": 3,  # 392 programs of task 2
            },
            (16384, ANY, ANY): dependent(64, 128, 64),
            (ANY, ANY, ANY): tiles(64, 256, 64, stages=2),
        }
    },
)
FEW_PIXELS = {"SWAPPED": True, "EARLY": True}  # of a tile, and few programs
# The same where TMA loads the filters; more pixels are faster without. H200, float16, runs of 8
# channels of tasks 2 to 5 (docs/notes/ops.md, 2026-11-29).
DESCRIBED = Table(
    {(ANY, ANY, ANY): {}},
    {
        "nvptx": {
            (256, ANY, ANY): {**dependent(16, 64, 128, stages=5), **FEW_PIXELS},
            (1024, 64, ANY): {**dependent(16, 64, 128, stages=5), **FEW_PIXELS},
            (1024, ANY, ANY): {**dependent(32, 128, 128, stages=5), **FEW_PIXELS},
            (4096, 128, ANY): {},
            (4096, ANY, 256): {**dependent(64, 128, 64, stages=5), "REST": 32, **FEW_PIXELS},
            (4096, ANY, ANY): dependent(64, 256, 64, stages=5),
            (16384, 128, ANY): {},
            (16384, ANY, 128): {},
            (16384, ANY, ANY): dependent(64, 128, 64),
            (ANY, ANY, ANY): {},
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
    call: Call,
    weights: Operand,
    result: Operand,
    sizes: tuple[int, int, int],
    run: int,
    precision: str,
) -> dict[str, Any]:
    """Return the configuration for pixels, filters and channels with shifts in groups of `run`.

    weights: the filters; TMA loads them if the configuration has DESCRIBED, and stores the result
    if it has STORED.
    """
    backend, dtype = call.backend, weights.dtype
    config = tiles_of(backend, dtype, *sizes, precision)
    described: Configuration = {}
    if dtype.itemsize == 2 and run >= VECTOR:
        config, described = RUNS.select(backend, *sizes), DESCRIBED.select(backend, *sizes)
    elif dtype.itemsize == 2:
        config = SINGLE.select(backend, *sizes)
    is_described = bool(described) and call.describes(weights)
    defaults = {"SWAPPED": False, "STORED": False, "CACHE": "", "REST": 0}
    defaults |= {"SPREAD": False, "EARLY": False}
    config = {**defaults, **(described if is_described else config)}
    config |= {"DESCRIBED": is_described}
    if not call.describes(result):  # no TMA, or not of such rows
        config |= {"STORED": False, "SPREAD": False}
    return {name: value for name, value in config.items() if name != "GROUP"}
