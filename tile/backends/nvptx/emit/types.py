"""Types and constants as LLVM spells them. A pointer is an integer of 64 bits here."""

from __future__ import annotations

import functools
import struct
from typing import Any

import numpy as np

from tile.ir import numerics
from tile.ir.types import BF16, F16, F32, F64, FP8, I1, Fragment, Pointer, Scalar, Type

_FLOATS = {F16: "half", BF16: "bfloat", F32: "float", F64: "double"}
_BITS = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}


@functools.cache
def llvm_type(element: Scalar | Pointer) -> str:
    """The type of a register that holds an element."""
    if isinstance(element, Pointer):
        return "i64"
    return _FLOATS.get(element) or f"i{element.bits}"


@functools.cache
def memory_type(element: Scalar | Pointer) -> str:
    """The type of an element in memory: an i1 takes a byte."""
    return "i8" if element is I1 else llvm_type(element)


def count_of(ty: Type) -> int:
    """The registers of a fragment; 1 for a scalar."""
    return ty.count if isinstance(ty, Fragment) else 1


def number_of(ty: Type) -> Scalar:
    """The element of a type, which is a number."""
    assert isinstance(ty.element, Scalar)
    return ty.element


def is_integer(element: Scalar | Pointer) -> bool:
    """Whether LLVM has an integer for it; so it has for pointers and 8-bit floats."""
    return element not in _FLOATS


def is_signed(element: Scalar | Pointer) -> bool:
    """Whether comparing and extending it goes by its sign."""
    return isinstance(element, Scalar) and element.is_int_signed()


def literal(value: Any, element: Scalar | Pointer) -> str:
    """A number as a constant of an element type, rounded as `numerics.constant` does."""
    if element is I1:
        return "true" if value else "false"
    array = numerics.constant(value, element)
    if is_integer(element):
        if element in FP8:
            return str(int(array.view(np.uint8)))
        return str(int(array))
    if element is F32:
        (bits,) = struct.unpack("<Q", struct.pack("<d", float(array)))
        return f"0x{bits:016X}"
    bits = int(array.view(_BITS[element.itemsize]))
    prefix = {F16: "0xH", BF16: "0xR", F64: "0x"}[element]  # type: ignore[index]
    return f"{prefix}{bits:0{2 * element.itemsize}X}"


def float_literal(value: float) -> str:
    """A constant of f32 that is exact."""
    (bits,) = struct.unpack("<Q", struct.pack("<d", value))
    return f"0x{bits:016X}"


def is_literal(operand: str) -> bool:
    """Whether an operand is a constant rather than a register."""
    return operand[0] != "%"
