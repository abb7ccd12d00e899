"""Uninitialized memory: which elements of arrays of `tile.empty` have been written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from tile.backends.interp.checks.access import ResolvedAccess, Site
from tile.backends.interp.memory import Buffer
from tile.backends.interp.values import Array

if TYPE_CHECKING:
    from tile.backends.interp.checks.launch import CheckedLaunch


def _written(launch: CheckedLaunch, buffer: Buffer | None, site: Site) -> Array | None:
    """Return, for each element of an array in memory order, True if it was written."""
    written = None if buffer is None else launch.uninitialized.get(id(buffer))
    if written is None or buffer is None or site.dtype.itemsize != buffer.array.itemsize:
        return None
    return written


def unwritten_lanes(launch: CheckedLaunch, site: Site, resolved: ResolvedAccess) -> Array | None:
    """Return the elements of an access that were never written; None if all were."""
    if resolved.strided is not None:
        access = resolved.strided
        buffer = launch.memory.buffer_at(access.low) if access.flat.size else None
        written = _written(launch, buffer, site)
        if written is None:
            return None
        written = replace(access, flat=written).read()
        if access.part is not None:
            ones = np.ones((1,) * written.ndim, np.bool_)
            written = access.padded(written, ones, written.dtype, site.shape)
        return None if written.all() else ~written
    unwritten: Array | None = None
    for group in resolved.groups:
        written = _written(launch, group.buffer, site)
        if written is None:
            continue
        lanes = ~written[group.index]
        if group.lanes is not None:
            lanes = lanes & group.lanes
        unwritten = lanes if unwritten is None else unwritten | lanes
    return unwritten if unwritten is not None and unwritten.any() else None


def note_written(launch: CheckedLaunch, site: Site, resolved: ResolvedAccess) -> None:
    """Record that the elements of an access are written."""
    if resolved.strided is not None:
        access = resolved.strided
        buffer = launch.memory.buffer_at(access.low) if access.flat.size else None
        written = _written(launch, buffer, site)
        if written is not None:
            ones = np.ones((1,) * (1 + len(site.shape)), np.bool_)
            replace(access, flat=written).write(ones, False)
        return
    for group in resolved.groups:
        written = _written(launch, group.buffer, site)
        if written is not None:
            index, lanes = np.broadcast_arrays(
                group.index, np.True_ if group.lanes is None else group.lanes
            )
            written[index[lanes]] = True


def written_elements(buffers: Sequence[Buffer]) -> dict[int, Array]:
    """Return, by id of the buffer, the written elements of arrays that track them."""
    unwritten_elements = {}
    for buffer in buffers:
        written_span = getattr(buffer.array, "written_span", None)
        written = None if written_span is None else written_span()
        if written is not None:
            unwritten_elements[id(buffer)] = written
    return unwritten_elements
