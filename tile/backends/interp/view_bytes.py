"""Membership in the bytes of a strided view, by arithmetic on its strides.

Counted from the lowest one, the bytes of a view are at the sums of one multiple of each stride:
{sum(i_k * stride_k), i_k < extent_k}. Whether an offset is among them follows from strides and
extents, so the cost is that of the offsets asked for, however far the view extends.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from tile.backends.interp.values import Array

# Residues below this can be multiplied in 64 bits.
WORD = 1 << 31


class Axis(NamedTuple):
    """An arithmetic progression from 0 on; the stride is positive and counts units."""

    stride: int
    extent: int

    @property
    def reach(self) -> int:
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
        """The bytes of an array that has elements."""
        steps = zip(array.strides, array.shape, strict=True)
        moving = [(abs(stride), extent) for stride, extent in steps if stride and extent > 1]
        unit = math.gcd(array.itemsize, *(stride for stride, _ in moving))
        axes = [Axis(stride // unit, extent) for stride, extent in moving]
        if array.itemsize > unit:
            axes.append(Axis(1, array.itemsize // unit))
        return cls(unit, tuple(sorted(_joined(axes), reverse=True)))

    @property
    def dense(self) -> bool:
        """True if every byte from the first to the last belongs to an element."""
        return not self.axes or (len(self.axes) == 1 and self.axes[0].stride == 1)

    def contain(self, offsets: Array, size: int) -> Array:
        """Return which accesses lie inside: of `size` bytes at offsets that `size` divides.

        `size` is a power of two, as all element sizes are.
        """
        points = offsets // self.unit
        inside = _contain(self.axes, points)
        for step in range(1, size // self.unit):
            inside &= _contain(self.axes, points + step)
        return inside


def _joined(axes: Sequence[Axis]) -> list[Axis]:
    """Axes with the same sums, where progressions that continue each other are one.

    Multiples of `m * s`, each followed by `m` or more terms of stride `s`, leave none of these out.
    """
    joined: list[Axis] = []
    for axis in sorted(axes):
        for at, (stride, extent) in enumerate(joined):
            if axis.stride % stride == 0 and axis.stride // stride <= extent:
                joined[at] = Axis(stride, extent + axis.reach // stride)
                return _joined([*joined, *sorted(axes)[len(joined) + 1 :]])
        joined.append(axis)
    return joined


def _contain(axes: Sequence[Axis], points: Array) -> Array:
    """Return which points are sums of one term of each axis; strides descend."""
    if not axes:
        return np.asarray(points == 0)
    if len(axes) == 1:
        return _is_term(points, axes[0])
    for at in range(1, len(axes)):
        unit = math.gcd(*(axis.stride for axis in axes[:at]))
        if sum(axis.reach for axis in axes[at:]) < unit:  # two digits of the point
            high = [Axis(axis.stride // unit, axis.extent) for axis in axes[:at]]
            return _contain(high, points // unit) & _contain(axes[at:], points % unit)
    if len(axes) == 2 and axes[1].stride < WORD:
        return _contain_pair(axes[0], axes[1], points)
    return _search(axes, points)


def _is_term(points: Array, axis: Axis) -> Array:
    """Return which points are terms of one progression."""
    if axis.stride == 1:
        return np.asarray((points >= 0) & (points < axis.extent))
    index = points // axis.stride
    return np.asarray((index * axis.stride == points) & (index >= 0) & (index < axis.extent))


def _contain_pair(first: Axis, second: Axis, points: Array) -> Array:
    """Return which points are `i * a + j * b`.

    The remainder by `b` fixes `i` modulo `b`. The least such `i` that leaves no more than `j * b`
    can be decides, since a larger one only leaves less.
    """
    a, b = first.stride, second.stride
    common = math.gcd(a, b)
    modulus = b // common
    inverse = pow(a // common, -1, modulus)
    least = np.maximum(-((second.reach - points) // a), 0)
    most = np.minimum(points // a, first.extent - 1)
    residue = points // common % modulus * inverse % modulus
    index = least + (residue - least) % modulus
    return np.asarray((points % common == 0) & (index <= most))


def _search(axes: Sequence[Axis], points: Array) -> Array:
    """Return which points are sums of axes that overlap irregularly: try all indices of one axis.

    It is the axis with the fewest candidates: those that leave no more than the others reach.
    """
    total = sum(axis.reach for axis in axes)
    chosen = min(axes, key=lambda axis: min(axis.extent, (total - axis.reach) // axis.stride + 1))
    rest = [axis for axis in axes if axis is not chosen]
    reach = total - chosen.reach
    line = points.ravel()
    inside = np.zeros(line.shape, np.bool_)
    index = np.minimum(line // chosen.stride, chosen.extent - 1)
    open_ = np.arange(line.size)
    while True:
        remainder = line[open_] - index[open_] * chosen.stride
        open_ = open_[(index[open_] >= 0) & (remainder <= reach)]
        if not open_.size:
            return inside.reshape(points.shape)
        inside[open_] = _contain(rest, line[open_] - index[open_] * chosen.stride)
        open_ = open_[~inside[open_]]
        index[open_] -= 1
