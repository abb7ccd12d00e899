"""Read `__array_interface__` and `__cuda_array_interface__` of other libraries' arrays.

Both are dictionaries that the object provides, with an unchecked address, type and shape. No memory
is read before the dictionary has been validated.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tile.errors import ArgumentTypeError
from tile.runtime.arguments.device_arrays import DType, element_type
from tile.short_repr import short_repr

HOST = "__array_interface__"
CUDA = "__cuda_array_interface__"
ADDRESS_BITS = 64


@dataclass(frozen=True)
class Interface:
    """The contents of such a dictionary.

    `strides` are in bytes, or None if the array is contiguous. `address` is None if the memory is
    that of a buffer instead, or of the object itself. `stream` is None if nothing waits for one.
    """

    dtype: DType
    shape: tuple[int, ...]
    strides: tuple[int, ...] | None
    address: int | None
    read_only: bool
    stream: int | None


def read_interface(value: object, protocol: str, label: str) -> Interface:
    """Read the dictionary of an object, or raise `ArgumentTypeError` if it is invalid."""
    fields = getattr(value, protocol)
    whose = f"`{protocol}` of {label} ({type(value).__name__})"
    if not isinstance(fields, Mapping):
        raise ArgumentTypeError(f"{whose} is {short_repr(fields)}; it must be a dictionary")
    missing = [key for key in ("shape", "typestr") if key not in fields]
    missing += ["data"] * (protocol == CUDA and "data" not in fields)
    if missing:
        raise ArgumentTypeError(f"{whose} has no {' and no '.join(map(repr, missing))}")
    if fields.get("mask") is not None:
        raise ArgumentTypeError(f"{label} has a mask, which kernels would ignore")
    shape = _integers(fields["shape"], f"'shape' in {whose}")
    if any(extent < 0 for extent in shape):
        raise ArgumentTypeError(f"'shape' in {whose} is {short_repr(shape)}; extents are 0 or more")
    strides = fields.get("strides")
    if strides is not None:
        strides = _integers(strides, f"'strides' in {whose}")
        if len(strides) != len(shape):
            raise ArgumentTypeError(
                f"'strides' in {whose} are {short_repr(strides)}, and its shape is "
                f"{short_repr(shape)}: there must be one for each axis"
            )
    dtype = _dtype(fields["typestr"], whose)
    element_type(dtype, label)
    address, read_only = _data(fields.get("data"), whose, protocol)
    if address == 0 and 0 not in shape:
        raise ArgumentTypeError(f"'data' in {whose} is a null pointer, and its shape {shape}")
    stream = _stream(fields.get("stream"), whose) if protocol == CUDA else None
    return Interface(dtype, shape, strides, address, read_only, stream)


def _stream(stream: Any, whose: str) -> int | None:
    """Return the stream for which a consumer waits; 1 is the default stream."""
    try:
        number = None if stream is None else operator.index(stream)
    except TypeError:
        number = 0
    if number is not None and not 0 < number < 1 << ADDRESS_BITS:
        raise ArgumentTypeError(
            f"'stream' in {whose} is {short_repr(stream)}; it is None, 1 for the default stream, 2 "
            "for that of the thread, or the address of another"
        )
    return number


def _integers(values: Any, key: str) -> tuple[int, ...]:
    try:
        numbers = tuple(operator.index(value) for value in values)
    except TypeError:
        raise ArgumentTypeError(f"{key} is {short_repr(values)}; it must be integers") from None
    if any(abs(number) >> (ADDRESS_BITS - 1) for number in numbers):
        raise ArgumentTypeError(f"{key} is {short_repr(values)}; they are of 64 bits at most")
    return numbers


def _dtype(typestr: Any, whose: str) -> DType:
    if not isinstance(typestr, str):
        raise ArgumentTypeError(
            f"'typestr' in {whose} is {short_repr(typestr)}; it is text such as '<f4'"
        )
    try:
        return np.dtype(typestr)
    except TypeError as error:
        raise ArgumentTypeError(
            f"'typestr' in {whose} is {short_repr(typestr)}; it is text such as '<f4'"
        ) from error


def _data(data: Any, whose: str, protocol: str) -> tuple[int | None, bool]:
    if protocol == HOST and not isinstance(data, tuple):
        return None, False
    try:
        pointer, read_only = data
        # CUDA's protocol uses None for an array without elements.
        address = 0 if pointer is None and protocol == CUDA else operator.index(pointer)
    except (TypeError, ValueError):
        raise ArgumentTypeError(
            f"'data' in {whose} is {short_repr(data)}; it is a pair of an address and whether the "
            "array is read-only"
        ) from None
    if not 0 <= address < 1 << ADDRESS_BITS:
        raise ArgumentTypeError(f"'data' in {whose} has {short_repr(address)} for an address")
    return address, bool(read_only)
