"""Helpers of nested tuples and of types, as `triton._utils` has them."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from tile.ir.types import Kind, Scalar
from tile.runtime.arguments.adapt import MockArray

__all__ = [
    "canonicalize_dtype",
    "find_paths_if",
    "get_iterable_path",
    "set_iterable_path",
    "validate_block_shape",
]


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
