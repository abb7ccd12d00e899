"""Types and constants in LLVM's spelling. A pointer is a 64-bit integer here."""

from __future__ import annotations

import functools
import struct
from typing import Any

import numpy as np

from tile.ir import semantics
from tile.ir.types import BF16, F16, F32, F64, I1, Pointer, Scalar

_FLOATS = {F16: "half", BF16: "bfloat", F32: "float", F64: "double"}
_BITS = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}


@functools.cache
def llvm_type(element: Scalar | Pointer) -> str:
    """Return the type of a register that holds an element."""
    if isinstance(element, Pointer):
        return "i64"
    return _FLOATS.get(element) or f"i{element.bits}"


@functools.cache
def memory_type(element: Scalar | Pointer) -> str:
    """Return the type of an element in memory: an i1 takes a byte."""
    return "i8" if element is I1 else llvm_type(element)


def is_integer(element: Scalar | Pointer) -> bool:
    """Return True if LLVM holds it as an integer, as it does pointers and 8-bit floats."""
    return element not in _FLOATS


def literal(value: Any, element: Scalar | Pointer) -> str:
    """Return a number as a constant of an element type, rounded as `semantics.constant` does."""
    if element is I1:
        return "true" if value else "false"
    array = semantics.constant(value, element)
    if is_integer(element):
        if element.is_fp8():
            return str(int(array.view(np.uint8)))
        return str(int(array))
    if element is F32:
        (bits,) = struct.unpack("<Q", struct.pack("<d", float(array)))
        return f"0x{bits:016X}"
    bits = int(array.view(_BITS[element.itemsize]))
    prefix = {F16: "0xH", BF16: "0xR", F64: "0x"}[element]  # type: ignore[index]
    return f"{prefix}{bits:0{2 * element.itemsize}X}"


def is_literal(operand: str) -> bool:
    """Return True if an operand is a constant, not a register."""
    return operand[0] != "%"
