"""Blocked layouts: registers in a lane, lanes in a warp and warps in a block, each in a grid.

>>> blocked([8, 8], size_per_thread=[1, 2], threads_per_warp=[4, 2], warps_per_block=[2, 1])
#linear{register = [[0,1],[0,4]], lane = [[0,2],[1,0],[2,0]], warp = [[4,0]] -> dim0 = 8, dim1 = 8}
"""

from __future__ import annotations

from collections.abc import Sequence

from tile.simt.layouts.dims import LANE, REGISTER, WARP, axis_name, bit_positions, named, require
from tile.simt.layouts.linear_layout import LinearLayout, identity1d


def blocked(
    shape: Sequence[int],
    size_per_thread: Sequence[int],
    threads_per_warp: Sequence[int],
    warps_per_block: Sequence[int],
    order: Sequence[int] | None = None,
) -> LinearLayout:
    """Return the layout (register, lane, warp) of a tile that is divided into blocks.

    A thread holds `size_per_thread` elements along each axis, a warp is a grid of
    `threads_per_warp` threads, a block of threads a grid of `warps_per_block` warps. In each of the
    three grids the axes are counted in `order`, fastest first; by default the last axis is first. A
    tile larger than that takes more registers for more blocks, and a smaller one is replicated in
    several threads.
    """
    order = row_major(len(shape)) if order is None else order
    check_order(order, len(shape))
    for what, grid in (
        ("size_per_thread", size_per_thread),
        ("threads_per_warp", threads_per_warp),
        ("warps_per_block", warps_per_block),
    ):
        require(
            len(grid) == len(shape),
            f"{what} is {list(grid)}, which is not of the rank of shape {list(shape)}",
        )
        require(
            all(size > 0 and size & (size - 1) == 0 for size in grid),
            f"{what} is made of powers of two, and {list(grid)} is not",
        )
    held = [min(size, extent) for size, extent in zip(size_per_thread, shape, strict=True)]
    thread = grid_of(REGISTER, held, order)
    warp = grid_of(LANE, threads_per_warp, order)
    block = grid_of(WARP, warps_per_block, order)
    return cover(thread * warp * block, shape, order)


def warp_striped(extent: int, lanes: int, warps: int) -> LinearLayout | None:
    """Return the layout of a line of which warps hold contiguous parts, striped across their lanes.

    Elements are in the order of warps, registers, lanes, the first one highest. None if there are
    too few for all threads.

    >>> warp_striped(16, lanes=4, warps=2)
    #linear{register = [[4]], lane = [[1],[2]], warp = [[8]] -> dim0 = 16}
    """
    if extent < lanes * warps:
        return None
    sizes = {LANE: lanes, REGISTER: extent // (lanes * warps), WARP: warps}
    first, second, third = (identity1d(size, name, axis_name(0)) for name, size in sizes.items())
    return (first * second * third).select_ins(REGISTER, LANE, WARP)


def row_major(rank: int) -> tuple[int, ...]:
    """Return the axes from the last to the first: the order in which the last varies fastest."""
    return tuple(range(rank))[::-1]


def check_order(order: Sequence[int], rank: int) -> None:
    """Raise unless `order` is a permutation of all axes."""
    require(
        sorted(order) == list(range(rank)),
        f"an order of {rank} axes has each of {list(range(rank))} once, and {list(order)} does not",
    )


def grid_of(in_dim: str, sizes: Sequence[int], order: Sequence[int]) -> LinearLayout:
    """Return an index that counts through a grid of these sizes, the axis `order[0]` fastest."""
    dims = named(sizes)
    at = bit_positions(dims)
    columns: list[int] = []
    for axis in order:
        name, bits = dims[axis]
        columns += [1 << at[name] + bit for bit in range(bits)]
    return LinearLayout(((in_dim, tuple(columns)),), dims)


def cover(layout: LinearLayout, shape: Sequence[int], order: Sequence[int]) -> LinearLayout:
    """Fit a layout to a tile's shape.

    Where the layout is larger than the tile, it wraps: indices outside of the tile hold copies of
    the elements inside. Where it is smaller, more registers repeat it, first along the axis
    `order[0]`.
    """
    check_order(order, len(shape))
    extents = named(shape)
    held = dict(layout.outs)
    layout = layout.wrap_outs({name: 1 << min(held.get(name, 0), bits) for name, bits in extents})
    for axis in order:
        name, bits = extents[axis]
        layout *= identity1d(1 << max(0, bits - held[name]), REGISTER, name)
    return layout
