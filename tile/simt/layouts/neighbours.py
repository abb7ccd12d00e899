"""Shared layouts for targets whose lanes are SIMD lanes of a CPU.

There are no banks. One vector instruction serves as many lanes as its SIMD width if adjacent lanes
access contiguous elements, or all lanes access one element; else every lane is served by itself. So
the lowest bits of an offset are the lane bits of the access that takes the most instructions:

    >>> from tile.simt.layouts.blocked import blocked
    >>> rows = blocked([32, 32], [1, 1], [1, 32], [4, 1])
    >>> columns = blocked([32, 32], [1, 1], [32, 1], [1, 2])
    >>> neighbouring(rows, (rows,), 16).bases("offset")[:5]
    ((0, 1), (0, 2), (0, 4), (0, 8), (0, 16))
    >>> neighbouring(rows, (columns,), 16).bases("offset")[:5]      # which has more registers
    ((1, 0), (2, 0), (4, 0), (8, 0), (0, 1))
"""

from __future__ import annotations

from collections.abc import Sequence

from tile.simt.layouts import f2
from tile.simt.layouts.dims import LANE, OFFSET, REGISTER, WARP, bits_of, log2_of
from tile.simt.layouts.layout import LinearLayout


def neighbouring(store: LinearLayout, loads: Sequence[LinearLayout], abreast: int) -> LinearLayout:
    """Return the layout to which a tile is stored, and from which it is loaded.

    All are of (register, lane, warp). Lanes with zero bases access one element in any layout.
    """
    bits = log2_of(abreast, "the lanes abreast")
    sides = [store, *(load.transpose_outs(*store.out_dims) for load in loads)]
    sides.sort(key=lambda side: f2.rank(side.images(REGISTER)), reverse=True)
    walked = [column for side in sides for column in side.images(LANE)[:bits]]
    rest = [column for name in (LANE, WARP, REGISTER) for column in store.images(name)]
    offsets = f2.extend([], [*walked, *rest, *f2.units(bits_of(store.outs))])
    return LinearLayout(((OFFSET, tuple(offsets)),), store.outs)
