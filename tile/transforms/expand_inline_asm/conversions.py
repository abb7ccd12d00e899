"""The conversion of one element by `cvt` (PTX ISA 8.5, 9.7.9.21)."""

from __future__ import annotations

from tile.ir.expressions import Encoding, Expression
from tile.ir.ops import math
from tile.ir.ops.arith import Rounding
from tile.ir.types import BF16, F16, F32, F64, U32, Scalar
from tile.transforms.expand_inline_asm.floats import DIRECTED, flushed, saturated
from tile.transforms.expand_inline_asm.rules import Opcode

_TO_INTEGER = ("rni", "rzi", "rmi", "rpi")
_TO_FLOAT = ("rn", "rz", "rm", "rp", "rna")
MODIFIERS = frozenset((*_TO_INTEGER, *_TO_FLOAT, "ftz", "sat", "satfinite", "relu"))
_LARGEST = {F16: 65504.0, BF16: 2.0**127 * (2 - 2.0**-7)}
# The names of integers in libdevice's conversions with a rounding mode.
_SOURCES = {"i32": "int", "u32": "uint", "i64": "ll", "u64": "ull"}


# Floats of 4 and 6 bits, which only `cvt` knows (PTX ISA 8.6, 5.2.3), and the bits in which each of
# two is stored. They have neither infinity nor NaN.
MINIFLOATS: dict[str, tuple[Encoding, int]] = {
    "e2m1x2": (Encoding(1, 1, saturated=7, nan=7, bits=4), 4),
    "e3m2x2": (Encoding(2, 3, saturated=31, nan=31, bits=6), 8),
    "e2m3x2": (Encoding(3, 1, saturated=31, nan=31, bits=6), 8),
}


def convert(op: Opcode, x: Expression, to: Scalar, *, tf32: bool = False) -> Expression | None:
    """Return `x` converted as the opcode says; None for a conversion that PTX does not have."""
    of_8_bit_float = x.is_float != to.is_floating() and (x.element.is_fp8() or to.is_fp8())
    if of_8_bit_float or (tf32 and x.element is not F32):
        return None
    if op.has("ftz") and x.element is F32:
        x = flushed(x)
    if x.is_float and not to.is_floating():
        return _to_integer(op, x, to)
    if not x.is_float:
        return _of_integer(op, x, to)
    result = _to_tf32(op, x) if tf32 else _between_floats(op, x, to)
    return None if result is None else limited(op, result)


def _to_integer(op: Opcode, x: Expression, to: Scalar) -> Expression:
    """Return the saturated integer; a NaN is 0, or the highest bit if a type has 64 bits."""
    result = rounded_to_integral(op, x).cast(to)
    if x.element is not F64 and to.bits != 64:
        return result
    return x.equals(x).select(result, result.constant(1 << (to.bits - 1)))


def rounded_to_integral(op: Opcode, x: Expression) -> Expression:
    """Return `x` rounded to an integral number in its own type, as the opcode says."""
    mode = op.one_of(_TO_INTEGER)
    if not mode:
        return x
    if x.bits < 32:
        return rounded_to_integral(op, x.cast(F32)).cast(x.element)
    suffix = "f" if x.element is F32 else ""
    if mode == "rni":
        return x.call(f"rint{suffix}")
    if mode == "rzi":
        return x.call(f"trunc{suffix}")
    return x.apply(math.floor if mode == "rmi" else math.ceil)


def _of_integer(op: Opcode, x: Expression, to: Scalar) -> Expression | None:
    if not to.is_floating():
        if op.has("sat"):
            low = max(to.min_value, x.element.min_value)
            x = x.maximum(low).minimum(min(to.max_value, x.element.max_value))
        return x.cast(to)
    mode = op.one_of(DIRECTED)
    exact = x.bits < to.bits and to in (F32, F64)
    if not mode or exact:
        return limited(op, x.cast(to))
    source = _SOURCES.get(x.element.ir_name)
    if source is None or to not in (F32, F64):
        return None
    return limited(op, x.call(f"{source}2{'float' if to is F32 else 'double'}_{DIRECTED[mode]}"))


def _between_floats(op: Opcode, x: Expression, to: Scalar) -> Expression | None:
    x = rounded_to_integral(op, x)
    mode = op.one_of(DIRECTED)
    if to.bits >= x.bits or not mode:
        return x.cast(to)
    if mode == "rz":
        return x.cast(to, Rounding.RTZ)
    return x.call(f"double2float_{DIRECTED[mode]}") if to is F32 else None


def _to_tf32(op: Opcode, x: Expression) -> Expression:
    """Return an f32 with 10 bits of significand, to nearest: `rna` away from zero, `rn` to even."""
    bits = x.view(U32)
    half = bits.constant(0x1000) if op.has("rna") else ((bits >> 13) & 1) + 0xFFF
    rounded = (bits + half) & ~0x1FFF
    special = (bits & 0x7F800000).equals(0x7F800000)
    return special.select(bits, rounded).view(F32)


def limited(op: Opcode, x: Expression) -> Expression:
    """Apply the modifiers on a float result; 8-bit floats are finite in any case."""
    if op.has("sat"):
        x = saturated(x)
    if op.has("satfinite") and x.element in _LARGEST:
        largest = _LARGEST[x.element]
        x = x.maximum(-largest, propagate_nan=True).minimum(largest, propagate_nan=True)
    if op.has("relu"):
        x = _positive(x)
    return x


def _positive(x: Expression) -> Expression:
    """Replace negative numbers by zero, also in 8-bit floats, which have no arithmetic."""
    if x.bits == 8:
        return x.cast(F32).maximum(0.0, propagate_nan=True).cast(x.element)
    return x.maximum(0.0, propagate_nan=True)
