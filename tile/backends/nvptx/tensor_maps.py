"""Tensor maps: descriptions of arrays that the tensor memory accelerator reads, made by the driver.

A launch makes one for each array whose boxes its kernel copies, out of the arguments; a map is kept
for the next launch on the same array.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
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


class KnownMaps(dict[Any, "Made | None"]):
    """Maps by what differs among some launches: a number, or a tuple of them.

    A launch without a map, which is None, is to be done so that one is made.
    """

    def __init__(self, kept: Mapping[tuple[int, ...], Made], numbers: Sequence[Any]) -> None:
        """Those among `kept` in whose keys these numbers are, but for None, which may be any."""
        self._maps = kept
        self._numbers = tuple(numbers)
        self._places = [at for at, number in enumerate(numbers) if number is None]

    def __missing__(self, key: Any) -> Made | None:
        full = list(self._numbers)
        for at, number in zip(self._places, key if type(key) is tuple else (key,), strict=True):
            full[at] = number
        found = self._maps.get(tuple(full))
        if found is not None:
            if len(self) >= KEPT:
                self.clear()
            self[key] = found
        return found


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
        self.parameters = (wanted.base, *given)  # whose values tell maps apart
        self._kept: dict[tuple[int, ...], Made] = {}

    def known(self, values: Sequence[Any]) -> KnownMaps:
        """The maps of launches with these values, but for those that are None, which differ."""
        return KnownMaps(self._kept, [values[number] for number in self.parameters])

    def made(self, values: Sequence[Any]) -> Made:
        """The map for a launch with these values. Raises `UnmappableError`."""
        key = tuple([int(values[number]) for number in self.parameters])
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
