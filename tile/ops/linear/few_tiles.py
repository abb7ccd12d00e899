"""Matmuls whose results have few tiles, of 16-bit operands that TMA can load.

A program of such a matmul runs for a few microseconds, most of which is latency: of the launch, of
memory, of the store. So there is at most one program for each multiprocessor, as large as this
allows; it has most of its operands in flight; and launches are dependent: the next one starts while
the last programs of this one store. Results of up to 32 columns take as long as their left operand
takes to read, however many tiles they have, which is why they are here, too.

A result of up to 32 rows is computed as out.T = b.T @ a.T: tiles of wgmma have 64 rows at least,
which are columns of b then.
"""

from __future__ import annotations

from typing import Any

import tile
from tile.ops.core.new_arrays import DType
from tile.ops.core.tables import ANY, Configuration, Table
from tile.ops.linear.balanced_tiles import balanced_tiles
from tile.ops.linear.configurations import tiles
from tile.ops.linear.filling_tiles import filling_tiles
from tile.ops.linear.shapes import FewTiles, Shape
from tile.ops.linear.wide_tiles import wide_tiles

Strides = tuple[int, int, int]
LINE, SECTOR = 64, 16  # elements: of a line of the L2 cache, and of a sector
ALIGNED = 8  # elements: strides of arrays that TMA loads from are multiples of 16 bytes
EDGE = 64  # of the tiles that are counted
# As many tiles run at once, so that their order does not matter: rows of tiles are not grouped.
AT_ONCE = 132
MOST_SWAPPED = 32  # rows of a result that is computed as its transpose
# Programs that share a tile: adding up the sums of two takes longer than they save.
LEAST_SPLITS = 3


def dependent(m: int, n: int, k: int, warps: int = 4, stages: int = 3) -> dict[str, Any]:
    """Return a configuration whose launches are dependent."""
    return {**tiles(m, n, k, warps, stages), "launch_pdl": True}


# Of a result of 64 columns, as its transpose: each row of a is loaded once, by a program for most
# multiprocessors. 1024 to 4096 rows have 1.13 to 1.55 of cuBLAS (H200, float16, 2026-11-29). By M,
# the number of tiles of 64 x 64, and K.
THIN = Table(
    {(ANY, ANY, ANY): {}},
    {
        "nvptx": {
            (1023, ANY, ANY): {},
            (ANY, 66, 1023): {},
            (1535, 33, 1024): dependent(64, 16, 128, stages=8),
            (1535, ANY, ANY): {},
            (ANY, 33, 2048): dependent(64, 16, 128, stages=8),
            (ANY, 33, 4096): dependent(64, 32, 128, stages=8),
            (ANY, 49, 4096): dependent(64, 24, 128, stages=8),
            (ANY, 66, 4096): dependent(64, 32, 128, stages=8),
            (ANY, ANY, ANY): {},
        }
    },
)
# Of a row-major right operand whose rows are no multiples of 128 bytes, so that they lie in two
# lines of the L2 cache: 2560 x 48 x 2560 takes 7.8 us (8.1 with the tiles of FEW), 4096 x 48 x
# 4096 13.2 (13.5). By N, the number of tiles of 64 x 64, and K.
BETWEEN_LINES = Table(
    {(ANY, ANY, ANY): {}},
    {
        "nvptx": {
            (ANY, ANY, 2047): {},
            (32, ANY, ANY): {},
            (48, 32, ANY): {},
            (48, 44, 4096): dependent(64, 16, 256, stages=5),
            (48, 132, 4096): dependent(64, 48, 128, stages=8),
            (ANY, ANY, ANY): {},
        }
    },
)
# Of results of any number of tiles: where K is short, programs take as long to start and to store
# as to multiply, and several on a multiprocessor overlap.
_SHORT = dependent(128, 128, 64, warps=8)
# By M, N, the number of tiles of 64 x 64, and K; an empty entry leaves a shape to the tables of
# configurations.py. H200, float16, cold L2 cache (docs/notes/ops.md, "Few tiles").
FEW = Table(
    {(ANY, ANY, ANY, ANY): {}},
    {
        "nvptx": {
            (64, 64, ANY, 64): dependent(64, 64, 64, stages=2),
            (64, ANY, ANY, 255): {},
            (ANY, 32, ANY, 255): {},
            (ANY, 64, 264, 255): {},
            (128, 64, ANY, 128): dependent(64, 64, 64, stages=2),
            (ANY, 64, ANY, 128): dependent(128, 64, 64, stages=2),
            (ANY, 64, ANY, 255): {},
            (ANY, ANY, 132, 255): dependent(64, 64, 64),
            (ANY, ANY, 264, 255): dependent(64, 128, 64),
            (ANY, ANY, ANY, 64): dependent(128, 128, 64, stages=2),
            (ANY, 128, ANY, 128): dependent(64, 128, 64, stages=2),
            (ANY, 256, ANY, 128): dependent(64, 128, 64),
            (ANY, ANY, ANY, 255): _SHORT,
            # Tiles of 16 or 32 rows would be more programs, which have no wgmma.
            (ANY, 16, 33, ANY): dependent(64, 16, 256, stages=4),
            (ANY, 16, 132, ANY): dependent(64, 16, 256, stages=5),
            (ANY, 16, ANY, ANY): dependent(128, 16, 64, stages=5),
            (ANY, 32, 132, ANY): dependent(64, 32, 256, stages=4),
            (ANY, 32, ANY, ANY): dependent(64, 32, 128, stages=4),
            (ANY, ANY, 32, 4096): dependent(64, 32, 256, stages=4),
            (ANY, ANY, 64, 1024): dependent(64, 32, 128, stages=4),
            (64, ANY, 132, ANY): dependent(64, 64, 128, stages=6),
            (ANY, 64, 132, ANY): dependent(64, 64, 128, stages=6),
            (64, ANY, ANY, ANY): {},
            (ANY, 64, ANY, ANY): {},
            (2560, ANY, 132, 4096): dependent(64, 64, 128, stages=6),
            # Programs of a cluster load their rows once: 4096 x 128 x 4096.
            (ANY, 128, 132, 4096): {
                **dependent(64, 64, 128, stages=6),
                "GROUP": 1,
                "num_ctas": 2,
                "warp_specialize": True,
            },
            (ANY, ANY, 132, 4096): dependent(64, 64, 128, stages=6),
            (ANY, ANY, 132, ANY): dependent(128, 128, 64, warps=8, stages=6),
            # In three splits: 768 x 768 x 8192 takes 18.9 us, 22.5 without.
            (ANY, ANY, 176, 6143): dependent(64, 128, 64, stages=8),
            (ANY, ANY, 176, ANY): dependent(128, 128, 64, warps=8, stages=6),
            (ANY, ANY, 264, ANY): dependent(64, 128, 64, stages=8),
            (ANY, ANY, 528, ANY): dependent(128, 128, 64, stages=6),
            (ANY, ANY, ANY, 384): _SHORT,
            # 128 x 256 would leave more than a quarter of the multiprocessors idle.
            (ANY, ANY, 792, ANY): {},
            (ANY, 128, 1056, ANY): dependent(128, 128, 64),
            (ANY, ANY, 1056, ANY): dependent(128, 256, 64, warps=8),
            (ANY, ANY, ANY, ANY): {},
        }
    },
)


# Large results of short inner axes: persistent programs load a tile while they store another. 8192
# x 8192 x 128 takes 46.4 us, 57.9 without, 64 times 1024 x 1024 x 128 49.2 and 72.6, but 12544 x
# 256 x 128 6.6 and 4.9 (H200, 2026-11-29). By the negatives of the least of M and N, and of the
# number of tiles of 64 x 64, and by K.
SHORT = Table(
    {(ANY, ANY, ANY): {}},
    {
        "nvptx": {
            (-256, -2048, 384): {
                **tiles(128, 128, 64, warps=8, stages=6),
                "persistent": True,
                "warp_specialize": True,
            },
            (ANY, ANY, ANY): {},
        }
    },
)
# The time for which balanced tiles are chosen, compared with wide ones, and persistent ones: 256 x
# 32000 x 4096 takes 97.8 us with them, 100.6 without.
MORE = (0.95, 1.01)
# By rows and columns, tiles of operands whose rows begin within sectors of the L2 cache: programs
# of a cluster load columns once. 1000 cubed takes 7.9 us, 9.2 without, 2000 x 1000 x 3000 25.3 and
# 31.3 (H200, float16, 2026-11-29).
CLUSTERED = {
    (64, 128): dependent(64, 128, 128, stages=4) | {"num_ctas": 2, "warp_specialize": True},
    (128, 128): dependent(128, 128, 64, 8, 6)
    | {"GROUP": 1, "num_ctas": 2, "warp_specialize": True},
}
LEAST_CLUSTERED = 512  # elements of the inner axis


def few_tiles(
    backend: str, dtype: DType, a: Strides, b: Strides, sizes: tuple[int, int, int, int]
) -> FewTiles | None:
    """Return the configuration of a matmul of few tiles; None for others.

    a, b: strides of a batch, a row and a column, in elements. sizes: batches, M, N and K.
    """
    batches, m, n, k = sizes
    if dtype.itemsize != 2 or n < 2 or not (is_aligned(a) and is_aligned(b)):
        return None
    swapped = m <= MOST_SWAPPED and m < n
    if swapped:
        m, n = n, m
    count = batches * tile.cdiv(m, EDGE) * tile.cdiv(n, EDGE)
    thin = THIN.select(backend, m, count, k) if n == EDGE else {}
    if thin:
        return FewTiles(thin, swapped=True)
    config = BETWEEN_LINES.select(backend, n, count, k) if is_between_lines(b) else {}
    if swapped or config:
        config = config or FEW.select(backend, m, n, count, k)
        return _few(config, count, swapped=swapped)
    shape = Shape(*sizes, a[2] == 1, b[1] == 1, is_within_sectors(a) or is_within_sectors(b))
    filling = filling_tiles(backend, shape)
    if filling:
        return filling
    balanced = balanced_tiles(backend, shape)
    wide = wide_tiles(backend, m, n, k) if batches == 1 else None
    if wide and not (balanced and balanced.cost < wide.cost * MORE[balanced.is_persistent]):
        return FewTiles(wide.config, swapped=wide.swapped)
    if not wide:
        config = SHORT.select(backend, -min(m, n), -count, k) or FEW.select(backend, m, n, count, k)
    if config and shape.within_sectors:
        config = _in_clusters(config, m, n, k)
    if not config and balanced:
        return FewTiles(balanced.config, balanced.swapped)
    return _few(config, count, swapped=False)


def _few(config: Configuration, count: int, *, swapped: bool) -> FewTiles | None:
    """Return a configuration for so many tiles; None if it is empty."""
    if not config:
        return None
    return FewTiles({**config, "GROUP": 1} if count <= AT_ONCE else config, swapped)


def _in_clusters(config: Configuration, m: int, n: int, k: int) -> Configuration:
    """Return a configuration whose programs load columns of operands in pairs, if it has one."""
    edges = config["BLOCK_M"], config["BLOCK_N"]
    count = tile.cdiv(m, edges[0]) * tile.cdiv(n, edges[1])
    return config if k < LEAST_CLUSTERED or count % 2 else CLUSTERED.get(edges, config)


def is_aligned(strides: Strides) -> bool:
    """Return True if TMA can load tiles of matrices of 16-bit elements with these strides."""
    batch, row, column = strides
    contiguous, other = sorted((row, column))
    return contiguous == 1 and batch % ALIGNED == 0 == other % ALIGNED


def is_within_sectors(strides: Strides) -> bool:
    """Return True if rows of 16-bit elements begin within sectors of the L2 cache."""
    _, row, column = strides
    return max(row, column) % SECTOR != 0


def is_between_lines(strides: Strides) -> bool:
    """Return True if rows of 16-bit elements begin within lines of the L2 cache."""
    _, row, column = strides
    return column == 1 and row % LINE != 0
