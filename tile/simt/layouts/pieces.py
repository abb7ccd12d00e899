"""Layouts of tiles that threads process one slice along an axis after the other.

>>> from tile.simt.layouts.blocked import blocked
>>> in_pieces(blocked([2, 8], [1, 8], [2, 1], [1, 2]), axis=-1, extent=4)
#linear{register = [[0,1],[0,2]], lane = [[1,0]], warp = [[0,0],[0,4]] -> dim0 = 2, dim1 = 8}
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from tile.simt.layouts.dims import OFFSET, REGISTER, WARP, log2_of, places
from tile.simt.layouts.layout import LinearLayout


def _numbers(layout: LinearLayout, axis: int, extent: int) -> tuple[int, ...]:
    """Return the images of the bits of a slice's number, for slices of `extent` along an axis."""
    name, bits = layout.outs[axis]
    at = places(layout.outs)[name]
    return tuple([1 << at + bit for bit in range(log2_of(extent, "a piece"), bits)])


@lru_cache(maxsize=1024)
def in_pieces(layout: LinearLayout, axis: int, extent: int) -> LinearLayout:
    """Return a tile's layout (register, lane, warp) as if each slice had warps of its own.

    An access to the tile in this layout is thus one to each of its slices. Threads hold all slices:
    some registers lead from one to the other, and no others do.
    """
    numbers = _numbers(layout, axis, extent)
    (_, registers), lanes, (_, warps) = layout.ins
    within = tuple([column for column in registers if column not in numbers])
    return LinearLayout(((REGISTER, within), lanes, (WARP, (*warps, *numbers))), layout.outs)


@lru_cache(maxsize=1024)
def of_pieces(layout: LinearLayout, axis: int, shape: tuple[int, ...]) -> LinearLayout:
    """Return `in_pieces` of a tile of this shape, from the layout of one slice of it."""
    whole = layout.wrap_outs(shape)
    numbers = _numbers(whole, axis, layout.shape[axis])
    registers, lanes, (_, warps) = whole.ins
    return LinearLayout((registers, lanes, (WARP, (*warps, *numbers))), whole.outs)


@lru_cache(maxsize=1024)
def stacked(shared: LinearLayout, axis: int, shape: tuple[int, ...]) -> LinearLayout:
    """Return the shared layout of a tile of this shape whose slices follow each other."""
    whole = shared.wrap_outs(shape)
    numbers = _numbers(whole, axis, shared.shape[axis])
    return LinearLayout(((OFFSET, (*whole.images(OFFSET), *numbers)),), whole.outs)


def divided(layout: LinearLayout, axis: int, extent: int) -> LinearLayout:
    """Return a tile's layout with all slices at one position, whichever threads hold them."""
    shape: Sequence[int] = [*layout.shape]
    return layout.wrap_outs([extent if a == axis % len(shape) else n for a, n in enumerate(shape)])
