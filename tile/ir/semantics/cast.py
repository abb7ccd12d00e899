"""Conversions between types, constants, and reinterpretation of bits.

    to i1               x != 0; NaN is true
    integer to integer  wraps
    float to integer    truncates toward zero, saturates at the bounds, NaN becomes 0
    any to float        one rounding to nearest even; NaN stays NaN; overflow becomes infinity, and
                        in fp8 (also for infinity) the largest finite value

This is what PTX's `cvt` does (to fp8: `cvt.rn.satfinite`). Callers hold `quiet()` around these
functions.

The fnuz formats of fp8 have one NaN, 0x80, and no negative zero. f8e4m3b15 has the exponents of
f16, and neither NaN nor infinity. As in Triton, whose format it is, casts to it round to nearest,
with ties away from zero, and saturate at 1.75, one step below its largest number; a NaN becomes
1.75.

Operations on 8- and 16-bit floats are computed in f32: `widen` converts the operands, `narrow` the
result. f32 has at least twice the significand bits of these formats plus two, so an operation in
f32 that is rounded again has the same bits as a single rounding (S. Figueroa, "When is double
rounding innocuous?", 1995). This covers +, -, *, / and sqrt, but not fma.
"""

from __future__ import annotations

import functools
import operator
from typing import Any

import numpy as np

from tile.ir.numpy_dtypes import (
    ALL_FP8,
    BF16,
    BITS,
    BOOL,
    DTYPES,
    EMULATED_FP8,
    F16,
    F32,
    F64,
    FLOATS,
    INTEGERS,
    NARROW_FLOATS,
    Array,
    Binary,
    ByDtype,
    Dtype,
    Unary,
    numpy_dtype,
    quiet,
    scalar_of,
)
from tile.ir.types import I64, SCALARS, U64, Pointer, Scalar, require
from tile.short_repr import short_repr

_LARGEST = dict(zip(ALL_FP8, (448.0, 57344.0, 1.75, 240.0, 57344.0), strict=True))
E4M3B15 = DTYPES["f8e4m3b15"]
FNUZ = (DTYPES["f8e4m3fnuz"], DTYPES["f8e5m2fnuz"])
_SIGN = np.uint8(0x80)
HALF = np.uint32(16)
LOW_HALF = np.uint32(0xFFFF)
MANY = 1 << 13  # elements from which several integer SIMD passes beat one scalar loop of NumPy


def printable(x: Array) -> Array:
    """Return `x` in a dtype on which NumPy computes and that it prints: f8e4m3b15 becomes f32."""
    return widen(x) if x.dtype == E4M3B15 else x


def narrow(x: Array, dtype: Dtype) -> Array:
    """Round f32 values to f16, bf16 or fp8, to nearest even; fp8 saturates, also infinities."""
    return _NARROW[dtype](x)


def through_f32(function: Binary) -> Binary:
    """Return `function` for narrow floats: computed in f32 and rounded once."""

    def apply(x: Array, y: Array) -> Array:
        return narrow(function(widen(x), widen(y)), x.dtype)

    return apply


def through_f32_unary(function: Unary) -> Unary:
    """Return a unary `function` for narrow floats: computed in f32 and rounded once."""

    def apply(x: Array) -> Array:
        return narrow(function(widen(x)), x.dtype)

    return apply


def round_to_odd_f32(x: Array) -> Array:
    """Round f64 values to f32, to odd: an inexact result is the adjacent one whose last bit is 1.

    Rounding the result to a format of at most 22 bits then equals rounding `x` directly.
    """
    nearest: Array = x.astype(F32)
    back = nearest.astype(np.float64)
    bits = nearest.view(np.int32) - (np.abs(back) > np.abs(x))
    bits |= back != x
    return bits.view(F32)


def _narrow_fp8(dtype: Dtype, x: Array) -> Array:
    """Convert by a table of 2^16 entries, indexed by the high half of the f32.

    The index's last bit is also set if the low half is not zero ("rounding to odd"), so the index
    has all that rounding to fp8 depends on.
    """
    bits = x.view(np.uint32)
    index = bits >> HALF
    index |= (bits & LOW_HALF) != 0
    return _fp8_of_bf16(dtype).take(index).view(dtype)


@functools.cache
def _fp8_of_bf16(dtype: Dtype) -> Array:
    limit = F32.type(_LARGEST[dtype])
    values = np.arange(1 << 16, dtype=np.uint16).view(BF16).astype(F32)
    if dtype == E4M3B15:
        return _e4m3b15_of(values)
    with quiet():
        clipped: Array = np.minimum(np.maximum(values, -limit), limit)
        return clipped.astype(dtype).view(np.uint8)


def _e4m3b15_of(values: Array) -> Array:
    """Return the bits of f8e4m3b15 for f32 values: the nearest magnitude of 0 to 1.75."""
    magnitudes = _fp8_values(E4M3B15)[:0x7F]
    ties = (magnitudes[:-1] + magnitudes[1:]) / 2
    rounded = np.searchsorted(ties, np.abs(values), side="right")  # a NaN sorts as the largest
    sign = np.where(np.signbit(values) & ~np.isnan(values), _SIGN, np.uint8(0))
    return rounded.astype(np.uint8) | sign


@functools.cache
def _fp8_values(dtype: Dtype) -> Array:
    codes = np.arange(1 << 8, dtype=np.uint8)
    if dtype != E4M3B15:
        return codes.view(dtype).astype(F32)
    sign, magnitude = codes & _SIGN, (codes & ~_SIGN).astype(np.uint16)
    values = (magnitude << 7).view(F16).astype(F32)  # f16 has the same exponents, and 7 more bits
    return np.where(sign, -values, values)


def _widen_fp8(x: Array) -> Array:
    return _fp8_values(x.dtype).take(x.view(np.uint8))


def _widen_f16(x: Array) -> Array:
    """Shift the fields into place and scale by a power of two, which also handles subnormals."""
    if x.size < MANY:
        return x.astype(F32)
    bits = x.view(np.int16).astype(np.int32)
    bits <<= 13
    bits &= 0x8FFFE000 - (1 << 32)
    y: Array = bits.view(F32)
    y *= np.float32(2.0**112)
    # Infinities and NaNs became finite values beyond the range of f16.
    if np.maximum.reduce(y, axis=None) >= 65536 or np.minimum.reduce(y, axis=None) <= -65536:
        bits |= np.where(np.abs(y) >= 65536, np.int32(0x7F800000), np.int32(0))
    return y


# The exact conversion of f16, bf16 and fp8 values to f32.
widen: ByDtype[Unary] = ByDtype(
    "widening to f32",
    {F16: _widen_f16, BF16: lambda x: x.astype(F32), **dict.fromkeys(ALL_FP8, _widen_fp8)},
)
_NARROW: ByDtype[Unary] = ByDtype(
    "narrowing from f32",
    {
        F16: lambda x: x.astype(F16),
        BF16: lambda x: x.astype(BF16),
        **{dtype: functools.partial(_narrow_fp8, dtype) for dtype in ALL_FP8},
    },
)


NARROW = (*NARROW_FLOATS, *ALL_FP8)
COUNTED = (BOOL, *INTEGERS)
EXACT_IN_F32 = (F32, *NARROW, *(dtype for dtype in COUNTED if dtype.itemsize <= 2))


def cast(x: Array, to: Scalar, rounding: str = "rtne") -> Array:
    """Return `x` converted to type `to` by the table above; `x` itself if it has that type.

    `rounding` is "rtne", or "rtz" for toward zero. "rtz" is only defined from floats to narrower
    floats; anything else raises `TypeRuleError`.
    """
    return conversion(x.dtype, to.ir_name, rounding)(x)


@functools.cache
def conversion(source: Dtype, target: str, rounding: str = "rtne") -> Unary:
    """Return the function that casts arrays of dtype `source` to the scalar type named `target`."""
    to = numpy_dtype(SCALARS[target])
    require(
        rounding in ("rtne", "rtz"),
        f"the rounding of a cast is rtne or rtz, not {short_repr(rounding)}",
    )
    if rounding == "rtz":
        return _towards_zero(source, to)
    if source == to:
        return same
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
    require(
        isinstance(number, int), f"a constant of type {ty} is an integer, not {short_repr(value)}"
    )
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
        require(is_real, f"a constant is a number, not {short_repr(value)}")
        return float(value)


def _exact_array(number: int | float) -> Array:
    """Return the number as an array of shape (1,), in an exact type if possible, else in f64."""
    if isinstance(number, int) and I64.min_value <= number <= U64.max_value:
        return np.array([number], np.int64 if number <= I64.max_value else np.uint64)
    try:
        return np.array([float(number)], F64)
    except OverflowError:
        return np.array([np.inf if number > 0 else -np.inf], F64)


def same(x: Array) -> Array:
    """Return `x` itself."""
    return x


def _nonzero(x: Array) -> Array:
    if x.dtype in EMULATED_FP8:
        x = widen(x)
    elif x.dtype in NARROW:
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
    if wide == F64 and (to == BF16 or to in ALL_FP8):
        return lambda x: narrow(round_to_odd_f32(x), to)
    if to in NARROW and wide == F32:
        return lambda x: narrow(x, to)
    return lambda x: x.astype(to, copy=False)


def _towards_zero(source: Dtype, to: Dtype) -> Unary:
    floats = (*FLOATS, *ALL_FP8)
    narrower = source in floats and to in floats and to.itemsize < source.itemsize
    require(
        narrower,
        f"rtz is for casting floats to fewer bits, not {scalar_of(source)} to {scalar_of(to)}",
    )
    nearest = conversion(source, scalar_of(to).ir_name)
    bits = BITS[to.itemsize]

    def apply(x: Array) -> Array:
        result = nearest(x)
        back = _to_wide(result, F64 if to == F32 else F32)
        rounded_up = np.abs(back) > np.abs(_to_wide(x, F64 if source == F64 else F32))
        # One step down in magnitude, which also turns infinity into the largest finite value.
        stepped = result.view(bits) - rounded_up
        if to in FNUZ:
            stepped[(stepped == _SIGN) & rounded_up] = 0  # of negative numbers: there is no -0
        return stepped.view(to)

    return apply
