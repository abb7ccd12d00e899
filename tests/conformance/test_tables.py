"""Constant tables that are indexed by runtime values."""

from __future__ import annotations

import numpy as np
import pytest

import tile
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


@tile.jit
def decoded(x):
    """An integer of 4 bits, by the first case that it equals; two are the same."""
    if x == 9:
        return -0.0
    if x == 0:
        return 0.25
    if x == 1:
        return 1.5
    if x == 2:
        return -3.0
    if x == 3:
        return float("inf")
    if x == 9:
        return 1.0
    if x == 4:
        return 6.0
    if x == 5:
        return 7.5
    if x == 6:
        return 0.1
    return 12.0


def by_cases(x, y, z, n):
    at = tl.arange(0, 64)
    v = tl.load(x + at)
    chosen = tl.full((64,), 9.0, tl.float32)
    chosen = tl.where(v == 7, -0.0, chosen)
    chosen = tl.where(v == 6, 1.0, chosen)
    chosen = tl.where(v == 5, 2.0, chosen)
    chosen = tl.where(v == 4, 3.5, chosen)
    chosen = tl.where(v == 3, 4.0, chosen)
    chosen = tl.where(v == 2, 5.0, chosen)
    chosen = tl.where(v == 1, 6.0, chosen)
    chosen = tl.where(v == 0, 7.0, chosen)
    tl.store(z + at, chosen)
    for i in range(n):
        tl.store(y + i, decoded(tl.load(x + i)))


@pytest.mark.parametrize("ty", [I8, U8, I32, U64], ids=str)
def test_choices_between_constants(device: Device, ty: Scalar) -> None:
    dtype = numpy_dtype(ty)
    x = np.concatenate([np.arange(59), [-1, -8, 100, 127, -128]]).astype(dtype)
    first = np.full(256, 12, np.float32)
    first[:7] = 0.25, 1.5, -3, np.inf, 6, 7.5, 0.1
    first[9] = -0.0
    second = np.full(256, 9, np.float32)
    second[:8] = 7, 6, 5, 4, 3.5, 2, 1, -0.0
    y, z = np.zeros(64, np.float32), np.zeros(64, np.float32)
    module = module_of(by_cases, Pointer(ty), Pointer(F32), Pointer(F32), I32)
    device.run(module, (1, 1, 1), [x, y, z, np.int32(64)])
    wide = x.astype(np.int64)
    index = np.where((wide >= 0) & (wide < 256), wide, 255)
    for out, wanted in ((y, first), (z, second)):
        np.testing.assert_array_equal(out.view(np.int32), wanted[index].view(np.int32))
