"""Arrays in a device's memory, and their copies in the host's for backends that run there.

Views of one array keep sharing memory: arrays whose address ranges overlap are copied into one host
buffer, each at its own offset and with its own strides, so a kernel sees them exactly as they were.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from tile.runtime.elements import Array, DType

# Host buffers lie at addresses that agree with the device's modulo this, so that what is known of
# an array's alignment stays true of its copy.
ALIGNMENT = 256


@dataclass(frozen=True, eq=False)
class DeviceArray:
    """An array of another library in a device's memory. `strides` are in bytes.

    `fetch` copies its elements to the host, and `put` sets them from an array of the same shape and
    dtype.
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
        """The addresses of its first byte, and after its last one."""
        if self.size == 0:
            return self.address, self.address
        reach = [
            stride * (extent - 1) for stride, extent in zip(self.strides, self.shape, strict=True)
        ]
        low = self.address + sum(step for step in reach if step < 0)
        high = self.address + sum(step for step in reach if step > 0)
        return low, high + self.dtype.itemsize

    def once(self) -> tuple[slice, ...]:
        """The index that takes every element once: one along each axis of stride 0."""
        return tuple(slice(0, 1) if stride == 0 else slice(None) for stride in self.strides)


def host_copies(arrays: Sequence[DeviceArray]) -> list[Array]:
    """Copies on the host, one to each array, with the same strides, alignment and overlaps."""
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
    """The arrays in groups, by device and by address ranges that overlap."""
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
