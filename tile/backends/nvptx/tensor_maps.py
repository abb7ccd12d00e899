"""Tensor maps: descriptions of arrays that the tensor memory accelerator reads, made by the driver.

A launch makes one for each array whose boxes its kernel copies, out of the arguments; a map is kept
for the next launch on the same array.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from tile.backends.nvptx import driver
from tile.backends.nvptx.facts import TensorMap

KEPT = 256  # maps of one parameter, before they are forgotten
_UNIT = 16  # bytes that addresses and strides are multiples of
_MOST_STRIDE = 1 << 40
_UNSIGNED = (1 << 32) - 1


class Made(NamedTuple):
    """A map that the driver has made, and where it is."""

    address: int
    map: Any


class UnmappableError(Exception):
    """An array that has no tensor map, and why."""


class MapMaker:
    """Makes the maps of one parameter, and keeps them."""

    def __init__(self, wanted: TensorMap, empty: Callable[[], int]) -> None:
        """`empty` gives the address of 16 bytes of zeros, which stand for arrays that are empty."""
        self.wanted = wanted
        self.itemsize = driver.MAP_ELEMENTS[wanted.element][1]
        self._empty = empty
        self._numbers = (*wanted.extents, *wanted.strides)
        given = [one.parameter for one in self._numbers if one.parameter is not None]
        self._parameters = (wanted.base, *given)  # whose values tell maps apart
        self._kept: dict[tuple[int, ...], Made] = {}

    def lookup(self, places: Sequence[int]) -> Callable[[Sequence[Any]], Made | None]:
        """How to find the map of a launch, if there was one like it, among its values.

        Those of the kernel's parameters are at some `places` there.
        """
        kept = self._kept
        get = operator.itemgetter(*[places[number] for number in self._parameters])
        if len(self._parameters) == 1:
            return lambda values: kept.get((get(values),))
        return lambda values: kept.get(get(values))

    def made(self, values: Sequence[Any]) -> Made:
        """The map for a launch with these values. Raises `UnmappableError`."""
        key = tuple([int(values[number]) for number in self._parameters])
        found = self._kept.get(key)
        if found is None:
            if len(self._kept) >= KEPT:
                self._kept.clear()
            found = self._kept[key] = self._make(values)
        return found

    def _make(self, values: Sequence[Any]) -> Made:
        base = int(values[self.wanted.base])
        numbers = [one.among(values) for one in self._numbers]
        rank = len(self.wanted.extents)
        extents = [number & _UNSIGNED for number in numbers[:rank]]
        steps = [number * self.itemsize for number in numbers[rank:]]
        if 0 in extents:
            base, extents, steps = self._empty(), [1] * rank, [_UNIT] * (rank - 1)
        # Nobody goes along an axis of one element, so any stride does.
        steps = [_UNIT if n == 1 else step for n, step in zip(extents, steps, strict=False)]
        if base % _UNIT:
            raise UnmappableError(f"its address {base:#x} is no multiple of {_UNIT} bytes")
        for axis, step in enumerate(steps):
            if step % _UNIT or not 0 <= step < _MOST_STRIDE:
                raise UnmappableError(
                    f"its stride along axis {axis} is {step} bytes, and a map takes multiples of "
                    f"{_UNIT} from 0 to {_MOST_STRIDE}"
                )
        found = driver.tensor_map(
            self.wanted.element, base, extents, steps, self.wanted.box, self.wanted.swizzle
        )
        return Made(int(found.getPtr()), found)
