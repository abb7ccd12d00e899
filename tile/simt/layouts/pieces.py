"""Layouts of tiles of which threads hold one piece along an axis after the other.

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
    """What leads to a piece of `extent` along an axis, by the bits of its number."""
    name, bits = layout.outs[axis]
    at = places(layout.outs)[name]
    return tuple([1 << at + bit for bit in range(log2_of(extent, "a piece"), bits)])


@lru_cache(maxsize=1024)
def in_pieces(layout: LinearLayout, axis: int, extent: int) -> LinearLayout:
    """A tile's layout (register, lane, warp) as if each piece had warps of its own.

    So an access to the tile in this layout is one to each of its pieces. Threads hold all pieces:
    some registers lead from one to the other, and no others do.
    """
    numbers = _numbers(layout, axis, extent)
    (_, registers), lanes, (_, warps) = layout.ins
    within = tuple([column for column in registers if column not in numbers])
    return LinearLayout(((REGISTER, within), lanes, (WARP, (*warps, *numbers))), layout.outs)


@lru_cache(maxsize=1024)
def of_pieces(layout: LinearLayout, axis: int, shape: tuple[int, ...]) -> LinearLayout:
    """As `in_pieces`, of a tile of this shape, from the layout of one piece of it."""
    whole = layout.wrap_outs(shape)
    numbers = _numbers(whole, axis, layout.shape[axis])
    registers, lanes, (_, warps) = whole.ins
    return LinearLayout((registers, lanes, (WARP, (*warps, *numbers))), whole.outs)


@lru_cache(maxsize=1024)
def stacked(shared: LinearLayout, axis: int, shape: tuple[int, ...]) -> LinearLayout:
    """The shared layout of a tile of this shape, each piece laid out so, one behind the other."""
    whole = shared.wrap_outs(shape)
    numbers = _numbers(whole, axis, shared.shape[axis])
    return LinearLayout(((OFFSET, (*whole.images(OFFSET), *numbers)),), whole.outs)


def divided(layout: LinearLayout, axis: int, extent: int) -> LinearLayout:
    """A tile's layout with all pieces in one place, those of one thread and of several."""
    shape: Sequence[int] = [*layout.shape]
    return layout.wrap_outs([extent if a == axis % len(shape) else n for a, n in enumerate(shape)])
