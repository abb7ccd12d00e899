"""Constant tables that are indexed by runtime values."""

from __future__ import annotations

import numpy as np
import pytest

import tile.language as tl
from tests.conformance.running import Device
from tests.frontend.building import module_of
from tile.ir.numpy_dtypes import numpy_dtype
from tile.ir.types import BF16, F16, F32, I1, I8, I32, U8, U64, Pointer, Scalar

GRID = tl.constexpr(np.arange(15, dtype=np.int8).reshape(3, 5))


def looked_up(x, y, TABLE: tl.constexpr, N: tl.constexpr):
    at = tl.arange(0, N)
    tl.store(y + at, TABLE[tl.load(x + at)])


@pytest.mark.parametrize("count", [1, 5, 16, 64, 65, 3000])
@pytest.mark.parametrize("ty", [F32, F16, BF16, I8, U64, I1], ids=str)
def test_entries_of_an_array(device: Device, ty: Scalar, count: int) -> None:
    random = np.random.default_rng(count)
    table = random.integers(0, 2 if ty is I1 else 100, count).astype(numpy_dtype(ty))
    x, y = random.integers(0, count, 256).astype(np.int32), np.zeros(256, table.dtype)
    module = module_of(looked_up, Pointer(I32), Pointer(ty), TABLE=tl.constexpr(table).value, N=256)
    device.run(module, (1, 1, 1), [x, y])
    np.testing.assert_array_equal(y, table[x])


LARGE = tl.constexpr(np.arange(100, dtype=np.float32) / 2)


def by_gather(x, y, n):
    at = tl.arange(0, 64)
    inside = at < n
    index = tl.load(x + at, inside, other=0)
    first = LARGE[tl.load(x).to(tl.int32)]
    tl.store(y + at, tl.gather(LARGE, index) + first, inside)


def test_gather_from_a_table(device: Device) -> None:
    x, y = np.arange(99, 59, -1).astype(np.uint8), np.zeros(40, np.float32)
    module = module_of(by_gather, Pointer(U8), Pointer(F32), I32)
    device.run(module, (1, 1, 1), [x, y, np.int32(40)])
    np.testing.assert_array_equal(y, x / np.float32(2) + 49.5)


def in_rows(x, y, n):
    for i in range(n):
        v = tl.load(x + i)
        tl.store(y + i, GRID[v % 3, v % 5] + GRID[1, 2])


def test_scalars_index_rows_and_columns(device: Device) -> None:
    x, y = np.arange(20, dtype=np.int32), np.zeros(20, np.int8)
    device.run(module_of(in_rows, Pointer(I32), Pointer(I8), I32), (1, 1, 1), [x, y, np.int32(20)])
    np.testing.assert_array_equal(y, (np.arange(15).reshape(3, 5) + 7)[x % 3, x % 5])
