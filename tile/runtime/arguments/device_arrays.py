"""Arrays in device memory, and their copies in host memory for backends that run on the host.

Aliasing is preserved: arrays whose address ranges overlap are copied into one host buffer, each
with its own offset and strides. Arrays of pointers are for kernels that load the addresses of their
arrays from memory. `element_type` maps NumPy dtypes to IR scalars, or raises.
"""

from __future__ import annotations

import math
import pickle
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, SupportsIndex

import numpy as np

from tile.backends.base import footprint
from tile.errors import ArgumentTypeError, ArgumentValueError
from tile.ir.numpy_dtypes import SCALAR_OF_DTYPE, numpy_dtype
from tile.ir.types import Pointer, Scalar

Array = np.ndarray[Any, np.dtype[Any]]
DType = np.dtype[Any]

NAMES = ", ".join(dtype.name for dtype in SCALAR_OF_DTYPE if dtype.names is None)


def contiguous_strides(shape: Sequence[int], itemsize: int = 1) -> tuple[int, ...]:
    """Return the strides of a contiguous array, in bytes of elements of a size."""
    steps = [itemsize]
    for extent in reversed(shape[1:]):
        steps.append(steps[-1] * max(1, extent))
    return tuple(reversed(steps))[: len(shape)]


def element_type(dtype: DType, label: str) -> Scalar:
    """Return the scalar type of elements of `dtype`.

    Raises `ArgumentTypeError`, naming `label`, for dtypes that kernels do not support.
    """
    scalar = SCALAR_OF_DTYPE.get(dtype)
    if scalar is None:
        raise ArgumentTypeError(f"{label} has dtype {dtype}; {_advice(dtype)}")
    return scalar


def _advice(dtype: DType) -> str:
    if dtype.names is not None:
        return f"kernels take no structured arrays: pass a field of it, as in x[{dtype.names[0]!r}]"
    if not dtype.isnative:
        return (
            "its bytes are in the other order than this machine's: "
            "convert it with x.astype(x.dtype.newbyteorder('='))"
        )
    if dtype.kind == "O":
        return f"kernels work on numbers, not on Python objects: convert it, as in {_EXAMPLE}"
    if dtype.kind == "c":
        return (
            "kernels have no complex numbers: pass x.real and x.imag, "
            f"or x.view(np.float{dtype.itemsize * 4}), which alternates them"
        )
    return f"kernels work on {NAMES}: convert it, as in {_EXAMPLE}"


_EXAMPLE = "x.astype(np.float32)"


# Host buffers have addresses congruent to the device's modulo this, so that a copy has the same
# known alignment as the array.
ALIGNMENT = 256


@dataclass(frozen=True, eq=False)
class DeviceArray:
    """An array of another library in device memory. `strides` are in bytes.

    `fetch` copies its elements to the host, and `put` copies an array of the same shape and dtype
    to the device. `stream`: the CUDA stream on which the elements are ready, where that is known.
    """

    source: object
    device: str
    dtype: DType
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    address: int
    fetch: Callable[[], Array]
    put: Callable[[Array], object]
    writeable: bool = True
    stream: int | None = None

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    @property
    def span(self) -> tuple[int, int]:
        """The address range: that of the first byte, and one past the last byte."""
        low, high = footprint(self.shape, self.strides, self.dtype.itemsize)
        return self.address + low, self.address + high

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


class PointerArray(np.ndarray[Any, np.dtype[Any]]):
    """An array of addresses of arrays, which a kernel takes as a pointer to pointers.

    `targets` are the arrays; they are kept alive and give the interpreter their bounds. `pointee`
    is the type of their elements. Slices and offset copies (`pointers + 4 * itemsize`) have the
    same targets and pointee.
    """

    targets: list[Array]
    pointee: Scalar | Pointer

    def __reduce_ex__(self, protocol: SupportsIndex, /) -> Any:
        """Return the recipe to pickle the targets, and for each pointer its target and offset."""
        positions = [_target(self.targets, int(address)) for address in np.ravel(_addresses(self))]
        return _pointing, (self.targets, positions, self.shape)

    def __array_finalize__(self, obj: object) -> None:
        if isinstance(obj, PointerArray):
            self.targets = obj.targets
            self.pointee = obj.pointee


def pointer_array(targets: Sequence[Array]) -> PointerArray:
    """Return pointers to the first elements of `targets`, NumPy arrays of one dtype.

    Raises `ArgumentValueError` if there are no arrays, and `ArgumentTypeError` for dtypes that
    differ or that kernels do not support.
    """
    if not targets:
        raise ArgumentValueError("tile.pointers takes at least one array: none has no element type")
    kinds = [_pointee(target, f"array {i} of tile.pointers") for i, target in enumerate(targets)]
    for index, kind in enumerate(kinds):
        if kind != kinds[0]:
            raise ArgumentTypeError(
                f"the arrays of tile.pointers are of one dtype: array 0 is {targets[0].dtype}, "
                f"array {index} is {targets[index].dtype}"
            )
    addresses = np.array([target.ctypes.data for target in targets], np.uint64)
    result = addresses.view(numpy_dtype(Pointer(kinds[0]))).view(PointerArray)
    result.targets = list(targets)
    result.pointee = kinds[0]
    return result


def _addresses(pointers: Array) -> Array:
    return np.ascontiguousarray(pointers.view(np.ndarray)).view(np.uint64)


def _target(targets: Sequence[Array], address: int) -> tuple[int, int]:
    """Return the index of the array that contains or precedes an address, and the byte offset."""
    for index, target in enumerate(targets):
        offset = address - target.ctypes.data
        low, high = footprint(target.shape, target.strides, target.itemsize)
        if low <= offset <= high:
            return index, offset
    raise pickle.PicklingError(
        f"a pointer to address {address:#x}, outside the arrays of tile.pointers, is not valid in "
        "another process"
    )


def _pointing(
    targets: Sequence[Array], positions: Sequence[tuple[int, int]], shape: tuple[int, ...]
) -> PointerArray:
    """Return pointers to positions in arrays, which may have come from another process."""
    result = pointer_array(targets)
    addresses = [targets[index].ctypes.data + offset for index, offset in positions]
    pointers = np.array(addresses, np.uint64).reshape(shape).view(result.dtype).view(PointerArray)
    pointers.targets, pointers.pointee = result.targets, result.pointee
    return pointers


def _pointee(target: Array, label: str) -> Scalar | Pointer:
    if isinstance(target, PointerArray):
        return Pointer(target.pointee)
    return element_type(target.dtype, label)
