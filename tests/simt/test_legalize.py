"""Legalised arithmetic gives what the operations mean."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tile.ir import semantics
from tile.ir.ops.arith import Predicate, Rounding
from tile.ir.types import BF16, F16, Scalar, numpy_dtype


def every(element: Scalar) -> Any:
    """All numbers of a 16-bit float that are finite."""
    bits = np.arange(1 << 16, dtype=np.uint16).view(numpy_dtype(element))
    return bits[np.isfinite(bits.astype(np.float32))]


@pytest.mark.parametrize("element", [F16, BF16], ids=str)
@pytest.mark.parametrize("name", ["add", "sub", "mul", "div"])
def test_rounding_twice_does_no_harm(element: Scalar, name: str) -> None:
    x = every(element)
    y = np.random.default_rng(3).permutation(x)
    compute = getattr(semantics, name)
    with np.errstate(all="ignore"):
        exact = compute(x.astype(np.float64), y.astype(np.float64)).astype(numpy_dtype(element))
        wide = compute(x.astype(np.float32), y.astype(np.float32))
        found = semantics.cast(wide, element, Rounding.RTNE)
    assert found.dtype == numpy_dtype(element)
    np.testing.assert_array_equal(found.astype(np.float32), exact.astype(np.float32))


@pytest.mark.parametrize("element", [F16, BF16], ids=str)
@pytest.mark.parametrize("predicate", Predicate)
def test_comparisons_are_the_same(element: Scalar, predicate: Predicate) -> None:
    x = every(element)
    y = np.random.default_rng(5).permutation(x)
    y[::7] = x[::7]
    narrow = semantics.cmp(x, y, predicate)
    wide = semantics.cmp(x.astype(np.float32), y.astype(np.float32), predicate)
    np.testing.assert_array_equal(narrow, wide)
    assert narrow.any() and not narrow.all()
