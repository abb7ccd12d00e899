"""Slice, expand, permute and reshape the axes of a tile; the elements stay where they are.

    >>> from tile.simt.layouts.blocked import blocked
    >>> rows = blocked([4, 4], [1, 2], [4, 2], [1, 1])
    >>> slice_axis(rows, 1)                        # the layout of sums along the rows
    #linear{register = [[0]], lane = [[0],[1],[2]], warp = [] -> dim0 = 4}
    >>> permute_axes(rows, [1, 0])                 # of the transposed tile
    #linear{register = [[1,0]], lane = [[2,0],[0,1],[0,2]], warp = [] -> dim0 = 4, dim1 = 4}
    >>> vector_width(rows, axis=1, contiguity=16)
    2

`sliced` is the layout of a tile that threads process one slice along an axis after the other:

    >>> sliced(blocked([2, 8], [1, 8], [2, 1], [1, 2]), axis=-1, extent=4)
    #linear{register = [[0,1],[0,2]], lane = [[1,0]], warp = [[0,0],[0,4]] -> dim0 = 2, dim1 = 8}

Linear maps of register numbers are tabulated. A register number is a vector of bits, so the images
of the bits determine the map. The tables are as long as fragments, 1 to 256, and are made by
doubling.

    >>> sums([1, 4, 2])                            # swap bits 1 and 2
    (0, 1, 4, 5, 2, 3, 6, 7)
    >>> inverse((2, 0, 1))                         # the position of each number
    (1, 2, 0)
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache

from tile.simt.layouts.blocked import check_order
from tile.simt.layouts.dims import (
    OFFSET,
    REGISTER,
    WARP,
    axis_name,
    bit_positions,
    log2_of,
    require,
)
from tile.simt.layouts.linear_layout import LinearLayout, identity1d


def slice_axis(parent: LinearLayout, axis: int) -> LinearLayout:
    """Return the layout after a reduction along an axis: holders of a partial sum hold the sum."""
    outs = [name for name in parent.out_dims if name != _axis(parent, axis)]
    return _numbered(parent.select_outs(*outs))


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


def _numbers(layout: LinearLayout, axis: int, extent: int) -> tuple[int, ...]:
    """Return the images of the bits of a slice's number, for slices of `extent` along an axis."""
    name, bits = layout.outs[axis]
    at = bit_positions(layout.outs)[name]
    return tuple([1 << at + bit for bit in range(log2_of(extent, "a piece"), bits)])


@lru_cache(maxsize=1024)
def sliced(layout: LinearLayout, axis: int, extent: int) -> LinearLayout:
    """Return a tile's layout (register, lane, warp) as if each slice had warps of its own.

    An access to the tile in this layout is thus one to each of its slices. Threads hold all slices:
    some registers lead from one to the other, and no others do.
    """
    numbers = _numbers(layout, axis, extent)
    (_, registers), lanes, (_, warps) = layout.ins
    within = tuple([column for column in registers if column not in numbers])
    return LinearLayout(((REGISTER, within), lanes, (WARP, (*warps, *numbers))), layout.outs)


@lru_cache(maxsize=1024)
def unsliced(layout: LinearLayout, axis: int, shape: tuple[int, ...]) -> LinearLayout:
    """Return `sliced` of a tile of this shape, from the layout of one slice of it."""
    whole = layout.wrap_outs(shape)
    numbers = _numbers(whole, axis, layout.shape[axis])
    registers, lanes, (_, warps) = whole.ins
    return LinearLayout((registers, lanes, (WARP, (*warps, *numbers))), whole.outs)


@lru_cache(maxsize=1024)
def stacked_slices(shared: LinearLayout, axis: int, shape: tuple[int, ...]) -> LinearLayout:
    """Return the shared layout of a tile of this shape whose slices follow each other."""
    whole = shared.wrap_outs(shape)
    numbers = _numbers(whole, axis, shared.shape[axis])
    return LinearLayout(((OFFSET, (*whole.images(OFFSET), *numbers)),), whole.outs)


def slice_layout(layout: LinearLayout, axis: int, extent: int) -> LinearLayout:
    """Return a tile's layout with all slices at one position, whichever threads hold them."""
    shape: Sequence[int] = [*layout.shape]
    return layout.wrap_outs([extent if a == axis % len(shape) else n for a, n in enumerate(shape)])


Registers = tuple[int, ...]


def sums(columns: Iterable[int]) -> Registers:
    """Return the images of 0, 1, 2 and so on under the map in which the bits have these images."""
    table = [0]
    for column in columns:
        table += [column ^ other for other in table]
    return tuple(table)


def inverse(registers: Sequence[int]) -> Registers:
    """Return the position of each number in a permutation."""
    positions = [0] * len(registers)
    for position, register in enumerate(registers):
        positions[register] = position
    return tuple(positions)


def axis_mask(layout: LinearLayout, axis: int) -> int:
    """Return the mask of an axis's coordinate in an image; `axis` counts from either end."""
    axis %= len(layout.outs)
    bits = layout.outs[axis][1]
    return (1 << bits) - 1 << bit_positions(layout.outs)[axis_name(axis)]


def along_axis(layout: LinearLayout, name: str, axis: int) -> list[tuple[int, int]]:
    """Return the bits of an input that move along this axis alone: (bit, coordinate it adds)."""
    mask = axis_mask(layout, axis)
    lowest = mask & -mask
    return [
        (bit, column // lowest)
        for bit, column in enumerate(layout.images(name))
        if column and not column & ~mask
    ]


def register_bits(layout: LinearLayout) -> int:
    """Return the number of bits of a layout's register numbers."""
    return layout.in_bits(REGISTER)
