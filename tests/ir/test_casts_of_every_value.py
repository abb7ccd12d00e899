"""Casts of every 8- and 16-bit value, and of many f32, against tables of all values of a type.

A float type is the sorted table of its non-negative values as f64; a cast to it is a search in that
table. This shares nothing with the semantics, which work on bits.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tile.ir import semantics
from tile.ir.numpy_dtypes import numpy_dtype
from tile.ir.ops.arith import Rounding
from tile.ir.types import ALL, BF16, F16, F32, FP8, Scalar

Array = np.ndarray[Any, np.dtype[Any]]
NARROW = [ty for ty in ALL if ty.bits in (8, 16)]
NARROW_FLOATS = (F16, BF16, *FP8)
COUNT = 1_000_000


def every(ty: Scalar) -> Array:
    """Return all values of a type, by their bits."""
    return np.arange(1 << ty.bits).astype(f"u{ty.itemsize}").view(numpy_dtype(ty))


def some_f32() -> Array:
    """Return random bits, numbers between two adjacent f16 or bf16, and their midpoints."""
    rng = np.random.default_rng(9)
    bits = rng.integers(0, 1 << 32, COUNT, np.uint32)
    ties = rng.integers(0, 1 << 16, COUNT // 4, np.uint32) << np.uint32(16)
    halves = every(F16).astype(np.float32).view(np.uint32)
    near = np.concatenate([ties | 0x8000, ties | 0x7FFF, ties | 0x8001, halves | 0x1000])
    return np.concatenate([bits, near, near - 1, near + 1]).view(np.float32)


def table(ty: Scalar) -> Array:
    """Return the non-negative values of a type as f64, by their bits.

    The last one is in place of infinity: it is as far from the greatest number as that is from the
    one before.
    """
    x = every(ty)[: 1 << (ty.bits - 1)].astype(np.float64)
    finite = x[np.isfinite(x)]
    return np.append(finite, 2 * finite[-1] - finite[-2])


def cast_by_table(x: Array, to: Scalar, *, toward_zero: bool = False) -> Array:
    """Round f64 numbers to a narrow float type; a NaN stays one."""
    values = table(to)
    size = np.abs(x)
    above = np.clip(np.searchsorted(values, size), 1, len(values) - 1)
    low, high = values[above - 1], values[above]
    middle = (low + high) / 2
    even = np.where(above % 2 == 0, above, above - 1)
    bits = np.where(size > middle, above, np.where(size < middle, above - 1, even))
    if toward_zero:
        bits = np.where(size >= high, above, above - 1)
        bits = np.where(np.isinf(x), len(values) - 1, np.minimum(bits, len(values) - 2))
    if to in FP8:
        bits = np.minimum(bits, len(values) - 2)
    unsigned = f"u{to.itemsize}"
    result = bits.astype(unsigned) | (np.signbit(x).astype(unsigned) << (to.bits - 1))
    nan = np.array(np.nan, numpy_dtype(to))
    return np.where(np.isnan(x), nan, result.astype(unsigned).view(numpy_dtype(to)))


def wanted(x: Array, ty: Scalar, to: Scalar) -> Array:
    """Convert by the rules that `tile/ir/semantics/cast.py` states."""
    dtype = numpy_dtype(to)
    if ty == to:
        return x
    if to.is_bool():
        return x != 0
    if to.is_int() and not ty.is_floating():
        low_bits = np.uint64((1 << to.bits) - 1)
        return (x.astype(np.int64).view(np.uint64) & low_bits).astype(f"u{to.itemsize}").view(dtype)
    wide = x.astype(np.float64)
    if to.is_int():
        inside = (wide > float(to.min_value) - 1) & (wide < float(to.max_value) + 1)
        result = np.trunc(np.where(inside, wide, 0)).astype(dtype)
        bound = np.where(wide > 0, dtype.type(to.max_value), dtype.type(to.min_value))
        return np.where(inside, result, np.where(np.isnan(wide), dtype.type(0), bound))
    return cast_by_table(wide, to) if to in NARROW_FLOATS else wide.astype(dtype)


def assert_same(got: Array, want: Array, x: Array) -> None:
    """Assert equal bits; a NaN is a NaN."""
    assert got.dtype == want.dtype
    bits = f"u{got.itemsize}"
    wrong = (got.view(bits) != want.view(bits)) & ~((got != got) & (want != want))
    assert not wrong.any(), (x[wrong][:8], got[wrong][:8], want[wrong][:8])


@pytest.mark.parametrize("to", ALL, ids=str)
@pytest.mark.parametrize("ty", NARROW, ids=str)
def test_casts_of_every_value(ty: Scalar, to: Scalar) -> None:
    x = every(ty)
    with np.errstate(all="ignore"):
        assert_same(semantics.cast(x, to), wanted(x, ty, to), x)


@pytest.mark.parametrize("to", [ty for ty in ALL if ty is not F32], ids=str)
def test_casts_of_many_f32(to: Scalar) -> None:
    x = some_f32()
    with np.errstate(all="ignore"):
        assert_same(semantics.cast(x, to), wanted(x, F32, to), x)


@pytest.mark.parametrize("to", [F16, BF16], ids=str)
def test_casts_of_many_f32_toward_zero(to: Scalar) -> None:
    x = some_f32()
    with np.errstate(all="ignore"):
        got = semantics.cast(x, to, Rounding.RTZ)
        assert_same(got, cast_by_table(x.astype(np.float64), to, toward_zero=True), x)
