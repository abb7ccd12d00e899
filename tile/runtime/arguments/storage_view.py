"""Views that kernels may leave: torch tensors whose bounds are those of their storage.

Programs written for Triton may pass a view and address what else its storage has, as pointers have
no extents there. For them `bounds` reports accesses outside of the storage.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tile.runtime.arguments.torch_tensors import is_torch


class StorageView(np.ndarray[Any, np.dtype[Any]]):
    """An array on the host whose accessible memory is more than its elements.

    storage_span: the bytes [low, high) that are accessible, relative to the first element.
    """

    storage_span: tuple[int, int]


def with_storage(value: Any) -> Any:
    """Return an adapted argument in which torch's tensors on the host are `StorageView`s.

    Tensors that are all of their storage, or not aligned in it, and other values are returned
    unchanged.
    """
    if type(value) is tuple:
        return tuple(map(with_storage, value))
    if type(value) is not np.ndarray or not value.size:
        return value
    base: Any = value
    while isinstance(base, np.ndarray):
        base = base.base
    if not is_torch(type(base)):
        return value
    storage = base.untyped_storage()
    low = storage.data_ptr() - value.ctypes.data
    span = low, low + storage.nbytes()
    is_whole = span == (0, value.nbytes) and value.flags.c_contiguous
    if is_whole or low % value.itemsize:
        return value
    view = value.view(StorageView)
    view.storage_span = span
    return view
