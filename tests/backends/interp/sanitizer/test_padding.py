"""Checks of tiles whose extents are no powers of two: of their elements, and not of padding."""

from __future__ import annotations

import numpy as np
import pytest

import tile
import tile.language as tl
from tile.errors import OutOfBoundsError, UndefinedValueError


@tile.jit
def rows(x_ptr, o_ptr, n, M: tl.constexpr, N: tl.constexpr):
    row, at = tl.arange(0, M)[:, None], tl.arange(0, N)[None, :]
    x = tl.load(x_ptr + row * N + at, mask=at < n)
    tl.store(o_ptr + row * N + at, tl.where(at < n, x, 0))
    tl.store(o_ptr + row * N, tl.sum(tl.cumsum(tl.where(at < n, x, 0), 1), 1, keep_dims=True))
    tl.device_assert(row * N + at < M * N, "in the array")


def test_arrays_that_tiles_fill() -> None:
    x = np.arange(21, dtype=np.int32).reshape(3, 7)
    out = np.zeros_like(x)
    with tile.sanitize("all"):
        rows[(1,)](x, out, 5, M=3, N=7)
    np.testing.assert_array_equal(out[:, 1:5], x[:, 1:5])


@tile.jit
def copy(x_ptr, o_ptr, n, N: tl.constexpr):
    at = tl.arange(0, N)
    tl.store(o_ptr + at, tl.load(x_ptr + at, mask=at < n))


@pytest.mark.parametrize("checks", ["all", "bounds"])
def test_the_last_element_is_checked(checks: str) -> None:
    x, out = np.zeros(99, np.float32), np.zeros(100, np.float32)
    with tile.sanitize(checks), pytest.raises(OutOfBoundsError, match="at element 99, 1 past"):
        copy[(1,)](x, out, 100, N=100)
    with tile.sanitize(checks), pytest.raises(OutOfBoundsError, match="at element 99, 1 past"):
        copy[(1,)](out, x, 100, N=100)


def test_undefined_elements_are_found() -> None:
    x, out = np.zeros(100, np.float32), np.zeros(100, np.float32)
    with tile.sanitize("all"):
        copy[(1,)](x, out, 100, N=100)
    with tile.sanitize("all"), pytest.raises(UndefinedValueError):
        copy[(1,)](x, out, 99, N=100)
