"""Grids of ops: of batches, and of persistent programs."""

from __future__ import annotations

import tile
import tile.language as tl
from tile.runtime.grid import LIMITS

REREAD = 1 << 24  # bytes that batches read at one time, at most, so that an L2 cache holds them
AT_ONCE = 264  # programs that run at one time: two on each of an H200's 132 multiprocessors
MOST = 1024  # batches together


BatchedGrid = tuple[tuple[int, ...], dict[str, int]]


def batched_grid(work: int, batches: int, reread: int | None = None) -> BatchedGrid:
    """Return a grid of `work` programs for each of some batches, and constants of the kernel.

    Batches are along axis 1, so that programs of one batch run at the same time. More than fit
    there, which have little to do each, are along axis 0, as the kernel's `BATCH_AXIS` says then.

    reread: given if programs have less to do the larger their number is; the bytes that all
    programs of a batch read. Then the first programs of several batches run first, and the last
    ones last, so that all multiprocessors end at nearly the same time. These are as many batches as
    an L2 cache holds, and enough that their programs keep all multiprocessors busy, which so many
    batches do in any order. A kernel has to ask `place`.

    >>> batched_grid(4, 8)
    ((4, 8), {})
    >>> batched_grid(4, 70_000)
    ((70000, 4), {'BATCH_AXIS': 0})
    >>> batched_grid(300, 8, reread=1 << 22)
    ((4, 300, 2), {'BATCH_AXIS': 2})
    >>> batched_grid(100, 8, reread=1 << 24)
    ((4, 100, 2), {'BATCH_AXIS': 2})
    """
    if batches > LIMITS[1]:
        return (batches, work), {"BATCH_AXIS": 0}
    if reread is None or work > LIMITS[1]:
        return (work, batches), {}
    counts = [n for n in range(1, min(batches, MOST) + 1) if batches % n == 0]
    fitting = [n for n in counts if n == 1 or n * reread <= REREAD]
    busy = [n for n in counts if n * work >= AT_ONCE]
    together = max(fitting[-1], min(busy, default=counts[-1]))
    return (together, work, batches // together), {"BATCH_AXIS": 2}


def persistent_programs(tiles: int, most: int, cluster: int = 1) -> int:
    """Return the number of programs that share tiles, in whole clusters: at most `most`.

    No more than are needed so that none has more tiles than by `most` programs. Fewer take as long,
    and the power that a device may use goes to these alone: 512 tiles of a matmul (4096 cubed,
    float16) take less time by 128 programs than by the 132 of an H200 (docs/notes/hopper.md).

    >>> persistent_programs(512, 132), persistent_programs(270, 132, cluster=2)
    (128, 90)
    """
    programs = tile.cdiv(tiles, tile.cdiv(tiles, most))
    return tile.cdiv(programs, cluster) * cluster


@tile.jit
def place(BATCH_AXIS: tl.constexpr):
    """Return a program's number, and that of its batch, in a `batched_grid`."""
    if BATCH_AXIS == 2:
        return tl.program_id(1), tl.program_id(2) * tl.num_programs(0) + tl.program_id(0)
    return tl.program_id(1 - BATCH_AXIS), tl.program_id(BATCH_AXIS)
