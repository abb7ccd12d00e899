"""Arrays in device memory, and their copies in host memory for backends that run on the host.

Aliasing is preserved: arrays whose address ranges overlap are copied into one host buffer, each
with its own offset and strides.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from tile.runtime.elements import Array, DType

# Host buffers have addresses congruent to the device's modulo this, so that a copy has the same
# known alignment as the array.
ALIGNMENT = 256


@dataclass(frozen=True, eq=False)
class DeviceArray:
    """An array of another library in device memory. `strides` are in bytes.

    `fetch` copies its elements to the host, and `put` copies an array of the same shape and dtype
    to the device.
    """

    source: object
    device: str
    dtype: DType
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    address: int
    writeable: bool
    fetch: Callable[[], Array]
    put: Callable[[Array], object]

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    @property
    def span(self) -> tuple[int, int]:
        """The address range: that of the first byte, and one past the last byte."""
        if self.size == 0:
            return self.address, self.address
        reach = [
            stride * (extent - 1) for stride, extent in zip(self.strides, self.shape, strict=True)
        ]
        low = self.address + sum(step for step in reach if step < 0)
        high = self.address + sum(step for step in reach if step > 0)
        return low, high + self.dtype.itemsize

    def once(self) -> tuple[slice, ...]:
        """Return the index that selects every element once: one along each axis of stride 0."""
        return tuple(slice(0, 1) if stride == 0 else slice(None) for stride in self.strides)


def host_copies(arrays: Sequence[DeviceArray]) -> list[Array]:
    """Return host copies of the arrays, with the same strides, alignment and overlaps."""
    copies: dict[int, Array] = {}
    for group in _overlapping(arrays):
        low = min(array.span[0] for array in group)
        high = max(array.span[1] for array in group)
        buffer = _aligned_buffer(low, high - low)
        for array in group:
            copies[id(array)] = _view(array, buffer, low)
            copies[id(array)][array.once()] = array.fetch()[array.once()]
    return [copies[id(array)] for array in arrays]


def _overlapping(arrays: Sequence[DeviceArray]) -> list[list[DeviceArray]]:
    """Group the arrays by device and overlapping address ranges."""
    groups: list[list[DeviceArray]] = []
    device, end = "", 0
    for array in sorted(arrays, key=lambda array: (array.device, array.span)):
        low, high = array.span
        if not groups or array.device != device or low >= end:
            groups.append([array])
            device, end = array.device, high
        else:
            groups[-1].append(array)
            end = max(end, high)
    return groups


def _aligned_buffer(address: int, size: int) -> Array:
    raw = np.empty(size + ALIGNMENT, np.uint8)
    shift = (address - raw.ctypes.data) % ALIGNMENT
    return raw[shift : shift + size]


def _view(array: DeviceArray, buffer: Array, low: int) -> Array:
    if array.size == 0:
        return np.empty(array.shape, array.dtype)
    return np.ndarray(
        array.shape, array.dtype, buffer=buffer, offset=array.address - low, strides=array.strides
    )
