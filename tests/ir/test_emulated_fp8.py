"""Casts of the emulated 8-bit floats against rationals."""

from __future__ import annotations

import functools
import itertools
import math
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
import pytest

from tile.ir import semantics
from tile.ir.numpy_dtypes import numpy_dtype
from tile.ir.types import EMULATED_FP8, F16, F32, F64, I1, Scalar


class Format(NamedTuple):
    mantissa: int
    bias: int
    saturated: int  # the greatest code that a cast gives
    nan: int | None = 0x80


FORMATS = {
    "f8e4m3b15": Format(3, 15, 0x7E, None),
    "f8e4m3fnuz": Format(3, 8, 0x7F),
    "f8e5m2fnuz": Format(2, 16, 0x7F),
}
elements = pytest.mark.parametrize("element", EMULATED_FP8, ids=str)


@functools.cache
def magnitude(element: Scalar, code: int) -> Fraction:
    """Return the number of a code without a sign."""
    form = FORMATS[element.ir_name]
    exponent, fraction = divmod(code, 1 << form.mantissa)
    significand = Fraction(fraction, 1 << form.mantissa) + (exponent > 0)
    return significand * Fraction(2) ** (max(exponent, 1) - form.bias)


def code_of(element: Scalar, x: float, toward_zero: bool) -> int:
    """Return the code that a float is cast to."""
    form = FORMATS[element.ir_name]
    if math.isnan(x):
        return form.saturated if form.nan is None else form.nan
    size = None if math.isinf(x) else Fraction(abs(x))
    code = form.saturated
    if size is not None and size < magnitude(element, code):
        code = next(c for c in range(code) if magnitude(element, c + 1) > size)
        low, high = (magnitude(element, c) for c in (code, code + 1))
        up = form.nan is None or code % 2 == 1  # of a tie
        is_nearer = size - low > high - size or (size - low == high - size and up)
        code += is_nearer and not toward_zero
    negative = math.copysign(1.0, x) < 0 and (code > 0 or form.nan is None)
    return code | 0x80 if negative else code


def inputs(element: Scalar, dtype: Any) -> Any:
    """Return all numbers and ties, what is next to them, and what is beyond."""
    numbers = [magnitude(element, code) for code in range(128)]
    ties = [(a + b) / 2 for a, b in itertools.pairwise(numbers)]
    exact = np.array([float(x) for x in (*numbers, *ties)], dtype)
    sides = [np.nextafter(exact, dtype(bound)) for bound in (-np.inf, np.inf)]
    ends = np.array([np.inf, np.nan, np.finfo(dtype).max, np.finfo(dtype).tiny], dtype)
    x = np.concatenate([exact, *sides, ends])
    return np.concatenate([x, -x])


@elements
def test_all_values_are_exact_in_wider_floats(element: Scalar) -> None:
    form = FORMATS[element.ir_name]
    codes = np.arange(256, dtype=np.uint8)
    for wider in (F16, F32, F64):
        actual = semantics.cast(codes.view(numpy_dtype(element)), wider)
        for code, number in zip(codes.tolist(), actual.astype(np.float64).tolist(), strict=True):
            if code == form.nan:
                assert math.isnan(number)
                continue
            size = float(magnitude(element, code & 0x7F))
            assert number == (-size if code & 0x80 else size)
            assert math.copysign(1.0, number) == (-1.0 if code & 0x80 else 1.0)


@elements
@pytest.mark.parametrize("rounding", ["rtne", "rtz"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_floats_are_rounded_once(element: Scalar, rounding: str, dtype: Any) -> None:
    x = inputs(element, dtype)
    with semantics.quiet():
        actual = semantics.cast(x, element, rounding).view(np.uint8)
    expected = [code_of(element, value, rounding == "rtz") for value in x.tolist()]
    np.testing.assert_array_equal(actual, expected)


@elements
def test_only_zeros_are_false(element: Scalar) -> None:
    codes = np.arange(256, dtype=np.uint8)
    truth = semantics.cast(codes.view(numpy_dtype(element)), I1)
    zeros = {0, 0x80} if FORMATS[element.ir_name].nan is None else {0}
    assert set(codes[~truth].tolist()) == zeros


def test_numpy_takes_no_numbers_for_bits_that_it_does_not_know() -> None:
    x = np.zeros(4, numpy_dtype(EMULATED_FP8[0]))
    with pytest.raises((TypeError, ValueError)):
        x.astype(np.float32)
