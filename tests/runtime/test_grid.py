from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tile import cdiv, next_power_of_2
from tile.errors import ArgumentTypeError, ArgumentValueError
from tile.runtime.grid import normalize_grid


@pytest.mark.parametrize(
    ("grid", "expected"),
    [
        (5, (5, 1, 1)),
        ((5,), (5, 1, 1)),
        ([5, 6], (5, 6, 1)),
        ((5, 6, 7), (5, 6, 7)),
        ((np.int64(5), np.uint8(6)), (5, 6, 1)),
        (np.int32(5), (5, 1, 1)),
        (0, (0, 1, 1)),
        ((4, 0), (4, 0, 1)),
        ((np.int64(0), 5, 6), (0, 5, 6)),
        (((1 << 31) - 1, 65535, 65535), ((1 << 31) - 1, 65535, 65535)),
    ],
)
def test_extents(grid, expected) -> None:
    extents = normalize_grid(grid)
    assert extents == expected
    assert [type(extent) for extent in extents] == [int, int, int]


@pytest.mark.parametrize(
    ("grid", "words"),
    [
        (-1, "grid -1 has -1 programs along axis 0; it takes at least 0"),
        ((4, -2), "grid (4, -2) has -2 programs along axis 1; it takes at least 0"),
        ((-3,), "has -3 programs along axis 0"),
        ((1, 2, 3, 4), "one to three axes; (1, 2, 3, 4) has 4"),
        ((), "one to three axes; () has 0"),
        ((1 << 31,), "at most 2147483647 on this axis"),
        ((1, 65536), "along axis 1; it takes at most 65535"),
        ((1, 1, 65536), "along axis 2; it takes at most 65535"),
    ],
)
def test_refuses_extents(grid, words: str) -> None:
    with pytest.raises(ArgumentValueError) as caught:
        normalize_grid(grid)
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("grid", "words"),
    [
        ((2.0,), "axis 0 of (2.0,) is a float; use tile.cdiv"),
        ((1, "2"), "axis 1 of (1, '2') is a str"),
        (None, "axis 0 of None is a NoneType"),
        ((True,), "axis 0 of (True,) is a bool"),
        (np.float32(2), "is a float32"),
    ],
)
def test_refuses_what_is_no_integer(grid, words: str) -> None:
    with pytest.raises(ArgumentTypeError) as caught:
        normalize_grid(grid)
    assert words in str(caught.value)


@given(st.integers(0, 10**12), st.integers(1, 10**6))
def test_cdiv_covers_and_no_more(x: int, y: int) -> None:
    blocks = cdiv(x, y)
    assert (blocks - 1) * y < x <= blocks * y


@given(st.integers(1, 1 << 70))
def test_next_power_of_2(n: int) -> None:
    power = next_power_of_2(n)
    assert power.bit_count() == 1
    assert power // 2 < n <= power


def test_sizes_of_numpy() -> None:
    assert cdiv(np.int64(5), np.int64(2)) == 3
    assert next_power_of_2(np.int64(5)) == 8
    assert next_power_of_2(0) == 1
