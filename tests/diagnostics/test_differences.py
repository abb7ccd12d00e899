"""Differences between two results are told from rounding."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tile.diagnostics.array_differences import differences
from tile.ir.numpy_dtypes import numpy_dtype
from tile.ir.types import F8E4M3B15

FLOATS = [np.float64, np.float32, np.float16, ml_dtypes.bfloat16]


def test_integers_differ_by_any_amount() -> None:
    here, there = np.arange(6).reshape(2, 3), np.arange(6).reshape(2, 3)
    there[1, 2] += 1
    (found,) = differences({"x": here}, {"x": there})
    assert (found.index, found.here, found.there) == ((1, 2), "5", "6")
    assert (found.count, found.apart, found.size, found.rounding) == (1, 1, 6, False)


@pytest.mark.parametrize("dtype", FLOATS)
def test_one_bit_is_rounding_and_a_percent_of_wide_types_is_not(dtype: type) -> None:
    here = np.ones(4, dtype)
    eps = float(ml_dtypes.finfo(dtype).eps)
    (bit,) = differences({"x": here}, {"x": (here + np.array([0, eps, 0, 0])).astype(dtype)})
    assert bit.rounding and bit.index == (1,)
    (far,) = differences({"x": here}, {"x": (here * (1 + 300 * eps)).astype(dtype)})
    assert not far.rounding and far.count == 4


def test_what_differs_by_more_than_rounding_is_named_first() -> None:
    here = np.ones(3, np.float32)
    there = np.array([1 + 2**-23, 1, 2], np.float32)
    (found,) = differences({"x": here}, {"x": there})
    assert (found.index, found.count, found.apart) == ((2,), 2, 1)


def test_small_numbers_round_as_the_largest_do() -> None:
    here = np.array([1e6, 0.0], np.float32)
    (found,) = differences({"x": here}, {"x": np.array([1e6, 0.01], np.float32)})
    assert found.rounding


@pytest.mark.parametrize("other", [np.nan, np.inf])
def test_what_is_not_finite_is_not_rounded(other: float) -> None:
    here, there = np.ones(2, np.float32), np.array([1, other], np.float32)
    (found,) = differences({"x": here}, {"x": there})
    assert not found.rounding


def test_floats_that_numpy_lacks_are_compared_as_numbers() -> None:
    """The codes 0x38 and 0x39 of float8e4b15 are 2^-8 and 9/8 of it."""
    dtype = numpy_dtype(F8E4M3B15)
    here, there = (np.array([code, 0x30], np.uint8).view(dtype) for code in (0x38, 0x39))
    (found,) = differences({"x": here}, {"x": there})
    assert (found.here, found.there, found.rounding) == ("0.00390625", "0.0043945312", True)


def test_a_tolerance_takes_the_place_of_the_own_one() -> None:
    here, there = np.ones(2, np.float32), np.full(2, 1.01, np.float32)
    assert differences({"x": here}, {"x": there}, 0.1)[0].rounding
    assert not differences({"x": here}, {"x": there}, 0.001)[0].rounding


@given(st.lists(st.floats(width=32), max_size=8))
def test_an_array_is_like_its_copy(numbers: list[float]) -> None:
    here = np.array(numbers, np.float32)
    assert not differences({"x": here}, {"x": here.copy()})
