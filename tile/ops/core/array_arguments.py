"""The arrays among the arguments of a call, alone or in lists."""

from __future__ import annotations

import operator
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from tile.runtime.arguments.torch_tensors import is_plain_tensor

Arguments = Sequence[Any]  # of a call, all parameters in order
Source = tuple[int, int | None]
"""An argument's index, and for an array of a list its index there."""


def sources_of(arguments: Arguments) -> Iterator[tuple[Source, Any]]:
    """Yield the arrays of a call's arguments, without arguments that are the same as earlier ones.

    Arrays that are the same in another way are yielded twice.
    """
    for index, value in enumerate(arguments):
        if any(same_arrays(value, earlier) for earlier in arguments[:index]):
            continue
        if is_array(value):
            yield (index, None), value
        elif is_array_list(value):
            yield from (((index, at), item) for at, item in enumerate(value))


def same_arrays(one: Any, other: Any) -> bool:
    """Return True if two arguments are one array, or lists of the same arrays."""
    if is_array_list(one) and is_array_list(other):
        return one is other or (len(one) == len(other) and all(map(operator.is_, one, other)))
    return one is other and is_array(one)


def is_array(value: Any) -> bool:
    """Return True for arrays of the kinds that plans support."""
    return type(value) is np.ndarray or is_plain_tensor(type(value))


def is_array_list(value: Any) -> bool:
    """Return True for a list or tuple of one such array or more."""
    return type(value) in (list, tuple) and bool(value) and all(map(is_array, value))


def address_of(array: Any) -> int:
    """Return the address of an array's first element."""
    address: int = array.ctypes.data if type(array) is np.ndarray else array.data_ptr()
    return address
