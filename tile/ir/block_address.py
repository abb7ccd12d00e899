"""Addresses and masks of a block of an array, as operations on tiles of pointers.

Along each axis a block has the indices `start + range`. The starts are summed into one scalar
address, the ranges into a tile of offsets: in a loop that moves a block through an array, only one
scalar and the masks change. An index is in bounds if it is less than the extent as an unsigned
integer; one comparison checks both bounds, and unsigned sums may wrap.

Offsets have 64 bits, as strides do. An out-of-bounds index may address any memory; it is masked.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

from tile.ir.builder import Builder
from tile.ir.core import Value
from tile.ir.op_definition import OpDef
from tile.ir.ops import arith, memory, shape
from tile.ir.ops.arith import Predicate
from tile.ir.types import I64, U32, Pointer, Tile, with_element


@dataclass(frozen=True)
class AxisIndices:
    """The indices of a block along one axis: a scalar start plus a 1-D range (i32).

    None stands for zero.
    """

    start: Value | None
    range: Value | None


def axis_indices(build: Builder, start: Value, extent: int) -> AxisIndices:
    """Return the `extent` indices from `start` on."""
    return AxisIndices(start, build(shape.arange, start=0, end=extent) if extent > 1 else None)


def block_address(
    build: Builder,
    base: Value,
    strides: Sequence[Value | None],
    extents: Sequence[Value | None],
    indices: Sequence[AxisIndices],
    dims: tuple[int, ...],
) -> tuple[Value, Value | None]:
    """Return the pointers to a block of shape `dims` of the array at `base`, and its mask.

    Strides have 64 bits, in elements; None stands for 1. The mask is true for elements that are in
    bounds along every axis whose extent (i32) is not None; it is None if no axis is checked.
    """
    starts, ranges, masks = [], [], []
    for axis, index in enumerate(indices):
        if index.start is not None:
            starts.append(_scaled(build, index.start, strides[axis]))
        if index.range is not None:
            ranges.append(across(build, _scaled(build, index.range, strides[axis]), axis, dims))
        extent = extents[axis]
        if extent is not None:
            masks.append(_in_bounds(build, index, extent, axis, dims))
    pointers = _pointers(build, base, starts, ranges, dims)
    return pointers, _combined(build, arith.and_, masks) if masks else None


def _pointers(
    build: Builder,
    base: Value,
    starts: Sequence[Value],
    ranges: Sequence[Value],
    dims: tuple[int, ...],
) -> Value:
    """Return the pointers at the sum of scalar and of tile offsets from `base`."""
    assert isinstance(base.type, Pointer)
    size = base.type.pointee.itemsize
    pointer = base
    if starts:
        pointer = build(memory.addptr, pointer, _combined(build, arith.add, starts), stride=size)
    pointer = build(shape.splat, pointer, shape=dims)
    if ranges:
        pointer = build(memory.addptr, pointer, _combined(build, arith.add, ranges), stride=size)
    return pointer


def _combined(build: Builder, op: OpDef, values: Sequence[Value]) -> Value:
    return reduce(lambda x, y: build(op, x, y), values)


def _scaled(build: Builder, index: Value, stride: Value | None) -> Value:
    """Return indices as 64-bit offsets in elements."""
    wide = build(arith.cast, index, to=I64)
    return wide if stride is None else build(arith.mul, wide, _like(build, stride, wide))


def _in_bounds(
    build: Builder, index: AxisIndices, extent: Value, axis: int, dims: tuple[int, ...]
) -> Value:
    """Return the mask of a block's elements that are inside the array along one axis."""
    terms = [value for value in (index.start, index.range) if value is not None]
    *starts, at = (build(arith.cast, value, to=U32) for value in terms)
    for start in starts:
        at = build(arith.add, _like(build, start, at), at)
    limit = _like(build, build(arith.cast, extent, to=U32), at)
    inside = build(arith.cmp, at, limit, predicate=Predicate.LT)
    if index.range is None:
        return build(shape.splat, inside, shape=dims)
    return across(build, inside, axis, dims)


def _like(build: Builder, scalar: Value, other: Value) -> Value:
    """Return a scalar, or its splat if the other value is a tile."""
    ty = other.type
    return build(shape.splat, scalar, shape=ty.dims) if isinstance(ty, Tile) else scalar


def across(build: Builder, x: Value, axis: int, dims: tuple[int, ...]) -> Value:
    """Broadcast a 1-D tile along axis `axis` to the shape of the block."""
    for _ in range(axis):
        x = build(shape.expand_dims, x, axis=-x.type.rank - 1)
    for _ in range(len(dims) - axis - 1):
        x = build(shape.expand_dims, x, axis=-1)
    whole = with_element(Tile(dims, I64), x.type.element)
    return x if x.type == whole else build(shape.broadcast, x, shape=dims)
