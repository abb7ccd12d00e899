"""Conversions between 8- and 16-bit floats and f32, in which they are computed.

f32 has at least twice the significand bits of these formats plus two, so an operation in f32 that
is rounded again has the same bits as a single rounding (S. Figueroa, "When is double rounding
innocuous?", 1995). This covers +, -, *, / and sqrt, but not fma.
"""

from __future__ import annotations

import functools

import numpy as np

from tile.ir.dtypes import Array, Dtype
from tile.ir.numerics.dtypes import (
    BF16,
    F16,
    F32,
    FP8,
    Binary,
    ByDtype,
    Unary,
    quiet,
)

_LARGEST = dict(zip(FP8, (448.0, 57344.0), strict=True))
HALF = np.uint32(16)
LOW_HALF = np.uint32(0xFFFF)
MANY = 1 << 13  # elements from which several integer SIMD passes beat one scalar loop of NumPy


def widen(x: Array) -> Array:
    """Convert f16, bf16 and fp8 values to f32, exactly."""
    return _WIDEN[x.dtype](x)


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
    with quiet():
        clipped: Array = np.minimum(np.maximum(values, -limit), limit)
        return clipped.astype(dtype).view(np.uint8)


@functools.cache
def _fp8_values(dtype: Dtype) -> Array:
    return np.arange(1 << 8, dtype=np.uint8).view(dtype).astype(F32)


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


_WIDEN: ByDtype[Unary] = ByDtype(
    "widening to f32",
    {F16: _widen_f16, BF16: lambda x: x.astype(F32), **dict.fromkeys(FP8, _widen_fp8)},
)
_NARROW: ByDtype[Unary] = ByDtype(
    "narrowing from f32",
    {
        F16: lambda x: x.astype(F16),
        BF16: lambda x: x.astype(BF16),
        **{dtype: functools.partial(_narrow_fp8, dtype) for dtype in FP8},
    },
)
