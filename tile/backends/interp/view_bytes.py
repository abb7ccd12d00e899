"""Membership in the bytes of a strided view, by arithmetic on its strides.

Relative to the lowest one, the bytes of a view are at the sums of one multiple of each stride:
{sum(i_k * stride_k), i_k < extent_k}. Membership of an offset follows from strides and extents, so
the cost is proportional to the number of offsets queried, however far the view extends.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from tile.backends.interp.values import Array


class Axis(NamedTuple):
    """An arithmetic progression from 0; the stride is positive, in units."""

    stride: int
    extent: int

    @property
    def last(self) -> int:
        """The last term."""
        return self.stride * (self.extent - 1)


@dataclass(frozen=True)
class ViewBytes:
    """The bytes of a view as sums of progressions, in units of `unit` bytes.

    All axes have more than one term, and the strides descend.
    """

    unit: int
    axes: tuple[Axis, ...]

    @classmethod
    def of(cls, array: Array) -> ViewBytes:
        """Return the bytes of an array that has elements."""
        steps = zip(array.strides, array.shape, strict=True)
        strided = [(abs(stride), extent) for stride, extent in steps if stride and extent > 1]
        unit = math.gcd(array.itemsize, *(stride for stride, _ in strided))
        axes = [Axis(stride // unit, extent) for stride, extent in strided]
        if array.itemsize > unit:
            axes.append(Axis(1, array.itemsize // unit))
        return cls(unit, tuple(sorted(_merge_axes(axes), reverse=True)))

    @property
    def dense(self) -> bool:
        """True if every byte from the first to the last belongs to an element."""
        return not self.axes or (len(self.axes) == 1 and self.axes[0].stride == 1)

    def contain(self, offsets: Array, size: int) -> Array:
        """Return which accesses are in bounds: of `size` bytes, at offsets that `size` divides.

        `size` is a power of two, as all element sizes are.
        """
        points = offsets // self.unit
        inside = _contain(self.axes, points)
        for step in range(1, size // self.unit):
            inside &= _contain(self.axes, points + step)
        return inside


def _merge_axes(axes: Sequence[Axis]) -> list[Axis]:
    """Merge axes whose progressions continue each other; the set of sums stays the same.

    Multiples of `m * s`, each followed by `m` or more terms of stride `s`, leave no gap.
    """
    merged: list[Axis] = []
    for axis in sorted(axes):
        for index, (stride, extent) in enumerate(merged):
            if axis.stride % stride == 0 and axis.stride // stride <= extent:
                merged[index] = Axis(stride, extent + axis.last // stride)
                return _merge_axes([*merged, *sorted(axes)[len(merged) + 1 :]])
        merged.append(axis)
    return merged


def _contain(axes: Sequence[Axis], points: Array) -> Array:
    """Return which points are sums of one term of each axis; strides are in descending order."""
    if not axes:
        return np.asarray(points == 0)
    if len(axes) == 1:
        return _is_term(points, axes[0])
    for index in range(1, len(axes)):
        unit = math.gcd(*(axis.stride for axis in axes[:index]))
        if sum(axis.last for axis in axes[index:]) < unit:  # two digits of the point
            high = [Axis(axis.stride // unit, axis.extent) for axis in axes[:index]]
            return _contain(high, points // unit) & _contain(axes[index:], points % unit)
    return _search(axes, points)


def _is_term(points: Array, axis: Axis) -> Array:
    """Return which points are terms of one progression."""
    if axis.stride == 1:
        return np.asarray((points >= 0) & (points < axis.extent))
    index = points // axis.stride
    return np.asarray((index * axis.stride == points) & (index >= 0) & (index < axis.extent))


def _search(axes: Sequence[Axis], points: Array) -> Array:
    """Return which points are sums of axes that overlap irregularly: try all indices of one axis.

    That axis has the fewest candidates: indices that leave at most the largest sum of the others.
    """
    total = sum(axis.last for axis in axes)
    searched = min(axes, key=lambda axis: min(axis.extent, (total - axis.last) // axis.stride + 1))
    rest = [axis for axis in axes if axis is not searched]
    last = total - searched.last
    line = points.ravel()
    inside = np.zeros(line.shape, np.bool_)
    index = np.minimum(line // searched.stride, searched.extent - 1)
    pending = np.arange(line.size)
    while True:
        remainder = line[pending] - index[pending] * searched.stride
        pending = pending[(index[pending] >= 0) & (remainder <= last)]
        if not pending.size:
            return inside.reshape(points.shape)
        inside[pending] = _contain(rest, line[pending] - index[pending] * searched.stride)
        pending = pending[~inside[pending]]
        index[pending] -= 1
