"""Static slices and elements of tiles: `x[3]`, `x[0:16, :]`, `x[:, 1::2]`, `x[::-1]`.

Bounds are compile-time values, and the extents of the result are powers of two. A slice is aligned
if its positions are those whose numbers have certain bits:

    x[16:32] of 64 elements      01....    two bits are fixed
    x[1::2]  of 64 elements      .....1    one bit is fixed
    x[3]     of 64 elements      000011    all bits are fixed
    x[8:24]  of 64 elements      not aligned

A reshape and a permutation make one last axis of all fixed bits. One or two bits are dropped by
splits: a thread that holds both elements of a pair picks registers, and otherwise the layout is
converted once. More bits are dropped by a reduction of the elements' bits, with zeros in place of
the others: that works in any layout, where a conversion would move the whole tile to keep little of
it. Slices that are not aligned are gathered, which goes through shared memory.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tile.errors import CompilationError
from tile.ir.builder import Builder
from tile.ir.core import Value
from tile.ir.expressions import Expression
from tile.ir.extents import is_power_of_two
from tile.ir.ops import arith, indexing, shape
from tile.ir.ops.reduce import ReduceKind, reduce
from tile.ir.types import I32, SCALARS, U64, Pointer, Tile
from tile.language.base.promotion import convert, convert_shape
from tile.language.base.static_args import compile_time_int, constant_value
from tile.language.base.tensor import Tensor

INDEX = "unsupported tensor index: an index into a tile"
MOST_SPLIT = 4  # A split into more would take that many registers for each one that is kept.


@dataclass(frozen=True)
class Positions:
    """The positions `start`, `start + step`, ... of `count` elements of an axis of `extent`.

    dropped: the axis is indexed by a number, and not an axis of the result.
    """

    extent: int
    start: int
    step: int
    count: int
    dropped: bool = False

    @property
    def are_all(self) -> bool:
        """True if all elements are selected, in order."""
        return self.count == self.extent and self.step > 0

    @property
    def ascending(self) -> Positions:
        """The same positions in ascending order."""
        if self.step > 0:
            return self
        last = self.start + self.step * (self.count - 1)
        return Positions(self.extent, last, -self.step, self.count, self.dropped)

    @property
    def are_aligned(self) -> bool:
        """True for ascending positions if they are those whose numbers have certain bits."""
        return (
            is_power_of_two(self.step)
            and self.extent % (self.step * self.count) == 0
            and self.start // self.step % self.count == 0
        )

    @property
    def axes(self) -> tuple[int, int, int]:
        """The extents of the axes of an aligned slice: fixed, selected, fixed."""
        return self.extent // (self.step * self.count), self.count, self.step

    @property
    def fixed(self) -> tuple[int, int]:
        """The positions on the two fixed axes."""
        return self.start // (self.step * self.count), self.start % self.step


def positions_of(x: Tensor, axis: int, item: Any) -> Positions:
    """Return the positions that an index or a slice selects on an axis, counted from the left.

    Raises `CompilationError` for bounds that are runtime values, for an index outside the axis, and
    for a slice without elements.
    """
    if isinstance(item, slice):
        return _sliced(x, axis, item)
    if isinstance(item, Tensor) and constant_value(item) is None:
        raise CompilationError(
            f"unsupported tensor index: it must be known when the kernel is compiled, and this is "
            f"a value of type {item.type} that is known only when it runs",
            notes=[
                "tl.gather takes elements at runtime positions; for one element, write "
                "tl.sum(tl.where(tl.arange(0, N) == i, x, 0))"
            ],
        )
    number, extent = compile_time_int(item, INDEX), x.shape[axis]
    if not -extent <= number < extent:
        raise CompilationError(
            f"index {number} is outside axis {axis} of {x.type}; its indices are {-extent} to "
            f"{extent - 1}"
        )
    return Positions(extent, number % extent, 1, 1, dropped=True)


def _sliced(x: Tensor, axis: int, item: slice) -> Positions:
    bounds = (item.start, item.stop, item.step)
    start, stop, step = (
        None if b is None else compile_time_int(b, "a bound of a slice") for b in bounds
    )
    if step == 0:
        raise CompilationError("the step of a slice of a tile cannot be 0")
    extent = x.shape[axis]
    selected = range(extent)[slice(start, stop, step)]
    count = len(selected)
    if not count:
        raise CompilationError(f"this slice has 0 elements of axis {axis} of {x.type}")
    return Positions(extent, selected[0], selected.step if count > 1 else 1, count)


def take(build: Builder, x: Tensor, positions: Sequence[Positions]) -> Tensor:
    """Return the elements at the positions on each axis; a scalar if all axes are dropped."""
    if all(p.are_all and not p.dropped for p in positions):
        return x
    if not all(is_power_of_two(extent) for p in positions for extent in (p.extent, p.count)):
        return _by_axis(build, x, positions)
    ascending = [p.ascending for p in positions]
    if all(p.are_aligned for p in ascending):
        taken = _aligned(build, x, ascending)
        steps = [p.step for p in positions if p.count > 1]
        for axis, step in enumerate(steps):
            if step < 0:
                taken = build(shape.flip, taken, axis=axis - len(steps))
    else:
        taken = _gathered(build, x, positions)
    return Tensor(_reshape(build, taken, tuple(p.count for p in positions if not p.dropped)))


def split_last(build: Builder, x: Value) -> list[Value]:
    """Split a tile along its last axis into as many values as that has elements, at least two."""
    extents = x.type.shape
    if extents[-1] == 2:
        return list(build.op(shape.split, x).results)
    pairs = _reshape(build, x, (*extents[:-1], extents[-1] // 2, 2))
    evens, odds = (split_last(build, part) for part in build.op(shape.split, pairs).results)
    return [part for pair in zip(evens, odds, strict=True) for part in pair]


def select_last(build: Builder, x: Value, index: int) -> Value:
    """Return the elements at `index` of the last axis: a reduction of their bits by `or`."""
    element, bits = x.type.element, Tensor(x)
    if isinstance(element, Pointer):
        bits = convert(build, bits, U64)
    elif element.is_floating():
        bits = Tensor(build(arith.bitcast, x, to=SCALARS[f"u{element.bits}"]))
    extent = x.type.shape[-1]
    if extent > 1:
        numbers = build(shape.arange, start=0, end=extent)
        equal = Tensor(Expression(build, numbers).equals(index).value)
        mask = Expression(build, convert_shape(build, equal, bits.shape).value)
        bits = Tensor(mask.select(Expression(build, bits.value), 0).value)
    result = build(reduce, bits.value, axis=-1, kind=ReduceKind.OR)
    return result if element == bits.dtype else build(arith.bitcast, result, to=element)


def _aligned(build: Builder, x: Tensor, positions: Sequence[Positions]) -> Value:
    """Return the elements at aligned positions, a tile without axes of extent 1 or a scalar."""
    extents = [extent for p in positions for extent in p.axes]
    numbers = [number for p in positions for number in (p.fixed[0], 0, p.fixed[1])]
    axes = [axis for axis, extent in enumerate(extents) if extent > 1]
    selected = [axis for axis in axes if axis % 3 == 1]
    fixed = [axis for axis in axes if axis % 3 != 1]
    value = _reshape(build, x.value, tuple(extents[axis] for axis in axes))
    if not fixed:
        return value
    index = 0
    for axis in fixed:
        index = index * extents[axis] + numbers[axis]
    order = tuple(axes.index(axis) for axis in (*selected, *fixed))
    if order != tuple(sorted(order)):
        value = build(shape.trans, value, order=order)
    count = math.prod(extents[axis] for axis in fixed)
    value = _reshape(build, value, (*(extents[axis] for axis in selected), count))
    split = count <= MOST_SPLIT and is_power_of_two(count)
    return split_last(build, value)[index] if split else select_last(build, value, index)


def _gathered(build: Builder, x: Tensor, positions: Sequence[Positions]) -> Value:
    """Return the elements at positions of any kind: one gather from the flat tile."""
    counts = tuple(p.count for p in positions)
    index, stride = build.constant(0, Tile(counts, I32)), x.numel
    for axis, p in enumerate(positions):
        stride //= p.extent
        numbers = Expression(build, build(shape.arange, start=0, end=p.count))
        offset = (numbers * (p.step * stride) + p.start * stride).value
        extents = (*(1,) * axis, p.count, *(1,) * (len(counts) - axis - 1))
        along = convert_shape(build, Tensor(_reshape(build, offset, extents)), counts)
        index = build(arith.add, index, along.value)
    taken = build(indexing.gather, _flat(build, x.value), _flat(build, index), axis=-1)
    return _reshape(build, taken, counts)


def _by_axis(build: Builder, x: Tensor, positions: Sequence[Positions]) -> Tensor:
    """Return the elements at positions on one axis after the other; extents may be any numbers."""
    value = x.value
    for axis, p in enumerate(positions):
        extents = value.type.shape
        taken = (*extents[:axis], p.count, *extents[axis + 1 :])
        if p.count == 1 and p.extent > 1:
            others = [Positions(extent, 0, 1, extent) for extent in extents]
            others[axis] = p
            value = _reshape(build, _aligned(build, Tensor(value), others), taken)
        elif not p.are_all:
            numbers = Expression(build, build(shape.arange, start=0, end=p.count))
            at = (numbers * p.step + p.start).value
            along = _reshape(build, at, (*(1,) * axis, p.count, *(1,) * (len(extents) - axis - 1)))
            index = convert_shape(build, Tensor(along), taken).value
            value = build(indexing.gather, value, index, axis=axis - len(extents))
    return Tensor(_reshape(build, value, tuple(p.count for p in positions if not p.dropped)))


def _flat(build: Builder, x: Value) -> Value:
    return _reshape(build, x, (math.prod(x.type.shape),))


def _reshape(build: Builder, x: Value, extents: tuple[int, ...]) -> Value:
    """Return a tile or scalar in another shape; a tile of one element may become a scalar."""
    before = x.type.shape
    if before == extents:
        return x
    if not before:
        return build(shape.splat, x, shape=extents)
    if not extents:
        return select_last(build, _flat(build, x), 0)
    return build(shape.reshape, x, shape=extents)
