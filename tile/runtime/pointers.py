"""Arrays of pointers, for kernels that load the addresses of their arrays from memory."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from typing import Any, SupportsIndex

import numpy as np

from tile.errors import ArgumentTypeError, ArgumentValueError
from tile.ir.dtypes import numpy_dtype
from tile.ir.types import Pointer, Scalar
from tile.runtime.elements import Array, element_type


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
        steps = [
            stride * (extent - 1)
            for stride, extent in zip(target.strides, target.shape, strict=True)
        ]
        offset = address - target.ctypes.data
        low, high = sum(s for s in steps if s < 0), sum(s for s in steps if s > 0)
        if low <= offset <= high + target.itemsize:
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
