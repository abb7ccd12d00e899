"""Arithmetic and bits: integers wrap, floats round once to nearest even.

Operands have one dtype, broadcast against each other, and give a result of that dtype. Dtypes that
an operation is not defined on are refused with `TypeRuleError`. Callers hold `quiet()` around all
of this.
"""

from __future__ import annotations

import numpy as np

from tile.ir.dtypes import Array, Dtype
from tile.ir.numerics.dtypes import (
    BF16,
    BITS,
    BOOL,
    F16,
    F32,
    F64,
    INTEGERS,
    SIGNED,
    UNSIGNED,
    Binary,
    ByDtype,
    Unary,
    each,
)
from tile.ir.numerics.narrow import through_f32

WIDE = (F32, F64)
NARROW = (F16, BF16)
SIGN_BIT = np.uint16(0x8000)
HALF = np.uint64(32)
LOW_HALF = np.uint64(0xFFFFFFFF)


def _floats(function: Binary) -> dict[Dtype, Binary]:
    return {**each(WIDE, function), **each(NARROW, through_f32(function))}


def _numbers(function: Binary) -> dict[Dtype, Binary]:
    return {**each(INTEGERS, function), **_floats(function)}


def add(x: Array, y: Array) -> Array:
    """The sum x + y; on i1, modulo 2."""
    return _ADD[x.dtype](x, y)


def sub(x: Array, y: Array) -> Array:
    """The difference x - y; on i1, modulo 2."""
    return _SUB[x.dtype](x, y)


def mul(x: Array, y: Array) -> Array:
    """The product x * y."""
    return _MUL[x.dtype](x, y)


def div(x: Array, y: Array) -> Array:
    """The quotient x / y, for integers truncated towards zero.

    The language leaves integer division by zero undefined; it gives 0 here. The least integer
    divided by -1 wraps to itself.
    """
    return _DIV[x.dtype](x, y)


def rem(x: Array, y: Array) -> Array:
    """What `div` leaves: it has the sign of `x`. For integers, x rem 0 is undefined and 0 here.

    Floats give the exact remainder (C's `fmod`), NaN for an infinite `x` or a zero `y`.
    """
    return _REM[x.dtype](x, y)


def neg(x: Array) -> Array:
    """The negative -x; unsigned integers and the least signed one wrap, NaNs change sign."""
    return _NEG[x.dtype](x)


def absolute(x: Array) -> Array:
    """The magnitude |x|; the least signed integer wraps, floats (NaN too) lose their sign."""
    return _ABS[x.dtype](x)


def minimum(x: Array, y: Array, propagate_nan: bool = False) -> Array:
    """The lesser. Next to a NaN the number wins, or with `propagate_nan` the NaN does.

    Which zero comes of two zeros with different signs is not defined.
    """
    return _MIN[propagate_nan][x.dtype](x, y)


def maximum(x: Array, y: Array, propagate_nan: bool = False) -> Array:
    """The greater, with NaNs and zeros as in `minimum`."""
    return _MAX[propagate_nan][x.dtype](x, y)


def clamp(x: Array, lo: Array, hi: Array, propagate_nan: bool = False) -> Array:
    """The value minimum(maximum(x, lo), hi): `lo` for a NaN, or NaN with `propagate_nan`."""
    return minimum(maximum(x, lo, propagate_nan), hi, propagate_nan)


def mulhi(x: Array, y: Array) -> Array:
    """The upper half of the product of two integers, which has twice their bits."""
    return _MULHI[x.dtype](x, y)


def and_(x: Array, y: Array) -> Array:
    """Bitwise and, of integers and i1."""
    return _AND[x.dtype](x, y)


def or_(x: Array, y: Array) -> Array:
    """Bitwise or, of integers and i1."""
    return _OR[x.dtype](x, y)


def xor(x: Array, y: Array) -> Array:
    """Bitwise exclusive or, of integers and i1."""
    return _XOR[x.dtype](x, y)


def not_(x: Array) -> Array:
    """Bitwise complement, of integers and i1."""
    return _NOT[x.dtype](x)


def shl(x: Array, count: Array) -> Array:
    """Shift x left. Any count outside 0..width-1 is taken as the width: it gives 0."""
    return _SHL[x.dtype](x, count)


def shr(x: Array, count: Array) -> Array:
    """Shift x right, copying the sign of signed integers.

    Any count outside 0..width-1 is taken as the width: it gives 0, or -1 for a negative `x`.
    """
    return _SHR[x.dtype](x, count)


def _same(x: Array) -> Array:
    return x


def _div_signed(x: Array, y: Array) -> Array:
    """Divides magnitudes unsigned, where the least integer has one, and puts the sign on."""
    unsigned = BITS[x.dtype.itemsize]
    magnitude: Array = np.floor_divide(np.abs(x).view(unsigned), np.abs(y).view(unsigned))
    quotient = magnitude.view(x.dtype)
    sign = (x ^ y) >> x.dtype.type(8 * x.dtype.itemsize - 1)
    quotient ^= sign
    quotient -= sign
    return quotient


def _flip_sign(x: Array) -> Array:
    return (x.view(np.uint16) ^ SIGN_BIT).view(x.dtype)


def _clear_sign(x: Array) -> Array:
    return (x.view(np.uint16) & ~SIGN_BIT).view(x.dtype)


def _number_wins(function: np.ufunc) -> Binary:
    """NumPy's fmin or fmax; in some lanes they let a signalling NaN win, so those are quieted."""

    def apply(x: Array, y: Array) -> Array:
        result: Array = function(x, y)
        if np.isnan(result).any():
            result = function(x * 1, y * 1)
        return result

    return apply


def _mulhi_through(wide: Dtype) -> Binary:
    def apply(x: Array, y: Array) -> Array:
        product: Array = np.multiply(x, y, dtype=wide)
        product >>= wide.type(8 * x.dtype.itemsize)
        return product.astype(x.dtype)

    return apply


def _mulhi_u64(x: Array, y: Array) -> Array:
    """Schoolbook multiplication in base 2^32; no partial sum exceeds 64 bits."""
    x_low, x_high, y_low, y_high = x & LOW_HALF, x >> HALF, y & LOW_HALF, y >> HALF
    middle = x_high * y_low + (x_low * y_low >> HALF)
    other = x_low * y_high + (middle & LOW_HALF)
    high: Array = x_high * y_high + (middle >> HALF) + (other >> HALF)
    return high


def _mulhi_i64(x: Array, y: Array) -> Array:
    """A negative x is 2^64 too great as unsigned, which adds y to the half; and vice versa."""
    high = _mulhi_u64(x.view(np.uint64), y.view(np.uint64)).view(np.int64)
    high -= x & (y >> 63)
    high -= y & (x >> 63)
    return high


_ADD: ByDtype[Binary] = ByDtype("add", {BOOL: np.bitwise_xor, **_numbers(np.add)})
_SUB: ByDtype[Binary] = ByDtype("sub", {BOOL: np.bitwise_xor, **_numbers(np.subtract)})
_MUL: ByDtype[Binary] = ByDtype("mul", {BOOL: np.bitwise_and, **_numbers(np.multiply)})
_DIV: ByDtype[Binary] = ByDtype(
    "div",
    {**each(SIGNED, _div_signed), **each(UNSIGNED, np.floor_divide), **_floats(np.true_divide)},
)
_REM: ByDtype[Binary] = ByDtype("rem", _numbers(np.fmod))
_NEG: ByDtype[Unary] = ByDtype(
    "neg",
    {BOOL: _same, **each(INTEGERS + WIDE, np.negative), **each(NARROW, _flip_sign)},
)
_ABS: ByDtype[Unary] = ByDtype(
    "abs",
    {
        BOOL: _same,
        **each(UNSIGNED, _same),
        **each(SIGNED + WIDE, np.abs),
        **each(NARROW, _clear_sign),
    },
)
_MIN: tuple[ByDtype[Binary], ...] = tuple(
    ByDtype("minimum", {BOOL: np.logical_and, **each(INTEGERS, np.minimum), **_floats(function)})
    for function in (_number_wins(np.fmin), np.minimum)
)
_MAX: tuple[ByDtype[Binary], ...] = tuple(
    ByDtype("maximum", {BOOL: np.logical_or, **each(INTEGERS, np.maximum), **_floats(function)})
    for function in (_number_wins(np.fmax), np.maximum)
)
_MULHI: ByDtype[Binary] = ByDtype(
    "mulhi",
    {
        **{dtype: _mulhi_through(np.dtype(f"i{2 * dtype.itemsize}")) for dtype in SIGNED[:3]},
        **{dtype: _mulhi_through(np.dtype(f"u{2 * dtype.itemsize}")) for dtype in UNSIGNED[:3]},
        SIGNED[3]: _mulhi_i64,
        UNSIGNED[3]: _mulhi_u64,
    },
)
_AND: ByDtype[Binary] = ByDtype("and", each((BOOL, *INTEGERS), np.bitwise_and))
_OR: ByDtype[Binary] = ByDtype("or", each((BOOL, *INTEGERS), np.bitwise_or))
_XOR: ByDtype[Binary] = ByDtype("xor", each((BOOL, *INTEGERS), np.bitwise_xor))
_NOT: ByDtype[Unary] = ByDtype("not", each((BOOL, *INTEGERS), np.invert))
_SHL: ByDtype[Binary] = ByDtype("shl", each(INTEGERS, np.left_shift))
_SHR: ByDtype[Binary] = ByDtype("shr", each(INTEGERS, np.right_shift))
