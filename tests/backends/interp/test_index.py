"""Kernels that sort, select, count, gather, join and flip, over many programs at once."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tile
import tile.language as tl
from tile.ir.semantics import numpy_dtype, quiet
from tile.ir.types import ALL, FLOATS, INTEGERS, Scalar

RANDOM = np.random.default_rng(11)


@pytest.fixture(autouse=True)
def interpreted() -> Any:
    with tile.backend("interp"):
        yield


def values(ty: Scalar, *shape: int) -> Any:
    """Random bits, of floats the finite ones."""
    dtype = numpy_dtype(ty)
    if ty.is_bool():
        return RANDOM.integers(0, 2, shape).astype(bool)
    x = RANDOM.integers(0, 256, (*shape, dtype.itemsize), dtype=np.uint8).view(dtype)[..., 0]
    if ty.is_floating():
        with quiet():
            x[~np.isfinite(x.astype(np.float64))] = 1
    return x


@tile.jit
def order(x_ptr, up_ptr, top_ptr, N: tl.constexpr, K: tl.constexpr):
    pid = tl.program_id(0)
    x = tl.load(x_ptr + pid * N + tl.arange(0, N))
    tl.store(up_ptr + pid * N + tl.arange(0, N), tl.sort(x))
    tl.store(top_ptr + pid * K + tl.arange(0, K), tl.topk(x, K))


@pytest.mark.parametrize("ty", [*INTEGERS, *FLOATS], ids=str)
def test_sort_and_topk(ty: Scalar) -> None:
    x = values(ty, 30, 64)
    up, top = np.zeros_like(x), np.zeros_like(x[:, :8])
    order[(30,)](x, up, top, N=64, K=8)
    wide = x if ty.is_int() else x.astype(np.float64)
    np.testing.assert_array_equal(up.astype(wide.dtype), np.sort(wide, 1))
    np.testing.assert_array_equal(top.astype(wide.dtype), np.sort(wide, 1)[:, :-9:-1])


@tile.jit
def route(x_ptr, index_ptr, weight_ptr, M: tl.constexpr, E: tl.constexpr, K: tl.constexpr):
    """The K experts of each row, by keys that carry the column in their lowest bits."""
    rows = tl.program_id(0) * M + tl.arange(0, M)
    columns = tl.arange(0, E)
    x = tl.load(x_ptr + rows[:, None] * E + columns)
    bits = x.to(tl.int32, bitcast=True)
    keys = ((bits ^ ((bits >> 31) & 0x7FFFFFFF)).to(tl.int64) << 32) | columns
    best = tl.topk(keys, K, dim=1)
    index = (best & 0xFFFFFFFF).to(tl.int32)
    weights = tl.softmax(tl.gather(x, index, 1), 1)
    at = rows[:, None] * K + tl.arange(0, K)
    tl.store(index_ptr + at, index)
    tl.store(weight_ptr + at, weights)


def test_routing_to_experts() -> None:
    x = RANDOM.standard_normal((32, 16)).astype(np.float32)
    index, weights = np.zeros((32, 4), np.int32), np.zeros((32, 4), np.float32)
    route[(4,)](x, index, weights, M=8, E=16, K=4)
    wanted = np.argsort(-x, 1)[:, :4]
    np.testing.assert_array_equal(index, wanted)
    chosen = np.exp(np.take_along_axis(x, wanted, 1).astype(np.float64))
    np.testing.assert_allclose(weights, chosen / chosen.sum(1, keepdims=True), rtol=1e-5)


@tile.jit
def count(x_ptr, total_ptr, n, BINS: tl.constexpr, N: tl.constexpr):
    at = tl.program_id(0) * N + tl.arange(0, N)
    x = tl.load(x_ptr + at, mask=at < n, other=0)
    tl.atomic_add(total_ptr + tl.arange(0, BINS), tl.histogram(x, BINS, mask=at < n))


@pytest.mark.parametrize("dtype", ["uint8", "int32", "int64"])
def test_a_histogram_over_the_grid(dtype: str) -> None:
    x = RANDOM.integers(0, 200, 10_000).astype(dtype)
    total = np.zeros(128, np.int32)
    count[(40,)](x, total, x.size, BINS=128, N=256)
    np.testing.assert_array_equal(total, np.bincount(x)[:128])


@tile.jit
def complex_mul(a_ptr, b_ptr, out_ptr, N: tl.constexpr):
    """Numbers with their parts side by side in memory."""
    at = tl.program_id(0) * 2 * N + tl.arange(0, 2 * N)
    re, im = tl.split(tl.load(a_ptr + at).reshape(N, 2))
    x, y = tl.load(b_ptr + at).reshape(N, 2).split()
    tl.store(out_ptr + at, tl.interleave(re * x - im * y, re * y + im * x))


def test_complex_numbers_come_apart_and_together() -> None:
    a, b = RANDOM.standard_normal((2, 12, 32, 2))
    out = np.zeros_like(a)
    complex_mul[(12,)](a, b, out, N=32)
    parts = [x.view(np.complex128)[..., 0] for x in (a, b, out)]
    np.testing.assert_allclose(parts[2], parts[0] * parts[1], rtol=1e-12)


@tile.jit
def moved(x_ptr, y_ptr, flip_ptr, cat_ptr, M: tl.constexpr, N: tl.constexpr):
    at = tl.program_id(0) * M * N + tl.arange(0, M)[:, None] * N + tl.arange(0, N)
    x, y = tl.load(x_ptr + at), tl.load(y_ptr + at)
    tl.store(flip_ptr + at, tl.flip(x, 0).flip())
    out = tl.program_id(0) * M * 2 * N + tl.arange(0, 2 * M)[:, None] * N + tl.arange(0, N)
    tl.store(cat_ptr + out, tl.cat(x, y, dim=0))


@pytest.mark.parametrize("ty", ALL, ids=str)
def test_flip_and_cat(ty: Scalar) -> None:
    x, y = values(ty, 5, 4, 8), values(ty, 5, 4, 8)
    flipped, behind = np.zeros_like(x), np.zeros((5, 8, 8), x.dtype)
    moved[(5,)](x, y, flipped, behind, M=4, N=8)
    assert flipped.tobytes() == np.ascontiguousarray(x[:, ::-1, ::-1]).tobytes()
    assert behind.tobytes() == np.concatenate([x, y], 1).tobytes()


@tile.jit
def shared_and_own(x_ptr, out_ptr, N: tl.constexpr):
    """Tiles that are the same for all programs, and filled ones, next to those that are not."""
    pid = tl.program_id(0)
    ramp = tl.arange(0, N)
    own = tl.load(x_ptr + pid * N + ramp)
    shuffled = tl.gather(ramp * 2, own, 0) + tl.gather(own, ramp ^ 1, 0)
    filled = tl.sort(tl.full((N,), pid, tl.int32)) + tl.flip(tl.full((N,), 3, tl.int32))
    first, second = tl.split(tl.join(ramp, own))
    counts = tl.histogram(ramp // 2, N)
    tl.store(out_ptr + pid * N + ramp, shuffled + filled + first * second + counts)


def test_values_that_programs_share() -> None:
    x = RANDOM.integers(0, 16, (20, 16)).astype(np.int32)
    out = np.zeros_like(x)
    shared_and_own[(20,)](x, out, N=16)
    ramp = np.arange(16)
    wanted = x * 2 + x[:, ramp ^ 1] + np.arange(20)[:, None] + 3 + ramp * x
    np.testing.assert_array_equal(out, wanted + np.bincount(ramp // 2, minlength=16))
