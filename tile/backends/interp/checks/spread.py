"""The extent of a fault: the elements, programs and array cells it covers; see `tile/spread.py`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from tile.backends.interp.memory import Buffer
from tile.backends.interp.report import view_of
from tile.backends.interp.values import Array
from tile.spread import MARGIN, Landing, Spread, spread_of

if TYPE_CHECKING:
    from tile.backends.interp.wave import Wave

# Elements sampled per cell to estimate which share of it belongs to a view.
SAMPLED = 256


def spread_in(
    batch: Wave, shape: tuple[int, ...], wrong: Array, addresses: Array | None = None
) -> Spread:
    """Return the extent of the wrong elements of an operation on a tile, and of their addresses.

    An axis of extent 1 stands for all elements along it.
    """
    if wrong.ndim == 1 + len(shape):
        wrong = np.broadcast_to(wrong, (len(wrong), *shape))
    landings: tuple[Landing, ...] = ()
    if addresses is not None:
        extents = np.broadcast_shapes(wrong.shape, addresses.shape)
        wrong = np.broadcast_to(wrong, extents)
        landings = tuple(landed(batch, np.broadcast_to(addresses, extents)[wrong]))
    launch = batch.launch
    return spread_of(wrong, launch.programs_of(batch.rows), launch.grid, landings)


def landed(batch: Wave, addresses: Array) -> Iterator[Landing]:
    """Yield, for each array that addresses point to, the cells that they fall into."""
    for buffer, own in batch.launch.memory.by_buffer(addresses):
        landing = Landing(view_of(buffer), inside_of(buffer))
        landing.add((addresses[own] - buffer.origin) // buffer.array.itemsize)
        yield landing


def inside_of(buffer: Buffer) -> Array:
    """Return, for each cell of an array's grid, the share of its elements that are in the view.

    In cells of very many elements the share is estimated from a random sample.
    """
    view = view_of(buffer)
    raster = view.raster(MARGIN)
    if buffer.gaps is None:
        return raster.covered(0, view.high - view.low).astype(np.float64)
    points = raster.sampled(SAMPLED)
    points = points[(points >= 0) & (points < view.high - view.low)]
    cells = raster.cell(points)
    size = raster.cells[0] * raster.cells[1]
    itemsize = buffer.array.itemsize
    weights = buffer.gaps.contain(points * itemsize, itemsize)
    held = np.bincount(cells, weights=weights, minlength=size)
    share = held / np.maximum(1, np.bincount(cells, minlength=size))
    return share.reshape(raster.cells)
