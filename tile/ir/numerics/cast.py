"""Conversions between types, constants, and reinterpretation of bits.

    to i1               x != 0; NaN is true
    integer to integer  wraps
    float to integer    truncates toward zero, saturates at the bounds, NaN becomes 0
    any to float        one rounding to nearest even; NaN stays NaN; overflow becomes infinity, and
                        in fp8 (also for infinity) the largest finite value

This is what PTX's `cvt` does (to fp8: `cvt.rn.satfinite`). Callers hold `quiet()` around these
functions.
"""

from __future__ import annotations

import functools
import operator
from typing import Any

import numpy as np

from tile.brief import brief
from tile.ir.dtypes import Array, Dtype, numpy_dtype, scalar_of
from tile.ir.numerics.dtypes import (
    BF16,
    BITS,
    BOOL,
    F16,
    F32,
    F64,
    FLOATS,
    FP8,
    INTEGERS,
    Unary,
    quiet,
)
from tile.ir.numerics.narrow import narrow, round_to_odd_f32, widen
from tile.ir.types import I64, SCALARS, U64, Pointer, Scalar, require

NARROW = (F16, BF16, *FP8)
COUNTED = (BOOL, *INTEGERS)
EXACT_IN_F32 = (F32, *NARROW, *(dtype for dtype in COUNTED if dtype.itemsize <= 2))


def cast(x: Array, to: Scalar, rounding: str = "rtne") -> Array:
    """Return `x` converted to type `to` by the table above; `x` itself if it has that type.

    `rounding` is "rtne", or "rtz" for toward zero. "rtz" is only defined from floats to narrower
    floats; anything else raises `TypeRuleError`.
    """
    return conversion(x.dtype, to.name, rounding)(x)


@functools.cache
def conversion(source: Dtype, target: str, rounding: str = "rtne") -> Unary:
    """Return the function that casts arrays of dtype `source` to the scalar type named `target`."""
    to = numpy_dtype(SCALARS[target])
    require(
        rounding in ("rtne", "rtz"), f"the rounding of a cast is rtne or rtz, not {brief(rounding)}"
    )
    if rounding == "rtz":
        return _towards_zero(source, to)
    if source == to:
        return _same
    if to == BOOL:
        return _nonzero
    if source in COUNTED and (to in COUNTED or to in (F32, F64)):
        return lambda x: x.astype(to)
    wide = F32 if source in EXACT_IN_F32 else F64
    finish = _to_integer(wide, to) if to in INTEGERS else _to_float(wide, to)
    return lambda x: finish(_to_wide(x, wide))


def bitcast(x: Array, to: Scalar | Pointer) -> Array:
    """Return the bits of `x` as type `to` of the same width; the result shares memory with `x`."""
    dtype = numpy_dtype(to)
    same_width = x.dtype.itemsize == dtype.itemsize and (x.dtype == BOOL) == (dtype == BOOL)
    require(same_width, f"bitcast takes types of equal width, not {scalar_of(x.dtype)} and {to}")
    return x.view(dtype)


def constant(value: Any, ty: Scalar | Pointer) -> Array:
    """Return a 0-dimensional array of type `ty` that holds a Python or NumPy number.

    Integer types (and pointers: addresses) take integers in range. Float types take any number and
    round it once, as `cast` does. Anything else raises `TypeRuleError`.
    """
    number = _number(value)
    if not isinstance(ty, Pointer) and ty.is_floating():
        with quiet():
            return cast(_exact_array(number), ty).reshape(())
    bounds = I64 if isinstance(ty, Pointer) else ty
    low, high = bounds.min_value, bounds.max_value
    require(isinstance(number, int), f"a constant of type {ty} is an integer, not {brief(value)}")
    require(low <= number <= high, f"{number} does not fit {ty}, which holds {low} to {high}")
    return np.array(number, numpy_dtype(ty))


def _number(value: Any) -> int | float:
    if isinstance(value, np.bool_):
        return int(value)
    try:
        return operator.index(value)
    except TypeError:
        is_real = isinstance(value, (float, np.generic)) and not isinstance(
            value, np.complexfloating
        )
        require(is_real, f"a constant is a number, not {brief(value)}")
        return float(value)


def _exact_array(number: int | float) -> Array:
    """Return the number as an array of shape (1,), in an exact type if possible, else in f64."""
    if isinstance(number, int) and I64.min_value <= number <= U64.max_value:
        return np.array([number], np.int64 if number <= I64.max_value else np.uint64)
    try:
        return np.array([float(number)], F64)
    except OverflowError:
        return np.array([np.inf if number > 0 else -np.inf], F64)


def _same(x: Array) -> Array:
    return x


def _nonzero(x: Array) -> Array:
    if x.dtype in NARROW:
        x = x.view(BITS[x.dtype.itemsize]) << 1  # drop the sign
    result: Array = np.not_equal(x, 0)
    return result


def _to_wide(x: Array, wide: Dtype) -> Array:
    """Return the values in f32 or f64, exactly except for the large ones of `_fold_low_bits`."""
    if x.dtype == wide:
        return x
    if x.dtype in NARROW:
        return widen(x)
    return (_fold_low_bits(x) if x.dtype.itemsize == 8 else x).astype(wide)


def _fold_low_bits(x: Array) -> Array:
    """Replace the low 11 bits of 64-bit integers of at least 2^53 by a sticky bit (round to odd).

    f64 holds the result exactly, and every narrower format rounds it as it would have rounded `x`.
    """
    folded = x >> 11
    folded |= x & 0x7FF != 0
    folded <<= 11
    top = x >> 53
    return np.where((top == 0) | (top == -1), x, folded)


def _to_integer(wide: Dtype, to: Dtype) -> Unary:
    info = np.iinfo(to)
    least, most = to.type(info.min), to.type(info.max)
    low, high = wide.type(info.min), wide.type(2.0 ** info.max.bit_length())
    zero = wide.type(0)

    def apply(x: Array) -> Array:
        smallest = np.minimum.reduce(x, axis=None, initial=zero)
        if smallest >= low and np.maximum.reduce(x, axis=None, initial=zero) < high:
            return x.astype(to)
        result = np.where((x >= low) & (x < high), x, zero).astype(to)
        result = np.where(x >= high, most, result)
        return np.where(x < low, least, result)

    return apply


def _to_float(wide: Dtype, to: Dtype) -> Unary:
    if wide == F64 and (to == BF16 or to in FP8):
        return lambda x: narrow(round_to_odd_f32(x), to)
    if to in NARROW and wide == F32:
        return lambda x: narrow(x, to)
    return lambda x: x.astype(to, copy=False)


def _towards_zero(source: Dtype, to: Dtype) -> Unary:
    floats = (*FLOATS, *FP8)
    narrower = source in floats and to in floats and to.itemsize < source.itemsize
    require(
        narrower,
        f"rtz is for casting floats to fewer bits, not {scalar_of(source)} to {scalar_of(to)}",
    )
    nearest = conversion(source, scalar_of(to).name)
    bits = BITS[to.itemsize]

    def apply(x: Array) -> Array:
        result = nearest(x)
        back = _to_wide(result, F64 if to == F32 else F32)
        rounded_up = np.abs(back) > np.abs(_to_wide(x, F64 if source == F64 else F32))
        # One step down in magnitude, which also turns infinity into the largest finite value.
        return (result.view(bits) - rounded_up).view(to)

    return apply
