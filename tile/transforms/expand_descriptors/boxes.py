"""Boxes of a descriptor's array as tiles of pointers, with masks of what is inside the array.

Along each axis a box has the indices `start + line`. The starts go into one address, the lines into
a tile of offsets: so in a loop that moves a box through an array, all that changes is one scalar
and the masks. An index is inside if, as an unsigned number, it is less than the extent; that is one
comparison for both ends, and unsigned sums may wrap.

Offsets are of 64 bits, as strides are. An index outside may give any address; it is masked.
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
class Parts:
    """What a descriptor is made of: see `Descriptor.parts`."""

    type: Descriptor
    values: Sequence[Value]

    @property
    def base(self) -> Value:
        return self.values[0]

    def extent(self, axis: int) -> Value:
        return self.values[1 + axis]

    def stride(self, axis: int) -> Value | None:
        """The stride along an axis; None along the last, where it is 1."""
        rank = len(self.type.dims)
        return None if axis == rank - 1 else self.values[1 + rank + axis]


@dataclass(frozen=True)
class Along:
    """The indices of a box along one axis: a start, and a line (i32) to be added to it.

    Either may be absent, for zero.
    """

    start: Value | None
    line: Value | None


def along(build: Builder, start: Value, extent: int) -> Along:
    """The indices from a start on."""
    return Along(start, build(shape.arange, start=0, end=extent) if extent > 1 else None)


def address(
    build: Builder, parts: Parts, indices: Sequence[Along], dims: tuple[int, ...]
) -> tuple[Value, Value]:
    """The pointers to the elements of a box of shape `dims`, and which of them are inside."""
    starts, lines, masks = [], [], []
    for axis, index in enumerate(indices):
        if index.start is not None:
            starts.append(_scaled(build, index.start, parts.stride(axis)))
        if index.line is not None:
            line = _scaled(build, index.line, parts.stride(axis))
            lines.append(_across(build, line, axis, dims))
        masks.append(_inside(build, index, parts.extent(axis), axis, dims))
    size = parts.type.of.itemsize
    pointer = parts.base
    if starts:
        start = reduce(lambda x, y: build(arith.add, x, y), starts)
        pointer = build(memory.addptr, pointer, start, stride=size)
    pointer = build(shape.splat, pointer, shape=dims)
    offsets = reduce(lambda x, y: build(arith.add, x, y), lines)
    pointer = build(memory.addptr, pointer, offsets, stride=size)
    return pointer, reduce(lambda x, y: build(arith.and_, x, y), masks)


def _scaled(build: Builder, index: Value, stride: Value | None) -> Value:
    """Indices as offsets in elements, in 64 bits."""
    wide = build(arith.cast, index, to=I64)
    return wide if stride is None else build(arith.mul, wide, _like(build, stride, wide))


def _inside(build: Builder, index: Along, extent: Value, axis: int, dims: tuple[int, ...]) -> Value:
    """Which elements of a box are inside the array along one axis."""
    given = [value for value in (index.start, index.line) if value is not None]
    *starts, at = (build(arith.cast, value, to=U32) for value in given)
    for start in starts:
        at = build(arith.add, _like(build, start, at), at)
    limit = _like(build, build(arith.cast, extent, to=U32), at)
    inside = build(arith.cmp, at, limit, predicate=Predicate.LT)
    if index.line is None:
        return build(shape.splat, inside, shape=dims)
    return _across(build, inside, axis, dims)


def _like(build: Builder, scalar: Value, other: Value) -> Value:
    """A scalar, or a tile of it where the other value is a tile."""
    ty = other.type
    return build(shape.splat, scalar, shape=ty.dims) if isinstance(ty, Tile) else scalar


def _across(build: Builder, line: Value, axis: int, dims: tuple[int, ...]) -> Value:
    """A tile of one axis repeated to a whole box, of which it is that axis."""
    for _ in range(axis):
        line = build(shape.expand_dims, line, axis=-line.type.rank - 1)
    for _ in range(len(dims) - axis - 1):
        line = build(shape.expand_dims, line, axis=-1)
    whole = with_element(Tile(dims, I64), line.type.element)
    return line if line.type == whole else build(shape.broadcast, line, shape=dims)
