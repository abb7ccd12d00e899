"""Block pointers: blocks read and written at and beyond the edges of arrays, and moved in loops."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import tile.language as tl
from tests.conformance.running import Array, Device
from tests.conformance.values import random_array
from tests.frontend.building import module_of
from tile.ir.types import F16, F32, I32, U8, Pointer, Scalar


def copy(x, y, M, N, sm, sn, row, column, PAD: tl.constexpr, FIRST: tl.constexpr):
    p = tl.make_block_ptr(x, (M, N), (sm, sn), (row, column), (8, 16), FIRST)
    q = tl.make_block_ptr(y, [8, 16], [16, 1], [0, 0], [8, 16], [1, 0])
    tl.store(q, tl.load(p, boundary_check=(0, 1), padding_option=PAD))


def padded(x: Array, row: int, column: int, outside: float) -> Array:
    """The block of 8 x 16 elements at (row, column), with a number outside the array."""
    result = np.full((8, 16), outside, np.float64).astype(x.dtype)
    for i in range(8):
        for j in range(16):
            if 0 <= row + i < x.shape[0] and 0 <= column + j < x.shape[1]:
                result[i, j] = x[row + i, column + j]
    return result


@pytest.mark.parametrize("start", [(0, 0), (8, 16), (-3, 5), (2, -16), (12, 20), (40, 0)], ids=str)
@pytest.mark.parametrize("transposed", [False, True], ids=["rows", "columns"])
@pytest.mark.parametrize(
    ("element", "padding"), [(F32, ""), (F16, "nan"), (I32, "zero"), (U8, "")], ids=str
)
def test_blocks_inside_and_outside(
    device: Device, element: Scalar, padding: str, transposed: bool, start: tuple[int, int]
) -> None:
    m, n = 13, 21
    x = random_array(np.random.default_rng(0), element, m * n).reshape(m, n)
    memory = np.ascontiguousarray(x.T if transposed else x)
    y = np.zeros((8, 16), x.dtype)
    order = (0, 1) if transposed else (1, 0)
    types = [Pointer(element)] * 2 + [I32] * 6
    module = module_of(copy, *types, PAD=padding, FIRST=order)
    strides = (1, m) if transposed else (n, 1)
    numbers = [np.int32(number) for number in (m, n, *strides, *start)]
    device.run(module, (1, 1, 1), [memory, y, *numbers])
    outside = math.nan if padding == "nan" else 0
    assert y.tobytes() == padded(x, *start, outside).tobytes()


def scatter(y, N, row):
    p = tl.make_block_ptr(y, (5, N), (N, 1), (row, 4), (4, 8), (1, 0))
    numbers = tl.arange(0, 8)[None, :] + tl.arange(0, 4)[:, None] * 8
    p.store(numbers, boundary_check=(1, 0))


@pytest.mark.parametrize("row", [-2, 0, 3, 7])
def test_nothing_outside_is_written(device: Device, row: int) -> None:
    y = np.full((5, 9), -1, np.int32)
    device.run(
        module_of(scatter, Pointer(I32), I32, I32), (1, 1, 1), [y, np.int32(9), np.int32(row)]
    )
    expected = np.full((5, 9), -1, np.int32)
    for i, j in np.ndindex(4, 8):
        if 0 <= row + i < 5 and 4 + j < 9:
            expected[row + i, 4 + j] = i * 8 + j
    np.testing.assert_array_equal(y, expected)


def fill(y, rows):
    p = tl.make_block_ptr(y, (rows, 4), (4, 1), (0, 0), (4, 4), (1, 0))
    tl.store(p, tl.full((4, 4), 1, tl.int32), boundary_check=(0, 1))


@pytest.mark.parametrize("rows", [-5, 0, 3])
def test_a_negative_extent_excludes_all_elements(device: Device, rows: int) -> None:
    y = np.zeros((4, 4), np.int32)
    device.run(module_of(fill, Pointer(I32), I32), (1, 1, 1), [y, np.int32(rows)])
    assert y.sum(axis=1).tolist() == [4 * (i < rows) for i in range(4)]


def matmul(a, b, c, M, N, K):
    i, j = tl.program_id(0) * 16, tl.program_id(1) * 16
    p = tl.make_block_ptr(a, (M, K), (K, 1), (i, 0), (16, 16), (1, 0))
    q = tl.make_block_ptr(b, (K, N), (N, 1), (0, j), (16, 16), (1, 0))
    sums = tl.zeros((16, 16), tl.float32)
    for _ in range(0, K, 16):
        sums = tl.dot(tl.load(p, boundary_check=(0, 1)), tl.load(q, boundary_check=(0, 1)), sums)
        p = tl.advance(p, (0, 16))
        q = q.advance((16, 0))
    r = tl.make_block_ptr(c, (M, N), (N, 1), (i, j), (16, 16), (1, 0))
    tl.store(r, sums.to(r.dtype.element_ty), boundary_check=(0, 1))


def test_block_pointers_move_through_loops(device: Device) -> None:
    m, n, k = 24, 40, 37
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-4, 5, s).astype(np.float16) for s in ((m, k), (k, n)))
    c = np.zeros((m, n), np.float16)
    types: list[Any] = [Pointer(F16)] * 3 + [I32] * 3
    module = module_of(matmul, *types)
    device.run(module, (2, 3, 1), [a, b, c, *map(np.int32, (m, n, k))])
    np.testing.assert_array_equal(c, (a.astype(np.float32) @ b).astype(np.float16))


def chosen(y, flag):
    p = tl.make_block_ptr(y, (16,), (1,), (0,), (4,), (0,))
    if flag > 0:
        p = tl.advance(p, (4,))
    else:
        p = tl.advance(p, [flag])
    tl.store(p, 1, boundary_check=(0,))


@pytest.mark.parametrize(("flag", "first"), [(1, 4), (0, 0), (-2, 0)])
def test_a_block_pointer_chosen_by_a_branch(device: Device, flag: int, first: int) -> None:
    y = np.zeros(16, np.int32)
    device.run(module_of(chosen, Pointer(I32), I32), (1, 1, 1), [y, np.int32(flag)])
    assert np.flatnonzero(y).tolist() == list(range(first, first + 4 + min(0, flag)))
