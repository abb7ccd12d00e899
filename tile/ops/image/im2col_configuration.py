"""Tiles of convolutions through im2col descriptors, where these can hold the windows."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import tile
from tile.ops.core.call import F32
from tile.ops.core.tables import ANY, Configuration, Table
from tile.ops.image.convolution_matmul import Convolution
from tile.ops.image.im2col_windows import fits_descriptor
from tile.ops.image.pixels import order_of
from tile.ops.linear.configurations import PORTABLE, dependent, tiles

LEAST_CHANNELS = 32  # of an iteration
# Persistent programs, alone on a multiprocessor, by backend: as many as an H200 has.
PROGRAMS = {"nvptx": 132}
MOST_COLUMNS = 192  # filters of their tiles
LEAST_FILTERS = 16  # of a tile, where groups have some


def rows(m: int, n: int, k: int, warps: int = 4, stages: int = 3) -> dict[str, Any]:
    """Return a configuration whose programs of one tile of pixels are adjacent.

    To group them otherwise takes a division more. Launches are dependent.
    """
    return {**dependent(m, n, k, warps, stages), "GROUP": 1}


# By pixels, filters and the inner axis: H200, tasks 1 to 5 and 7 of docs/results/paper.md,
# 2026-11-26, in rows since 2026-11-29 (docs/notes/ops.md), 64 images of 56 x 56 x 64, and 512 x 512
# x 128; by tf32, the entry for 64 filters is not measured.
HALF = Table(
    PORTABLE,
    {
        "nvptx": {
            (ANY, 32, ANY): tiles(256, 32, 32, stages=4),
            (256, ANY, ANY): rows(64, 64, 128, stages=4),
            (1024, ANY, ANY): rows(64, 128, 64, stages=5),
            (4096, ANY, ANY): rows(128, 128, 64, stages=4),
            (ANY, 64, ANY): rows(128, 64, 64, warps=8),
            (65536, 128, ANY): rows(128, 128, 64, stages=4),
            (ANY, ANY, ANY): rows(128, 128, 64),
        }
    },
)
# Iterations of LEAST_CHANNELS: 32 images of 112 x 112 x 64 pixels of the result.
NARROW = Table(
    {(ANY, ANY, ANY): {}},
    {
        "nvptx": {
            (65536, ANY, ANY): {},
            (ANY, 32, ANY): {},
            (ANY, 64, ANY): rows(256, 64, 32, warps=8, stages=4),
            (ANY, ANY, ANY): {},
        }
    },
)
ROUNDED = Table(
    PORTABLE,
    {
        "nvptx": {
            (ANY, 32, ANY): tiles(256, 32, 32),
            (256, ANY, ANY): tiles(64, 128, 32, stages=4),
            (1024, ANY, ANY): tiles(128, 128, 32, stages=4),
            (ANY, 64, ANY): tiles(128, 64, 32, stages=4),
            (4096, ANY, ANY): tiles(128, 128, 32, warps=8, stages=4),
            (ANY, 128, ANY): tiles(128, 128, 32, warps=8, stages=4),
            (ANY, ANY, ANY): tiles(128, 256, 32, warps=8),
        }
    },
)


def stores_rows(conv: Convolution) -> bool:
    """Return True if TMA can store blocks of the result as those of a matrix."""
    out = conv.out
    dense = out.strides[3] == 1 and order_of(out) == "images" and not out.start
    return dense and conv.call.describes(out.operand)


def _persistent(conv: Convolution) -> Configuration:
    """Return the configuration of persistent programs; {} if one tile a program is as fast.

    Of less than 7/4 tiles for each, fewer end together than of two programs on a multiprocessor. If
    others would compute filters that there are not, 2/3 are enough. H200, float16, 38 shapes of
    3 x 3, 2026-11-30 (docs/notes/ops.md).
    """
    pixels, count, _ = conv.sizes
    programs = PROGRAMS.get(conv.call.backend, 0)
    config = persistent_tiles(count)
    tiles = tile.cdiv(pixels, config["BLOCK_M"]) * tile.cdiv(count, config["BLOCK_N"])
    least = programs * (7 / 4 if count <= 64 or count % 128 == 0 else 2 / 3)
    if not programs or tiles <= least or conv.filters.shape[3] % config["BLOCK_K"]:
        return {}
    return {**config, "PERSISTENT": programs}


def persistent_tiles(count: int) -> dict[str, Any]:
    """Return tiles of all filters, or of equal parts, and as many stages as fit."""
    columns = 128
    if count % 128 or count % MOST_COLUMNS == 0:
        columns = -(-tile.cdiv(count, tile.cdiv(count, MOST_COLUMNS)) // 16) * 16
    stages = 8 if columns <= 64 else 6 if columns < 128 else 5 if columns == 128 else 4
    return rows(128, columns, 64, warps=8, stages=stages)


def im2col_configuration(conv: Convolution, phases: int = 1) -> Configuration | None:
    """Return a configuration for pixels and filters that TMA copies; None if it cannot.

    The windows go to the right and below (`ahead`). phases: convolutions as this in one launch.
    """
    image, filters = conv.x, conv.filters
    half, rounded = conv.dtype.itemsize == 2, conv.precision == "tf32"
    table = HALF if half else ROUNDED if conv.dtype == F32 and rounded else None
    _, r, s, channels = filters.shape
    contiguous = filters.strides[3] == 1 or (filters.strides[0] == 1 and half)
    if table is None or image.strides[3] != 1 or not contiguous or image.start or not r * s:
        return None
    pixels, *others = conv.sizes
    config = table.select(conv.call.backend, phases * pixels, *others)
    if half and phases == conv.groups == 1 and stores_rows(conv):
        config = _persistent(conv) or config
    if channels % config["BLOCK_K"]:
        narrow = NARROW.select(conv.call.backend, phases * pixels, *others) if half else {}
        config = narrow or {**config, "BLOCK_K": min(config["BLOCK_K"], LEAST_CHANNELS)}
    if conv.groups > 1:
        config = {**config, "BLOCK_N": math.gcd(filters.shape[0], config["BLOCK_N"]), "GROUP": 1}
    fits = (
        channels % config["BLOCK_K"] == 0
        and fits_descriptor(replace(conv.windows, count=(r, s)), image, conv.out)
        and (conv.groups == 1 or conv.filter_step == filters.shape[0] * filters.strides[0])
        and config["BLOCK_N"] >= LEAST_FILTERS
        and conv.call.describes(image.operand, filters.operand)
    )
    return config if fits else None
