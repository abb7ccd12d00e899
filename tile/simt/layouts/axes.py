"""Slice, expand, permute and reshape the axes of a tile; the elements stay where they are.

>>> from tile.simt.layouts.blocked import blocked
>>> rows = blocked([4, 4], [1, 2], [4, 2], [1, 1])
>>> slice_axis(rows, 1)                        # the layout of sums along the rows
#linear{register = [[0]], lane = [[0],[1],[2]], warp = [] -> dim0 = 4}
>>> permute_axes(rows, [1, 0])                 # of the transposed tile
#linear{register = [[1,0]], lane = [[2,0],[0,1],[0,2]], warp = [] -> dim0 = 4, dim1 = 4}
>>> vector_width(rows, axis=1, contiguity=16)
2
"""

from __future__ import annotations

from collections.abc import Sequence

from tile.simt.layouts.blocked import check_order
from tile.simt.layouts.dims import REGISTER, axis_name, log2_of, require
from tile.simt.layouts.layout import LinearLayout, identity1d


def slice_axis(parent: LinearLayout, axis: int) -> LinearLayout:
    """Return the layout after a reduction along an axis: holders of a partial sum hold the sum."""
    kept = [name for name in parent.out_dims if name != _axis(parent, axis)]
    return _numbered(parent.select_outs(*kept))


def expand_axis(layout: LinearLayout, axis: int) -> LinearLayout:
    """Return the layout with a new axis of extent 1, the axis number `axis` of the result."""
    require(0 <= axis <= len(layout.outs), f"axis {axis} is not within {list(layout.shape)}")
    outs = list(layout.outs)
    outs.insert(axis, ("new", 0))
    return _numbered(LinearLayout(layout.ins, tuple(outs)))


def permute_axes(layout: LinearLayout, order: Sequence[int]) -> LinearLayout:
    """Return the layout of the tile whose axis i is axis `order[i]` of this one."""
    check_order(order, len(layout.outs))
    return _numbered(layout.transpose_outs(*[_axis(layout, axis) for axis in order]))


def reshape_axes(layout: LinearLayout, shape: Sequence[int]) -> LinearLayout:
    """Return the layout of the tile with its elements, in order, in another shape."""
    return layout.reshape_outs(shape)


def vector_width(layout: LinearLayout, axis: int, contiguity: int) -> int:
    """Return how many consecutive registers hold contiguous elements along an axis, aligned.

    `contiguity` is the number of elements contiguous in memory, from each aligned one on. The
    result is the widest run of registers along the axis, up to that, by which the layout can be
    divided: the division fails if another register, a lane or a warp moves by less than the run.
    """
    name = _axis(layout, axis)
    most = min(layout.in_size(REGISTER), layout.out_size(name))
    width = min(1 << log2_of(contiguity, "a contiguity"), most)
    while layout.divide_left(identity1d(width, REGISTER, name)) is None:
        width //= 2
    return width


def _axis(layout: LinearLayout, axis: int) -> str:
    require(0 <= axis < len(layout.outs), f"axis {axis} is not within {list(layout.shape)}")
    return layout.out_dims[axis]


def _numbered(layout: LinearLayout) -> LinearLayout:
    """Name the outputs by their positions."""
    outs = tuple((axis_name(axis), bits) for axis, (_, bits) in enumerate(layout.outs))
    return LinearLayout(layout.ins, outs)
