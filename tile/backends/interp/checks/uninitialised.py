"""Memory that nobody wrote: which elements of arrays of `tile.empty` were."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from tile.backends.interp.checks.access import Reached, Site
from tile.backends.interp.memory import Buffer
from tile.backends.interp.values import Array

if TYPE_CHECKING:
    from tile.backends.interp.checks.launch import CheckedLaunch


def _written(launch: CheckedLaunch, buffer: Buffer | None, site: Site) -> Array | None:
    """For each element of an array, in the order of its bytes, whether it was written."""
    known = None if buffer is None else launch.uninitialised.get(id(buffer))
    if known is None or buffer is None or site.dtype.itemsize != buffer.array.itemsize:
        return None
    return known


def unwritten(launch: CheckedLaunch, site: Site, reached: Reached) -> Array | None:
    """Which elements of an access were never written; None if all were."""
    if reached.strided is not None:
        access = reached.strided
        buffer = launch.memory.buffer_at(access.low) if access.flat.size else None
        known = _written(launch, buffer, site)
        if known is None:
            return None
        written = replace(access, flat=known).read()
        if access.part is not None:
            yes = np.ones((1,) * written.ndim, np.bool_)
            written = access.padded(written, yes, written.dtype, site.shape)
        return None if written.all() else ~written
    found: Array | None = None
    for group in reached.groups:
        known = _written(launch, group.buffer, site)
        if known is None:
            continue
        empty = ~known[group.index]
        if group.lanes is not None:
            empty = empty & group.lanes
        found = empty if found is None else found | empty
    return found if found is not None and found.any() else None


def note_written(launch: CheckedLaunch, site: Site, reached: Reached) -> None:
    """Elements of an access are written now."""
    if reached.strided is not None:
        access = reached.strided
        buffer = launch.memory.buffer_at(access.low) if access.flat.size else None
        known = _written(launch, buffer, site)
        if known is not None:
            yes = np.ones((1,) * (1 + len(site.shape)), np.bool_)
            replace(access, flat=known).write(yes, False)
        return
    for group in reached.groups:
        known = _written(launch, group.buffer, site)
        if known is not None:
            index, lanes = np.broadcast_arrays(
                group.index, np.True_ if group.lanes is None else group.lanes
            )
            known[index[lanes]] = True


def accounts(buffers: Sequence[Buffer]) -> dict[int, Array]:
    """What was written of the arrays that keep account of that, by their buffers."""
    found = {}
    for buffer in buffers:
        account = getattr(buffer.array, "written_span", None)
        known = None if account is None else account()
        if known is not None:
            found[id(buffer)] = known
    return found
