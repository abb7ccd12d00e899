"""Arithmetic, bitwise operations, comparisons and selection.

Integers wrap, floats round once to nearest even. Operands have one dtype and broadcast against each
other; the result of arithmetic has that dtype, that of a comparison is bool. A dtype on which an
operation is not defined raises `TypeRuleError`. Callers hold `quiet()` around these functions, most
of which are tables by dtype.
"""

from __future__ import annotations

import numpy as np

from tile.ir.numpy_dtypes import (
    ALL_FP8,
    BITS,
    BOOL,
    F32,
    F64,
    INTEGERS,
    NARROW_FLOATS,
    SIGNED,
    UNSIGNED,
    Array,
    Binary,
    ByDtype,
    Choices,
    Dtype,
    Unary,
    each,
)
from tile.ir.semantics.cast import MANY, same, through_f32, widen

WIDE = (F32, F64)
SIGN_BIT = np.uint16(0x8000)
HALF = np.uint64(32)
LOW_HALF = np.uint64(0xFFFFFFFF)


def _floats(function: Binary) -> dict[Dtype, Binary]:
    return {**each(WIDE, function), **each(NARROW_FLOATS, through_f32(function))}


def _numbers(function: Binary) -> dict[Dtype, Binary]:
    return {**each(INTEGERS, function), **_floats(function)}


def _div_signed(x: Array, y: Array) -> Array:
    """Divide magnitudes as unsigned integers, as the least integer's needs; set the sign."""
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
    """Return fmin or fmax that quiets signaling NaNs, which NumPy's return in some lanes."""

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
    """Multiply by the schoolbook method in base 2^32; no partial sum exceeds 64 bits."""
    x_low, x_high, y_low, y_high = x & LOW_HALF, x >> HALF, y & LOW_HALF, y >> HALF
    middle = x_high * y_low + (x_low * y_low >> HALF)
    other = x_low * y_high + (middle & LOW_HALF)
    high: Array = x_high * y_high + (middle >> HALF) + (other >> HALF)
    return high


def _mulhi_i64(x: Array, y: Array) -> Array:
    """Correct the unsigned result: a negative x counts as x + 2^64, adding y to the high half."""
    high = _mulhi_u64(x.view(np.uint64), y.view(np.uint64)).view(np.int64)
    high -= x & (y >> 63)
    high -= y & (x >> 63)
    return high


# Sums, differences and products of i1 are those modulo 2.
add: ByDtype[Binary] = ByDtype("add", {BOOL: np.bitwise_xor, **_numbers(np.add)})
sub: ByDtype[Binary] = ByDtype("sub", {BOOL: np.bitwise_xor, **_numbers(np.subtract)})
mul: ByDtype[Binary] = ByDtype("mul", {BOOL: np.bitwise_and, **_numbers(np.multiply)})
# Truncated toward zero for integers. Integer division by zero is undefined in the language and
# returns 0 here. The least integer divided by -1 wraps to itself.
div: ByDtype[Binary] = ByDtype(
    "div",
    {**each(SIGNED, _div_signed), **each(UNSIGNED, np.floor_divide), **_floats(np.true_divide)},
)
# The remainder of `div`, with the sign of `x`. For integers, x rem 0 is undefined and returns 0
# here. For floats the remainder is exact (C's `fmod`), and NaN for an infinite `x` or a zero `y`.
rem: ByDtype[Binary] = ByDtype("rem", _numbers(np.fmod))
# Unsigned integers and the least signed one wrap, NaNs change sign.
neg: ByDtype[Unary] = ByDtype(
    "neg",
    {BOOL: same, **each(INTEGERS + WIDE, np.negative), **each(NARROW_FLOATS, _flip_sign)},
)
# The least signed integer wraps, floats including NaNs lose their sign.
absolute: ByDtype[Unary] = ByDtype(
    "abs",
    {
        BOOL: same,
        **each(UNSIGNED, same),
        **each(SIGNED + WIDE, np.abs),
        **each(NARROW_FLOATS, _clear_sign),
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
# The high half of the double-width product.
mulhi: ByDtype[Binary] = ByDtype(
    "mulhi",
    {
        **{dtype: _mulhi_through(np.dtype(f"i{2 * dtype.itemsize}")) for dtype in SIGNED[:3]},
        **{dtype: _mulhi_through(np.dtype(f"u{2 * dtype.itemsize}")) for dtype in UNSIGNED[:3]},
        SIGNED[3]: _mulhi_i64,
        UNSIGNED[3]: _mulhi_u64,
    },
)
and_: ByDtype[Binary] = ByDtype("and", each((BOOL, *INTEGERS), np.bitwise_and))
or_: ByDtype[Binary] = ByDtype("or", each((BOOL, *INTEGERS), np.bitwise_or))
xor: ByDtype[Binary] = ByDtype("xor", each((BOOL, *INTEGERS), np.bitwise_xor))
not_: ByDtype[Unary] = ByDtype("not", each((BOOL, *INTEGERS), np.invert))
# Any count outside 0..width-1 counts as the width: shifts to the left return 0, and those to the
# right, which are arithmetic for signed integers, 0 or, for a negative `x`, -1.
shl: ByDtype[Binary] = ByDtype("shl", each(INTEGERS, np.left_shift))
shr: ByDtype[Binary] = ByDtype("shr", each(INTEGERS, np.right_shift))


def minimum(x: Array, y: Array, propagate_nan: bool = False) -> Array:
    """Return the lesser; if one is a NaN, the other one, or the NaN with `propagate_nan`.

    The sign of the result for two zeros of different signs is undefined.
    """
    return _MIN[propagate_nan][x.dtype](x, y)


def maximum(x: Array, y: Array, propagate_nan: bool = False) -> Array:
    """Return the greater, with NaNs and zeros as in `minimum`."""
    return _MAX[propagate_nan][x.dtype](x, y)


_FUNCTIONS = {
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
}


def cmp(x: Array, y: Array, predicate: str) -> Array:
    """Compare elements: `predicate` is eq, ne, lt, le, gt or ge; the result is i1.

    Every comparison with a NaN is false, except `ne`, which is true.
    """
    return _CMP[predicate][x.dtype](x, y)


def select(condition: Array, x: Array, y: Array) -> Array:
    """Return elements of `x` where the i1 `condition` holds, else of `y`; all three broadcast."""
    if condition.size < MANY:
        return np.where(condition, x, y)
    # `np.where` branches on every element; bit operations are several times faster on irregular
    # masks.
    bits = _SIGNED_BITS[x.dtype.itemsize]
    other = y.view(bits)
    selected = (x.view(bits) ^ other) & np.negative(condition.view(np.int8), dtype=bits)
    selected ^= other
    result: Array = selected.view(x.dtype)
    return result


def _widened(function: Binary) -> Binary:
    def apply(x: Array, y: Array) -> Array:
        return function(widen(x), widen(y))

    return apply


_CMP: Choices[ByDtype[Binary]] = Choices(
    "the kind of a comparison",
    {
        kind: ByDtype(
            "cmp",
            {
                **each((BOOL, *INTEGERS, F32, F64), function),
                **each((*NARROW_FLOATS, *ALL_FP8), _widened(function)),
            },
        )
        for kind, function in _FUNCTIONS.items()
    },
)
_SIGNED_BITS = {size: np.dtype(f"i{size}") for size in BITS}
