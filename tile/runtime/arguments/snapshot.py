"""Snapshots of arguments, to restore their contents after trial runs of a kernel.

Torch's tensors and CuPy's arrays are copied within their memory. All others are adapted like launch
arguments and then copied: NumPy arrays of any strides, the targets of pointers, and other device
arrays through the host.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from tile.errors import ArgumentTypeError
from tile.runtime.arguments.adapt import adapt
from tile.runtime.arguments.device_arrays import DeviceArray, PointerArray
from tile.runtime.arguments.tensor_descriptor import TensorDescriptor
from tile.runtime.arguments.uninitialized import EmptyArray


@dataclass(frozen=True)
class _Access:
    """The operations that copy and overwrite one kind of array."""

    matches: Callable[[Any], bool]
    copy: Callable[[Any], Any]
    write: Callable[[Any, Any], object]
    zero: Callable[[Any], object]


def _has(*names: str) -> Callable[[Any], bool]:
    return lambda value: all(hasattr(value, name) for name in names)


def _is_a(kind: type) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, kind)


def _write_numpy(array: Any, saved: Any) -> None:
    if array.flags.writeable:  # a read-only array cannot have changed
        np.copyto(array, saved, casting="no")


def _copy_empty(array: EmptyArray) -> tuple[Any, Any]:
    return array.view(np.ndarray).copy(order="K"), np.array(array.written)


def _write_empty(array: EmptyArray, saved: tuple[Any, Any]) -> None:
    """Restore the contents and the mask of written elements."""
    contents, written = saved
    _write_numpy(array, contents)
    mask = array.written
    if mask is not None:
        np.copyto(mask, written)


def _write_device(array: DeviceArray, saved: Any) -> None:
    if array.writeable:
        array.put(saved)


def _assign(array: Any, value: Any) -> None:
    array[...] = value


# torch: use `.data` instead of the tensor or `.detach()`, since autograd counts their in-place
# operations as changes of saved tensors; restoring puts back the contents that it saved.
_ACCESS = (
    _Access(_is_a(EmptyArray), _copy_empty, _write_empty, lambda array: _assign(array, 0)),
    _Access(
        _is_a(np.ndarray),
        lambda array: array.copy(order="K"),
        _write_numpy,
        lambda array: _assign(array, 0),
    ),
    _Access(
        _is_a(DeviceArray),
        lambda array: np.array(array.fetch()),
        _write_device,
        lambda array: array.put(np.zeros(array.shape, array.dtype)),
    ),
    _Access(
        _has("data", "clone", "copy_", "zero_"),
        lambda tensor: tensor.data.clone(),
        lambda tensor, saved: tensor.data.copy_(saved),
        lambda tensor: tensor.data.zero_(),
    ),
    _Access(
        _has("__cuda_array_interface__", "copy", "__setitem__"),
        lambda array: array.copy(),
        _assign,
        lambda array: _assign(array, 0),
    ),
)


def _find(value: Any) -> _Access | None:
    return next((access for access in _ACCESS if access.matches(value)), None)


def _arrays(name: str, value: Any) -> Iterator[tuple[_Access, Any]]:
    """Yield the arrays of the argument `name`: several for a tuple or for pointers."""
    if isinstance(value, TensorDescriptor):
        value = value.base
    access = _find(value)
    if isinstance(value, tuple):
        for item in value:
            yield from _arrays(name, item)
    elif access is not None:
        yield access, value
        for target in value.targets if isinstance(value, PointerArray) else ():
            yield from _arrays(name, target)
    else:
        adapted = adapt(value, f"argument {name!r}")
        access = _find(adapted)
        if access is not None:
            yield access, adapted


def _some_arrays(name: str, value: Any) -> list[tuple[_Access, Any]]:
    arrays = list(_arrays(name, value))
    if not arrays:
        raise ArgumentTypeError(
            f"argument {name!r} is a {type(value).__name__}; only arrays have contents that can be "
            "saved and put back between tuning runs"
        )
    return arrays


def fill_zero(name: str, value: Any) -> None:
    """Set every element of the argument `name` to 0; raise `ArgumentTypeError` if not an array."""
    for access, array in _some_arrays(name, value):
        if not isinstance(array, PointerArray):  # clear the targets, not the addresses
            access.zero(array)


class Snapshot:
    """The contents of arrays at the time when they were passed to `keep`."""

    def __init__(self) -> None:
        self._saved: dict[str, list[tuple[_Access, Any, Any]]] = {}

    def save(self, name: str, value: Any) -> None:
        """Copy the arrays of the argument `name`, unless they are copied already.

        Raises `ArgumentTypeError` if `value` is neither an array nor a tuple of arrays.
        """
        if name not in self._saved:
            arrays = _some_arrays(name, value)
            self._saved[name] = [(access, array, access.copy(array)) for access, array in arrays]

    def restore(self) -> None:
        """Restore all contents."""
        for arrays in self._saved.values():
            for access, array, saved in arrays:
                access.write(array, saved)
