"""Tensor maps: descriptions of arrays for TMA, which the driver encodes.

A launch encodes one from its arguments for each array that its kernel accesses by TMA, and keeps it
for the next launch on the same array. The map of another array of the same extents and strides is a
copy with another address, which the driver writes by `cuTensorMapReplaceAddress`: the format of a
map is its own. So programs whose arrays lie elsewhere in each call stay on the fast path.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from tile.backends.nvptx import driver
from tile.backends.nvptx.launch_metadata import (
    MAP_AXIS,
    MAP_BYTES,
    MAP_ELEMENTS,
    MAP_STRIDE,
    TensorMap,
)
from tile.errors import BackendError, ExecutionError

CACHE_SIZE = 256  # cached maps of one parameter; a full cache is cleared
_MAX_STRIDE = 1 << 40
# Drivers encode maps of arrays under 128 KiB that have gaps wrongly on Blackwell: TMA may fault.
# Bit 85 is to be cleared (NVIDIA, release notes of driver 595.71.05, "known issues").
_SMALL_ARRAY, _WORD, _BIT = 128 << 10, 8, 1 << 21


class EncodedMap(NamedTuple):
    """A tensor map that the driver has encoded, and its address."""

    address: int
    map: Any


class MapLookup(dict[Any, "EncodedMap | None"]):
    """Encoded maps by those arguments that vary among some launches: a number, or a tuple of them.

    A launch whose map is missing (None) is done the ordinary way, which encodes the map.
    """

    def __init__(
        self, find: Callable[[tuple[int, ...]], EncodedMap | None], pattern: Sequence[Any]
    ) -> None:
        """Look up maps by `find`, with keys that equal `pattern`; None stands for any number."""
        self._find = find
        self._pattern = tuple(pattern)
        self._varying = [at for at, number in enumerate(pattern) if number is None]

    def __missing__(self, key: Any) -> EncodedMap | None:
        full_key = list(self._pattern)
        for at, number in zip(self._varying, key if type(key) is tuple else (key,), strict=True):
            full_key[at] = number
        encoded = self._find(tuple(full_key))
        if encoded is not None:
            if len(self) >= CACHE_SIZE:
                self.clear()
            self[key] = encoded
        return encoded


class UnmappableError(Exception):
    """Raised for an array that no tensor map can describe, with the reason."""


class MapEncoder:
    """Encodes the maps of one kernel parameter, and caches them."""

    def __init__(
        self, description: TensorMap, empty: Callable[[], int], *, clears_bit: bool = False
    ) -> None:
        """`empty` returns the address of 16 bytes of zeros, which stand for empty arrays.

        clears_bit: True for Blackwell, whose maps of small arrays drivers encode wrongly.
        """
        self.description = description
        self._clears_bit = clears_bit
        self.itemsize = MAP_ELEMENTS[description.element][1]
        self._empty = empty
        self._values = (description.offset, *description.extents, *description.strides)
        parameters = [number for value in self._values for number in value.parameters]
        self.parameters = (description.base, *parameters)  # maps of equal arguments are equal
        self._cache: dict[tuple[int, ...], EncodedMap] = {}
        self._latest: dict[tuple[int, ...], EncodedMap] = {}  # by all but the base

    def lookup(self, arguments: Sequence[Any]) -> MapLookup:
        """Return the maps of launches with these arguments; None stands for any number."""
        return MapLookup(self._find, [arguments[number] for number in self.parameters])

    def template(self, arguments: Sequence[Any]) -> tuple[int, bytes] | None:
        """Return the map of the latest launch, and what is added to the address of its array.

        None if maps of launches with these arguments, of which None stands for any number, differ
        in more than the address; or if there is none.
        """
        base, *others = [arguments[number] for number in self.parameters]
        if base is not None or None in others:
            return None
        latest = self._latest.get(tuple(map(int, others)))
        if latest is None:
            return None
        offset = self.itemsize * self.description.offset.of(
            others[: len(self.description.offset.parameters)]
        )
        return offset, ctypes.string_at(latest.address, MAP_BYTES)

    def encoded(self, arguments: Sequence[Any]) -> EncodedMap:
        """Return the map for a launch with these arguments. Raises `UnmappableError`."""
        key = tuple([int(arguments[number]) for number in self.parameters])
        return self._find(key) or self._encode(key, arguments)

    def _find(self, key: tuple[int, ...]) -> EncodedMap | None:
        """Return the map for these numbers, or a copy of one that differs in the base alone."""
        encoded = self._cache.get(key)
        if encoded is not None:
            return encoded
        similar = self._latest.get(key[1:])
        offset = self.description.offset
        address = key[0] + self.itemsize * offset.of(key[1 : 1 + len(offset.parameters)])
        if similar is None or address % MAP_STRIDE:
            return None
        copied = driver.with_base(similar.address, address)
        return None if copied is None else _keep(self._cache, key, EncodedMap(*copied))

    def _encode(self, key: tuple[int, ...], arguments: Sequence[Any]) -> EncodedMap:
        array = self.description
        offset, *numbers = [value.value(arguments) for value in self._values]
        base = int(arguments[array.base]) + self.itemsize * offset
        rank = len(array.extents)
        for axis, (value, number) in enumerate(zip(array.extents, numbers, strict=False)):
            if value.parameters and number < 0:  # a mask leaves out all elements, a map none
                raise UnmappableError(f"its extent along axis {axis} is {number}")
        extents = [number & MAP_AXIS for number in numbers[:rank]]
        strides = [number * self.itemsize for number in numbers[rank:]]
        is_empty = 0 in extents
        if is_empty:
            base, extents, strides = self._empty(), [1] * rank, [MAP_STRIDE] * (rank - 1)
        # The stride of an axis of one element is never used, so any valid one does.
        strides = [MAP_STRIDE if n == 1 else s for n, s in zip(extents, strides, strict=False)]
        if base % MAP_STRIDE:
            raise UnmappableError(f"its address {base:#x} is not a multiple of {MAP_STRIDE} bytes")
        for axis, stride in enumerate(strides):
            if stride % MAP_STRIDE or not 0 <= stride < _MAX_STRIDE:
                raise UnmappableError(
                    f"its stride along axis {axis} is {stride} bytes, and a map takes multiples of "
                    f"{MAP_STRIDE} from 0 to {_MAX_STRIDE}"
                )
        row = extents[-1] * self.itemsize
        if array.written and not is_empty and row % MAP_STRIDE:
            # It would write up to the next multiple (github.com/triton-lang/triton/pull/11893).
            raise UnmappableError(
                f"its extent along the last axis is {row} bytes, and TMA writes multiples of "
                f"{MAP_STRIDE}"
            )
        if array.in_strips:
            width = array.box_dim[-1]
            # Launches whose last extent is no multiple of a strip do not use the map.
            extents = [max(1, extents[-1] // width), *extents[:-1], width]
            strides = [width * self.itemsize, *strides]
        made = _encoded(array, base, extents, strides)
        encoded = EncodedMap(int(made.getPtr()), made)
        if self._clears_bit and _reach(extents, strides, self.itemsize) < _SMALL_ARRAY:
            word = ctypes.c_uint64.from_address(encoded.address + _WORD)
            word.value &= ~_BIT
        encoded = _keep(self._cache, key, encoded)
        return encoded if is_empty else _keep(self._latest, key[1:], encoded)


def _encoded(array: TensorMap, base: int, extents: Sequence[int], strides: Sequence[int]) -> Any:
    """Return the map that the driver encodes, of the axes that it has.

    Raises `UnmappableError` if it refuses a map of strips, in im2col mode, or without bounds, as
    those of pointers without masks are.
    """
    shape = (array.element, base, extents, strides, array.box_dim, array.swizzle)
    is_bounded = max(extents) <= MAP_AXIS >> 1
    if not array.window and not array.in_strips and is_bounded:
        return driver.tensor_map(*shape)
    try:
        if not array.window:
            return driver.tensor_map(*shape)
        _check_window(array, extents)
        return driver.tensor_map(*shape, array.window)
    except (BackendError, ExecutionError) as error:
        raise UnmappableError(str(error).splitlines()[0]) from error


def _reach(extents: Sequence[int], strides: Sequence[int], itemsize: int) -> int:
    """Return the bytes from an array's first element to the end of its last one."""
    steps = zip(extents, (*strides, itemsize), strict=True)
    return itemsize + sum((extent - 1) * stride for extent, stride in steps)


def _check_window(array: TensorMap, extents: Sequence[int]) -> None:
    """Raise `UnmappableError` for images whose window has no pixel."""
    lower, upper, _ = array.window
    for axis, (extent, low, high) in enumerate(zip(extents[1:-1], lower, upper, strict=True), 1):
        if extent - 1 + high < low:
            raise UnmappableError(
                f"along axis {axis}, of {extent} elements, there is no pixel from {low} to "
                f"{extent - 1 + high}"
            )


def _keep(
    cache: dict[tuple[int, ...], EncodedMap], key: tuple[int, ...], encoded: EncodedMap
) -> EncodedMap:
    if len(cache) >= CACHE_SIZE:
        cache.clear()
    cache[key] = encoded
    return encoded
