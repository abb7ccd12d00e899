"""Names of Triton's language modules that programs use outside kernels."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

from tile.errors import UnsupportedError
from tile.frontend.python.constexpr_function import constexpr_function
from tile.ir.types import Kind, Scalar
from tile.language.core import dtypes
from tile.language.core.constexpr import constexpr
from tile.runtime.arguments.adapt import MockArray

T = TypeVar("T")

TRITON_MAX_TENSOR_NUMEL = 1 << 20
"""The most elements of a tile in Triton; `tile` has no such limit."""


CONSTEXPR_0 = constexpr(0)


def must_use_result(value: Any, statement: Any = True) -> Any:
    """Return the function: `tile` does not warn of results that a kernel does not use."""
    return value if callable(value) else lambda function: function


def aggregate(cls: type) -> type:
    """Refuse the class: kernels take tuples and named tuples.

    Raises `UnsupportedError`.
    """
    raise UnsupportedError(
        f"@triton.aggregate of {cls.__name__}: this version of tile has no aggregates; use a "
        "named tuple"
    )


def _unwrap_if_constexpr(value: Any) -> Any:
    """Return the value in a `tl.constexpr`, or the value itself."""
    return value.value if isinstance(value, constexpr) else value


@constexpr_function
def get_int_dtype(bitwidth: int, signed: bool) -> Any:
    """Return the integer type of a width, such as `tl.int32`."""
    name = f"{'int' if signed or bitwidth == 1 else 'uint'}{bitwidth}"
    return getattr(dtypes, name)


def canonicalize_dtype(dtype: Any) -> str:
    """Return the name of a dtype in signatures, such as `"fp32"`."""
    element = MockArray(dtype).element
    assert isinstance(element, Scalar), "a dtype is no pointer"
    return "i1" if element.kind is Kind.BOOL else element.alias


Path = tuple[int, ...]


def find_paths_if(iterable: Iterable[Any], pred: Callable[[Path, Any], object]) -> list[Path]:
    """Return the paths, in nested tuples and lists, of the items for which `pred` is true."""
    paths = []
    for index, item in enumerate(iterable):
        if isinstance(item, tuple | list):
            inner = find_paths_if(item, functools.partial(_below, pred, index))
            paths += [(index, *path) for path in inner]
        elif pred((index,), item):
            paths.append((index,))
    return paths


def _below(pred: Callable[[Path, Any], object], index: int, path: Path, item: Any) -> object:
    return pred((index, *path), item)


def get_iterable_path(iterable: Sequence[Any], path: Path) -> Any:
    """Return the item at a path in nested tuples and lists."""
    item: Any = iterable
    for index in path:
        item = item[index]
    return item


def set_iterable_path(iterable: list[Any], path: Path, value: Any) -> None:
    """Set the item at a path in nested lists."""
    get_iterable_path(iterable, path[:-1])[path[-1]] = value


def validate_block_shape(shape: Sequence[int]) -> int:
    """Return the number of elements of a block. Raises `ValueError` for invalid extents."""
    size = 1
    for extent in shape:
        if extent < 1 or extent & (extent - 1):
            raise ValueError(f"the extents of a block are powers of two, and {extent} is not")
        size *= extent
    return size
