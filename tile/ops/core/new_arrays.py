"""New arrays of the library, and on the device, of an array that was passed.

Libraries are recognized by the class of the array, as in launches, so that none is imported.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from tile.errors import ArgumentTypeError
from tile.runtime.arguments.torch_tensors import is_torch

Shape = tuple[int, ...]
DType = np.dtype[Any]
Maker = Callable[[Any, Shape, DType], Any]
StridedMaker = Callable[[Shape, Shape, Any], Any]


def row_major(shape: Shape) -> tuple[int, ...]:
    """Return the strides, in elements, of a contiguous array."""
    strides = [1]
    for extent in reversed(shape[1:]):
        strides.append(strides[-1] * max(1, extent))
    return tuple(reversed(strides))[: len(shape)]


def new_array(like: Any, shape: Shape, dtype: DType, op: str) -> Any:
    """Return an uninitialized contiguous array of the library and device of the array `like`.

    Raises `ArgumentTypeError`, which names the op, for a library that cannot make one.

    >>> new_array(np.ones(3), (2, 2), np.dtype("float16"), "softmax").shape
    (2, 2)
    """
    kind: type = type(like)
    result = maker_of(kind)(like, shape, dtype)
    if result is None:
        raise ArgumentTypeError(
            f"{op}: {_library(kind)} has no `empty(shape, dtype)` to make an array like this "
            f"{kind.__name__}; pass an array as `out`, or NumPy arrays"
        )
    return result


@functools.cache
def maker_of(kind: type) -> Maker:
    """Return the function that makes a new array like one of a class, or None."""
    return _torch if is_torch(kind) else _MAKERS.get(_library(kind), _by_module)


def _library(kind: type) -> str:
    return str(kind.__module__).partition(".")[0]


def _numpy(like: Any, shape: Shape, dtype: DType) -> Any:
    return np.empty(shape, dtype)


def _torch(like: Any, shape: Shape, dtype: DType) -> Any:
    return like.new_empty(shape, dtype=torch_dtype_of(dtype))


def torch_dtype_of(dtype: DType) -> Any:
    """Return torch's dtype for one of NumPy."""
    return getattr(sys.modules["torch"], dtype.name)


def strided_maker(device: Any) -> StridedMaker | None:
    """Return torch's function of a shape, strides and a dtype for tensors on a device, or None.

    TorchInductor calls it. It allocates on the current device of a kind, past the dispatcher, which
    takes half of the time of `empty_like`.
    """
    guards = getattr(getattr(sys.modules["torch"]._C, "_dynamo", None), "guards", None)
    maker: StridedMaker | None = getattr(guards, f"_empty_strided_{device.type}", None)
    return maker


def _pyopencl(like: Any, shape: Shape, dtype: DType) -> Any:
    return sys.modules["pyopencl.array"].empty(like.queue, shape, dtype)


def _by_module(like: Any, shape: Shape, dtype: DType) -> Any:
    """Call the library's own `empty`, as CuPy has one; None if there is none."""
    empty = getattr(sys.modules[_library(type(like))], "empty", None)
    return None if empty is None else empty(shape, dtype=dtype)


_MAKERS: dict[str, Maker] = {"numpy": _numpy, "tile": _numpy, "pyopencl": _pyopencl}
