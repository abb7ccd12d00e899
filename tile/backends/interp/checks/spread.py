"""How far a fault goes, from what a run knows of it: see `tile/spread.py`."""

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

# How many elements of a cell say which share of it is a view's.
SAMPLED = 256


def spread_in(
    batch: Wave, shape: tuple[int, ...], wrong: Array, addresses: Array | None = None
) -> Spread:
    """The wrong elements of an operation on a tile of this shape, and where they pointed.

    Axes of extent 1 stand for all of the tile's.
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
    """Where addresses fell, in each array that they point to."""
    for buffer, own in batch.launch.memory.by_buffer(addresses):
        landing = Landing(view_of(buffer), inside_of(buffer))
        landing.add((addresses[own] - buffer.origin) // buffer.array.itemsize)
        yield landing


def inside_of(buffer: Buffer) -> Array:
    """Of each cell of an array's picture, the share of its elements that are the view's.

    Of a cell of very many elements some that are drawn at random stand for all.
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
