"""Grids of ops with batches, of which there may be more than the second axis of a grid takes."""

from __future__ import annotations

from tile.runtime.grid import LIMITS


def batched_grid(work: int, batches: int) -> tuple[tuple[int, int], dict[str, int]]:
    """Return a grid of `work` programs for each of some batches, and constants of the kernel.

    Batches are along axis 1, so that programs of one batch run at the same time. More than fit
    there, which have little to do each, are along axis 0, as the kernel's `BATCH_AXIS` says then.

    >>> batched_grid(4, 8)
    ((4, 8), {})
    >>> batched_grid(4, 70_000)
    ((70000, 4), {'BATCH_AXIS': 0})
    """
    if batches <= LIMITS[1]:
        return (work, batches), {}
    return (batches, work), {"BATCH_AXIS": 0}
