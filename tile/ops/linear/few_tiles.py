"""Matmuls whose results have few tiles, of 16-bit operands that TMA can load.

A program of such a matmul runs for a few microseconds, most of which is latency: of the launch, of
memory, of the store. So there is at most one program for each multiprocessor, as large as this
allows; it has most of its operands in flight; and launches are dependent: the next one starts while
the last programs of this one store. Results of up to 32 columns take as long as their left operand
takes to read, however many tiles they have, which is why they are here, too.

A result of up to 32 rows is computed as out.T = b.T @ a.T: tiles of wgmma have 64 rows at least,
which are columns of b then. Its time is that of reading b, and two multiprocessors share a path to
memory: if some pairs have two tiles and others one, the inner axis is split so that shares are more
even.
"""

from __future__ import annotations

import tile
from tile.ops.core.new_arrays import DType
from tile.ops.core.tables import Configuration
from tile.ops.linear.alignment import Strides, is_aligned, is_between_lines, is_within_sectors
from tile.ops.linear.balanced_tiles import balanced_tiles
from tile.ops.linear.estimated_tiles import estimated_tiles
from tile.ops.linear.few_tiles_tables import BETWEEN_LINES, CLUSTERED, FEW, SHORT, THIN
from tile.ops.linear.filling_tiles import filling_tiles, low_tiles
from tile.ops.linear.shapes import FewTiles, Shape
from tile.ops.linear.transposed_tiles import transposed_tiles

EDGE = 64  # of the tiles that are counted
# As many tiles run at once, so that their order does not matter: rows of tiles are not grouped.
AT_ONCE = 132
MOST_SWAPPED = 32  # rows of a result that is computed as its transpose
# Programs that share a tile: adding up the sums of two takes longer than they save.
LEAST_SPLITS = 3


# Of results that are computed as their transpose: fitted to the times of 55 shapes without splits
# and with two and three, of which this choice takes 1.002 times the least (docs/notes/ops.md, "Few
# rows"; H200, bfloat16, 2026-11-30).
PAIRS = AT_ONCE // 2
PAIR_RATE, DEVICE_RATE = 75e3, 4.6e6  # bytes a microsecond
ADDING = 3.5  # microseconds, of a second kernel
MOST_SHARED = 3  # programs of a tile


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
        splits = _splits(count, k * dtype.itemsize) if config and swapped else 1
        return _few(config if splits == 1 else {**config, "splits": splits}, count, swapped=swapped)
    shape = Shape(*sizes, a[2] == 1, b[1] == 1, is_within_sectors(a) or is_within_sectors(b))
    by_rows = estimated_tiles(backend, shape) or low_tiles(backend, shape)
    others = by_rows or transposed_tiles(backend, shape) or filling_tiles(backend, shape)
    if others:
        return others
    config = SHORT.select(backend, -min(m, n), -count, k) or FEW.select(backend, m, n, count, k)
    if config and shape.within_sectors:
        config = _in_clusters(config, m, n, k)
    return _few(config, count, swapped=False) or balanced_tiles(backend, shape)


def _few(config: Configuration, count: int, *, swapped: bool) -> FewTiles | None:
    """Return a configuration for so many tiles; None if it is empty."""
    if not config:
        return None
    return FewTiles({**config, "GROUP": 1} if count <= AT_ONCE else config, swapped)


def _splits(count: int, inner: int) -> int:
    """Return how many programs share each of so many tiles whose rows have `inner` bytes."""
    if not PAIRS < count <= AT_ONCE:
        return 1

    def time(splits: int) -> float:
        largest = tile.cdiv(count * splits, PAIRS) / splits
        reading = EDGE * inner * max(largest / PAIR_RATE, count / DEVICE_RATE)
        return reading + ADDING * (splits > 1)

    return min(range(1, MOST_SHARED + 1), key=time)


def _in_clusters(config: Configuration, m: int, n: int, k: int) -> Configuration:
    """Return a configuration whose programs load columns of operands in pairs, if it has one."""
    edges = config["BLOCK_M"], config["BLOCK_N"]
    count = tile.cdiv(m, edges[0]) * tile.cdiv(n, edges[1])
    return config if k < LEAST_CLUSTERED or count % 2 else CLUSTERED.get(edges, config)
