"""Addresses and masks of a descriptor block: tiles of pointers, and of bounds checks.

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
from tile.ir.ops import arith, memory, shape
from tile.ir.ops.arith import Predicate
from tile.ir.types import I64, U32, Descriptor, Tile, with_element


@dataclass(frozen=True)
class Components:
    """The components of a descriptor; see `Descriptor.parts`."""

    type: Descriptor
    values: Sequence[Value]

    @property
    def base(self) -> Value:
        return self.values[0]

    def extent(self, axis: int) -> Value:
        return self.values[1 + axis]

    def stride(self, axis: int) -> Value | None:
        """Return the stride along an axis; None along the last, where it is 1."""
        rank = len(self.type.dims)
        return None if axis == rank - 1 else self.values[1 + rank + axis]


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


def address(
    build: Builder, components: Components, indices: Sequence[AxisIndices], dims: tuple[int, ...]
) -> tuple[Value, Value]:
    """Return the pointers to the elements of a block of shape `dims`, and the in-bounds mask."""
    starts, ranges, masks = [], [], []
    for axis, index in enumerate(indices):
        if index.start is not None:
            starts.append(_scaled(build, index.start, components.stride(axis)))
        if index.range is not None:
            scaled = _scaled(build, index.range, components.stride(axis))
            ranges.append(_across(build, scaled, axis, dims))
        masks.append(_in_bounds(build, index, components.extent(axis), axis, dims))
    size = components.type.of.itemsize
    pointer = components.base
    if starts:
        start = reduce(lambda x, y: build(arith.add, x, y), starts)
        pointer = build(memory.addptr, pointer, start, stride=size)
    pointer = build(shape.splat, pointer, shape=dims)
    offsets = reduce(lambda x, y: build(arith.add, x, y), ranges)
    pointer = build(memory.addptr, pointer, offsets, stride=size)
    return pointer, reduce(lambda x, y: build(arith.and_, x, y), masks)


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
    return _across(build, inside, axis, dims)


def _like(build: Builder, scalar: Value, other: Value) -> Value:
    """Return a scalar, or its splat if the other value is a tile."""
    ty = other.type
    return build(shape.splat, scalar, shape=ty.dims) if isinstance(ty, Tile) else scalar


def _across(build: Builder, x: Value, axis: int, dims: tuple[int, ...]) -> Value:
    """Broadcast a 1-D tile along axis `axis` to the shape of the block."""
    for _ in range(axis):
        x = build(shape.expand_dims, x, axis=-x.type.rank - 1)
    for _ in range(len(dims) - axis - 1):
        x = build(shape.expand_dims, x, axis=-1)
    whole = with_element(Tile(dims, I64), x.type.element)
    return x if x.type == whole else build(shape.broadcast, x, shape=dims)
