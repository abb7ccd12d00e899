"""Shape operations, which move elements and compute nothing."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

from tile.ir import semantics
from tile.ir.declare import op
from tile.ir.extents import is_power_of_two, refuse_extent, unpadded_extent
from tile.ir.types import ALL, I32, Tile, Type, require, with_shape


def _tile(name: str, x: Type) -> None:
    require(isinstance(x, Tile), f"{name} takes a tile, not {x}")


def along(name: str, x: Type, axis: int) -> None:
    """Check that `axis` is an axis of the tile."""
    _tile(name, x)
    require(
        -x.rank <= axis < 0,
        f"axis {axis} is outside a tile of rank {x.rank}; axes are counted from the right",
    )


def without(x: Type, axis: int) -> tuple[int, ...]:
    """Return the shape of a tile without one axis."""
    shape = list(x.shape)
    del shape[axis]
    return tuple(shape)


@op(
    any_extents=True,
    semantics=semantics.arange,
    unit_axes_broadcast=True,
    examples=("%r = arange {start = 0, end = 8} : tile<8xi32>",),
)
def arange(*, start: int, end: int) -> Type:
    """The integers in [`start`, `end`)."""
    require(start < end, f"arange counts up: its end, {end}, is not above its start, {start}")
    require(
        I32.min_value <= start and end - 1 <= I32.max_value,
        f"arange({start}, {end}) does not fit i32",
    )
    return Tile((end - start,), I32)


def _splat(x: Any, *, shape: tuple[int, ...]) -> Any:
    return x.reshape(x.shape[:1] + (1,) * len(shape))


@op(
    any_extents=True,
    semantics=_splat,
    unit_axes_broadcast=True,
    examples=("%x: f32 | %r = splat %x {shape = (4, 8)} : tile<4x8xf32>",),
)
def splat(x: Type, *, shape: tuple[int, ...]) -> Type:
    """A tile with the scalar `x` in every element."""
    require(not isinstance(x, Tile), f"splat takes a scalar, not {x}")
    return Tile(shape, x.element)


@op(
    any_extents=True,
    semantics=lambda x, *, shape: x,
    unit_axes_broadcast=True,
    examples=("%x: tile<4x1xf32> | %r = broadcast %x {shape = (4, 8)} : tile<4x8xf32>",),
)
def broadcast(x: Type, *, shape: tuple[int, ...]) -> Type:
    """Broadcast the axes of extent 1 to `shape`."""
    _tile("broadcast", x)
    require(
        len(shape) == x.rank and all(a in (1, b) for a, b in zip(x.shape, shape, strict=True)),
        f"a tile of shape {list(x.shape)} does not broadcast to {list(shape)}",
    )
    return with_shape(shape, x.element)


def _expand_dims(x: Any, *, axis: int) -> Any:
    return x[(..., None, *(slice(None),) * (-1 - axis))]  # a tenth of the time of `expand_dims`


@op(
    any_extents=True,
    semantics=_expand_dims,
    unit_axes_broadcast=True,
    examples=("%x: tile<8xf32> | %r = expand_dims %x {axis = -2} : tile<1x8xf32>",),
)
def expand_dims(x: Type, *, axis: int) -> Type:
    """Insert an axis of extent 1, counted from the right in the result (-1 is the last)."""
    _tile("expand_dims", x)
    rank = x.rank + 1
    require(
        -rank <= axis < 0,
        f"axis {axis} is outside a result of rank {rank}; it is counted from the right",
    )
    shape = list(x.shape)
    shape.insert(rank + axis, 1)
    return with_shape(shape, x.element)


@op(
    any_extents=True,
    semantics=semantics.reshape,
    examples=("%x: tile<4x8xf32> | %r = reshape %x {shape = (2, 16)} : tile<2x16xf32>",),
)
def reshape(x: Type, *, shape: tuple[int, ...]) -> Type:
    """Reshape `x`, keeping the row-major order of its elements.

    Of the axes that it merges or splits, only the first may have an extent that is no power of two:
    padding at the end of another one would be between elements of the result.
    """
    _tile("reshape", x)
    require(len(shape) > 0, "reshape gives a tile of at least one axis")
    require(
        math.prod(shape) == math.prod(x.shape),
        f"a tile of shape {list(x.shape)} has {math.prod(x.shape)} elements and {list(shape)} has "
        f"{math.prod(shape)}",
    )
    result = with_shape(shape, x.element)
    if unpadded_extent(x.shape) is not None or unpadded_extent(result.shape) is not None:
        for ty, (_, *inner) in _regrouped(x, result):
            for extent in inner:
                if not is_power_of_two(extent):
                    refuse_extent(f"a reshape from {x} to {result}", ty, extent, _in_shape(extent))
    return result


def _in_shape(extent: int) -> str:
    """Return what to do instead of a reshape."""
    return (
        "make the tile in the shape that you need, by an index for each axis, as in "
        f"tl.load(p + rows[:, None] * {extent} + tl.arange(0, {extent})), and reduce it axis by "
        "axis; of the axes that a reshape merges or splits, the first may have any extent"
    )


def _regrouped(x: Type, result: Type) -> Iterator[tuple[Type, Sequence[int]]]:
    """Yield the least groups of axes with as many elements in both types, but not equal ones.

    Axes of extent 1 are left out.
    """
    types = (x, result)
    before, after = ([extent for extent in ty.shape if extent > 1] for ty in types)
    while before:
        groups = [before.pop(0)], [after.pop(0)]
        while math.prod(groups[0]) != math.prod(groups[1]):
            shorter = math.prod(groups[0]) > math.prod(groups[1])
            groups[shorter].append((before, after)[shorter].pop(0))
        if groups[0] != groups[1]:
            yield from zip(types, groups, strict=True)


@op(
    any_extents=True,
    semantics=semantics.permute,
    unit_axes_broadcast=True,
    examples=("%x: tile<4x8xf32> | %r = trans %x {order = (1, 0)} : tile<8x4xf32>",),
)
def trans(x: Type, *, order: tuple[int, ...]) -> Type:
    """Permute the axes: axis k of the result is axis `order[k]` of `x`."""
    _tile("trans", x)
    require(
        sorted(order) == list(range(x.rank)),
        f"the order of a tile of rank {x.rank} is a permutation of 0 to {x.rank - 1}, not {order}",
    )
    return with_shape((x.shape[axis] for axis in order), x.element)


@op(
    any_extents=True,
    semantics=semantics.flip,
    unit_axes_broadcast=True,
    accepts=ALL,
    examples=("%x: tile<4x8xf32> | %r = flip %x {axis = -1} : tile<4x8xf32>",),
)
def flip(x: Type, *, axis: int) -> Type:
    """Reverse the elements along an axis."""
    along("flip", x, axis)
    return x


@op(
    any_extents=True,
    semantics=semantics.join,
    unit_axes_broadcast=True,
    accepts=ALL,
    examples=(
        "%a: tile<4xf32>, %b: tile<4xf32> | %r = join %a, %b : tile<4x2xf32>",
        "%a: i32, %b: i32 | %r = join %a, %b : tile<2xi32>",
    ),
)
def join(a: Type, b: Type) -> Type:
    """Pair the elements of `a` and `b` along a new last axis of extent 2."""
    require(a == b, f"join takes values of one type, not {a} and {b}")
    return Tile((*a.shape, 2), a.element)


@op(
    any_extents=True,
    semantics=semantics.split,
    unit_axes_broadcast=True,
    accepts=ALL,
    examples=(
        "%x: tile<4x2xf32> | %a, %b = split %x : tile<4xf32>, tile<4xf32>",
        "%x: tile<2xi32> | %a, %b = split %x : i32, i32",
    ),
)
def split(x: Type) -> tuple[Type, Type]:
    """Return the first and the second elements along the last axis, whose extent is 2."""
    _tile("split", x)
    require(x.shape[-1] == 2, f"split takes a tile whose last axis has extent 2, not {x}")
    part = with_shape(x.shape[:-1], x.element)
    return part, part
