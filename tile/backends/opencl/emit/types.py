"""C types and constants of OpenCL C.

A variable for a value of the IR has its *carrier* type: an unsigned integer type for an integer,
and for the bits of a float on which the device has no arithmetic. In memory an element has its
*stored* type.
"""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np

from tile.ir import semantics
from tile.ir.types import BF16, F16, F32, F64, I1, Pointer, Scalar

_UNSIGNED = {8: "uchar", 16: "ushort", 32: "uint", 64: "ulong"}
_SIGNED = {8: "char", 16: "short", 32: "int", 64: "long"}
# The suffix of a literal, by width and signedness; those of short types are of type `int`.
_SUFFIX = {(32, True): "", (32, False): "u", (64, True): "L", (64, False): "UL"}
_LITERAL = re.compile(r"-?\d+[uUL]*|\(-\d+L? - 1\)")


def unsigned(bits: int) -> str:
    """Return the unsigned integer type of a width in bits."""
    return _UNSIGNED[bits]


def carrier(ty: Scalar | Pointer, fp16: bool) -> str:
    """Return the type of a variable."""
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
    """Return the type of an element in memory."""
    if isinstance(ty, Pointer):
        return "ulong"
    if ty is I1:
        return "uchar"
    return _SIGNED[ty.bits] if ty.is_int_signed() else carrier(ty, fp16)


def is_integer(ty: Scalar | Pointer) -> bool:
    """Return True for an integer type other than i1."""
    return isinstance(ty, Scalar) and ty.is_int() and ty is not I1


def is_bits(ty: Scalar | Pointer, fp16: bool) -> bool:
    """Return True for a float type whose carrier is an integer with its bits."""
    return ty is BF16 or ty.is_fp8() or (ty is F16 and not fp16)


def natural(ty: Scalar | Pointer, x: str) -> str:
    """Return an integer operand cast to the type, with the signedness of the type."""
    if not isinstance(ty, Scalar) or not is_integer(ty):
        return x
    if is_literal(x):
        has_type = x.endswith(_SUFFIX.get((ty.bits, ty.is_int_signed()), "none"))
    else:
        has_type = ty.bits >= 32 and not ty.is_int_signed()
    if has_type:
        return x
    cast = f"({_UNSIGNED[ty.bits]})"
    if ty.is_int_signed() and x.startswith(cast) and x[len(cast) :].isidentifier():
        return x[len(cast) :]  # a parameter of the kernel, whose C type is signed
    return f"({_SIGNED[ty.bits]}){x}" if ty.is_int_signed() else f"{cast}{x}"


def is_literal(x: str) -> bool:
    """Return True if an operand is an integer literal."""
    return _LITERAL.fullmatch(x) is not None


def value_of(x: str) -> int:
    """Return the number of an integer literal."""
    if x.startswith("("):
        return int(re.findall(r"\d+", x)[0]) * -1 - 1
    return int(x.rstrip("uUL"))


def constant(value: Any, ty: Scalar | Pointer, fp16: bool) -> str:
    """Return the literal of a constant."""
    if isinstance(ty, Pointer):
        return f"(({carrier(ty, fp16)}){int(value)})"
    if ty is I1:
        return "true" if value else "false"
    if ty.is_int():
        return _integer(int(value), ty)
    exact = semantics.constant(value, ty)
    if is_bits(ty, fp16):
        bits = int(exact.view(f"u{ty.itemsize}"))
        return f"0x{bits:0{2 * ty.itemsize}x}"
    return _float(exact, ty)


def _integer(value: int, ty: Scalar) -> str:
    suffix = _SUFFIX.get((ty.bits, ty.signed), "")
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
    short = exact.reshape(())[()]  # a NumPy scalar: the shortest text that its own dtype reads back
    text = np.format_float_scientific(short, trim="0")
    if 1e-4 <= abs(number) < 1e7 or number == 0:
        text = np.format_float_positional(short, trim="0")
    if ty is F16:
        return f"(half){text}f" if number >= 0 else f"((half){text}f)"
    return f"{text}f"
