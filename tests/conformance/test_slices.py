"""Static slices and elements of tiles: they move elements, and compute nothing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tile.language as tl
from tests.conformance.running import Array, Device
from tests.frontend.building import module_of
from tile.ir.numpy_dtypes import numpy_dtype
from tile.ir.types import BF16, F32, F64, I8, I32, I64, Pointer, Scalar

ROWS, COLUMNS = 16, 32


def rows_and_columns(x, y, R: tl.constexpr, C: tl.constexpr):
    t = tl.load(x + tl.arange(0, R)[:, None] * C + tl.arange(0, C)[None, :])
    rows, columns, half = tl.arange(0, R), tl.arange(0, C), tl.arange(0, C // 2)
    tl.store(y + columns, t[3])
    y += C
    tl.store(y + rows, t[:, -1])
    y += R
    tl.store(y + rows[:, None] * (C // 2) + half[None, :], t[:, C // 2 :])
    y += R * C // 2
    tl.store(y + rows[:, None] * (C // 2) + half[None, :], t[:, 1::2])
    y += R * C // 2
    tl.store(y + rows[:8][:, None] * C + columns[None, :], t[4:12])
    y += 8 * C
    tl.store(y + tl.arange(0, 4), t[::-4, 5])
    y += 4
    tl.store(y, t[7, 9])
    tl.store(y + 1, t[-1, 0:1][0])


def expected_parts(x: Array) -> list[Any]:
    c = x.shape[1]
    return [x[3], x[:, -1], x[:, c // 2 :], x[:, 1::2], x[4:12], x[::-4, 5], x[7, 9], x[-1, 0]]


@pytest.mark.parametrize("ty", [I32, F32, I8, BF16, F64, I64], ids=str)
def test_parts_of_a_tile(device: Device, ty: Scalar) -> None:
    dtype = numpy_dtype(ty)
    x = np.random.default_rng(0).integers(-100, 100, (ROWS, COLUMNS)).astype(dtype)
    expected = np.concatenate([np.ravel(part) for part in expected_parts(x)])
    y = np.zeros(expected.size, dtype)
    module = module_of(rows_and_columns, Pointer(ty), Pointer(ty), R=ROWS, C=COLUMNS)
    device.run(module, (1, 1, 1), [x, y])
    np.testing.assert_array_equal(y, expected)


def conditions(x, y, N: tl.constexpr):
    at = tl.arange(0, N)
    positive = tl.load(x + at) > 0
    pointers = y + at
    tl.store(pointers[N // 2 :], positive[: N // 2].to(tl.int32))
    tl.store(pointers[0], positive[N - 1].to(tl.int32))


def test_conditions_and_pointers(device: Device) -> None:
    x = np.array([1, -1, 1, 1, -1, -1, 1, 1], np.int32)
    y = np.full(8, 7, np.int32)
    device.run(module_of(conditions, Pointer(I32), Pointer(I32), N=8), (1, 1, 1), [x, y])
    np.testing.assert_array_equal(y, [1, 7, 7, 7, 1, 0, 1, 1])


def quarters(x, y, N: tl.constexpr):
    at = tl.arange(0, N)
    a, b, c, d = tl.split(tl.load(x + at[:, None] * 4 + tl.arange(0, 4)[None, :]))
    tl.store(y + at, a + 10 * b + 100 * c + 1000 * d)


@pytest.mark.parametrize("n", [1, 8, 512])
def test_a_last_axis_of_four_splits_into_four(device: Device, n: int) -> None:
    x = np.random.default_rng(0).integers(0, 10, (n, 4)).astype(np.int32)
    y = np.zeros(n, np.int32)
    device.run(module_of(quarters, Pointer(I32), Pointer(I32), N=n), (1, 1, 1), [x, y])
    np.testing.assert_array_equal(y, x @ np.array([1, 10, 100, 1000]))


def running(x, y, n, N: tl.constexpr):
    """Cumulative sums over an array in blocks; the last sum of a block starts the next one."""
    total = tl.zeros((), tl.int32)
    for start in range(0, n, N):
        at = start + tl.arange(0, N)
        sums = tl.cumsum(tl.load(x + at)) + total
        tl.store(y + at, sums)
        total = sums[-1]


def test_the_last_element_is_carried(device: Device) -> None:
    x = np.random.default_rng(0).integers(0, 10, 256).astype(np.int32)
    y = np.zeros_like(x)
    module = module_of(running, Pointer(I32), Pointer(I32), I32, N=64)
    device.run(module, (1, 1, 1), [x, y, np.int32(x.size)])
    np.testing.assert_array_equal(y, np.cumsum(x))
