"""Operands of mma instructions that warps load to where they multiply them.

A lane that loads 16 contiguous bytes of a row would need bytes of other lanes, as mma numbers the
inner axis; but the order of the inner axis is free. So both operands are reshaped to one in which
the elements of a lane stay there, and so do the rows of a warp, which loads eight at a time.
"""

from __future__ import annotations

import tile
import tile.language as tl

VECTOR = tl.constexpr(8)  # 16-bit elements of a load


@tile.jit
def warp_rows(x, WARPS: tl.constexpr):
    """Return the number of the warp that loads each of some rows, and that of the row within it."""
    return x // 8 % WARPS, x // (8 * WARPS) * 8 + x % 8


@tile.jit
def by_warps(x, WARPS: tl.constexpr):
    """Return the rows that each warp loads, in the order of `warp_rows`."""
    rows: tl.constexpr = x.shape[0] // WARPS
    x = x.reshape(rows // 8, WARPS, 8, x.shape[1]).permute(1, 0, 2, 3)
    return x.reshape(WARPS, rows, x.shape[3])


@tile.jit
def fragments(x, WARPS: tl.constexpr):
    """Return the rows of warps, their elements in the order in which mma numbers those of lanes."""
    x = by_warps(x, WARPS)
    lanes = x.reshape(x.shape[0], x.shape[1], 4, x.shape[2] // 8, 2)
    return lanes.permute(0, 1, 3, 2, 4).reshape(x.shape)


@tile.jit
def load_lanes(pointers, mask, LENGTH: tl.constexpr, CACHE: tl.constexpr):
    """Return tiles of rows of LENGTH elements, of each of which a lane has a fourth.

    pointers: to the first element of each row. mask: of elements that exist, None for all.
    """
    OWN: tl.constexpr = LENGTH // 4
    OTHER: tl.constexpr = None if mask is None else 0.0
    if OWN <= VECTOR:
        at = tl.arange(0, LENGTH)[None, :]
        return (tl.load(pointers + at, mask=mask, other=OTHER, cache_modifier=CACHE),)
    tl.static_assert(OWN == 2 * VECTOR)
    at = tl.arange(0, LENGTH // 2)[None, :]
    at = at // VECTOR * OWN + at % VECTOR
    x = tl.load(pointers + at, mask=mask, other=OTHER, cache_modifier=CACHE)
    y = tl.load(pointers + (at + VECTOR), mask=mask, other=OTHER, cache_modifier=CACHE)
    return x, y


@tile.jit
def joined(tiles, WARPS: tl.constexpr):
    """Return `fragments` of the rows that `load_lanes` has loaded."""
    x = tiles[0]
    if len(tiles) == 2:
        rows: tl.constexpr = x.shape[0]
        x = tl.join(*tiles).reshape(rows, 4, VECTOR, 2).permute(0, 1, 3, 2)
        x = x.reshape(rows, 8 * VECTOR)
    return fragments(x, WARPS)
