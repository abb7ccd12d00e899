"""Types of OpenCL C, and constants as it has them.

A value of the IR is held in a variable of its *carrier*: unsigned integers for integers, the bits
for floats on which the device has no arithmetic. In memory an element has its *stored* type.
"""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np

from tile.ir import numerics
from tile.ir.types import BF16, F16, F32, F64, FP8, I1, Fragment, Pointer, Scalar, Type

_UNSIGNED = {8: "uchar", 16: "ushort", 32: "uint", 64: "ulong"}
_SIGNED = {8: "char", 16: "short", 32: "int", 64: "long"}
_LITERAL = re.compile(r"-?\d+[uUL]*|\(-\d+L? - 1\)")


def unsigned(bits: int) -> str:
    """The unsigned integer of that width."""
    return _UNSIGNED[bits]


def carrier(ty: Scalar | Pointer, fp16: bool) -> str:
    """The type of a variable that holds one."""
    if isinstance(ty, Pointer):
        return f"__global {stored(ty.pointee, fp16)} *"
    if ty is I1:
        return "bool"
    if ty is F32:
        return "float"
    if ty is F64:
        return "double"
    return "half" if ty is F16 and fp16 else _UNSIGNED[ty.bits]


def stored(ty: Scalar | Pointer, fp16: bool) -> str:
    """The type of an element in memory."""
    if isinstance(ty, Pointer):
        return "ulong"
    if ty is I1:
        return "uchar"
    return _SIGNED[ty.bits] if is_signed(ty) else carrier(ty, fp16)


def is_integer(ty: Scalar | Pointer) -> bool:
    """Whether it is an integer, i1 apart."""
    return isinstance(ty, Scalar) and ty.is_int() and ty is not I1


def is_signed(ty: Scalar | Pointer) -> bool:
    """Whether it is an integer with a sign."""
    return isinstance(ty, Scalar) and ty.is_int_signed()


def is_bits(ty: Scalar | Pointer, fp16: bool) -> bool:
    """Whether it is a float that is held as its bits."""
    return ty is BF16 or ty in FP8 or (ty is F16 and not fp16)


def natural(ty: Scalar | Pointer, x: str) -> str:
    """An integer operand with its sign."""
    if not is_integer(ty):
        return x
    if ty.bits >= 32 and (is_literal(x) or not is_signed(ty)):
        return x
    cast = f"({_UNSIGNED[ty.bits]})"
    if is_signed(ty) and x.startswith(cast) and x[len(cast) :].isidentifier():
        return x[len(cast) :]  # a parameter, which has its sign
    return f"({_SIGNED[ty.bits]}){x}" if is_signed(ty) else f"{cast}{x}"


def is_literal(x: str) -> bool:
    """Whether an operand is the literal of an integer."""
    return _LITERAL.fullmatch(x) is not None


def value_of(x: str) -> int:
    """The number that a literal is."""
    if x.startswith("("):
        return int(re.findall(r"\d+", x)[0]) * -1 - 1
    return int(x.rstrip("uUL"))


def count_of(ty: Type) -> int:
    """How many registers a value has."""
    return ty.count if isinstance(ty, Fragment) else 1


def constant(value: Any, ty: Scalar | Pointer, fp16: bool) -> str:
    """A constant of an element type."""
    if isinstance(ty, Pointer):
        return f"(({carrier(ty, fp16)}){int(value)})"
    if ty is I1:
        return "true" if value else "false"
    if ty.is_int():
        return _integer(int(value), ty)
    exact = numerics.constant(value, ty)
    if is_bits(ty, fp16):
        bits = int(exact.view(f"u{ty.itemsize}"))
        return f"0x{bits:0{2 * ty.itemsize}x}"
    return _float(exact, ty)


def _integer(value: int, ty: Scalar) -> str:
    suffix = {32: "" if ty.signed else "u", 64: "L" if ty.signed else "UL"}.get(ty.bits, "")
    if ty.signed and ty.bits >= 32 and value == ty.min_value:
        return f"({value + 1}{suffix} - 1)"
    return f"{value}{suffix}"


def _float(exact: Any, ty: Scalar) -> str:
    number = float(exact)
    kind = {F16: "half", F32: "float", F64: "double"}[ty]
    if not math.isfinite(number):
        bits = int(exact.view(f"u{ty.itemsize}"))
        number_of = _UNSIGNED[ty.bits]
        if ty is F32 and not math.isnan(number):
            return "INFINITY" if number > 0 else "-INFINITY"
        suffix = "UL" if ty is F64 else ""
        return f"as_{kind}(({number_of})0x{bits:x}{suffix})"
    if ty is F64:
        return repr(number)
    short = exact.reshape(())[()]  # whose shortest text is that of its own type
    text = np.format_float_scientific(short, trim="0")
    if 1e-4 <= abs(number) < 1e7 or number == 0:
        text = np.format_float_positional(short, trim="0")
    if ty is F16:
        return f"(half){text}f" if number >= 0 else f"((half){text}f)"
    return f"{text}f"
