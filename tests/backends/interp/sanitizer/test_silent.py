"""Correct kernels that once caused false reports, or ended the run."""

from __future__ import annotations

import numpy as np

import tile
import tile.language as tl


@tile.jit
def gather_rows(x_ptr, at_ptr, out_ptr, N: tl.constexpr):
    place = tl.load(at_ptr + tl.arange(0, N))[:, None, None]
    alike = tl.zeros((1, 2, 1), tl.int32)
    x = tl.load(x_ptr + place + alike + tl.arange(0, 2)[None, None, :])
    row = tl.arange(0, N)[:, None, None] * 4 + tl.arange(0, 2)[None, :, None] * 2
    tl.store(out_ptr + row + tl.arange(0, 2)[None, None, :], x)
    tl.store(x_ptr + 100, 1.0, mask=tl.program_id(0) < 0)  # so that reads of x are recorded


def test_elements_that_several_lanes_read() -> None:
    x, at = np.arange(128, dtype=np.float32), np.array([9, 3, 0, 20], np.int32)
    out = np.zeros((4, 2, 2), np.float32)
    with tile.sanitize("all"):
        gather_rows[(1,)](x, at, out, N=4)
    wanted = np.broadcast_to(x[at[:, None] + np.arange(2)][:, None], out.shape)
    np.testing.assert_array_equal(out, wanted)


@tile.jit
def constant_pairs(x_ptr, out_ptr, N: tl.constexpr):
    x = tl.max_constancy(tl.load(x_ptr + tl.arange(0, N)), 2)
    tl.store(out_ptr + tl.arange(0, N), x)


def test_nans_are_equal() -> None:
    x = np.array([np.nan, np.nan, 1.5, 1.5], np.float32)
    out = np.zeros_like(x)
    with tile.sanitize("all"):
        constant_pairs[(1,)](x, out, N=4)
    np.testing.assert_array_equal(out, x)


def test_false_promise_about_floats_names_them() -> None:
    x = np.array([1.0, 2.5, 1.5, 1.5], np.float32)
    with tile.sanitize(collect=True) as report:
        constant_pairs[(1,)](x, np.zeros_like(x), N=4)
    assert "the value is 2.5, after 1.0 one element before it" in str(report)


@tile.jit
def hashed(x_ptr, o_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    x = (tl.load(x_ptr + i) + 40503) * 0x6C8E9CF5
    x = (x ^ (x >> 15)) * 0x2C1B3C6D
    tl.store(o_ptr + ((x >> 3) & (N - 1)), 1, mask=i < 1)
    u = tl.load(x_ptr + i).to(tl.uint32) * 2654435761
    tl.store(o_ptr + N + (tl.sum(u, 0) % N).to(tl.int32), 1)
    folded = tl.xor_sum(x * 0x6C8E9CF5, 0)
    tl.store(o_ptr + 2 * N + (folded & (N - 1)), 1)


def test_hashes_wrap_as_they_should() -> None:
    with tile.sanitize("all"):
        hashed[(1,)](np.arange(8, dtype=np.int32) + (1 << 20), np.zeros(24, np.int32), N=8)


@tile.jit
def checksum(x_ptr, o_ptr, N: tl.constexpr):
    x = tl.load(x_ptr + tl.arange(0, N))
    total = tl.sum(x, 0)
    if total > 0:
        shown = total
    else:
        shown = -total
    tl.store(o_ptr, total)
    tl.store(o_ptr + 1, shown)
    tl.store(o_ptr + 2 + tl.arange(0, N), tl.cumsum(x, 0))


def test_sums_that_wrap_are_stored() -> None:
    x, out = np.full(8, 1 << 29, np.int32), np.zeros(10, np.int32)
    with tile.sanitize("all"):
        checksum[(1,)](x, out, N=8)
    np.testing.assert_array_equal(out[2:], np.cumsum(x, dtype=np.int32))


@tile.jit
def totals(x_ptr, o_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    x = tl.load(x_ptr + i)
    tl.store(o_ptr + tl.sum(x, 0), 1)  # parts of it do not fit, and the sum does


def test_sums_whose_parts_alone_wrap() -> None:
    most = (1 << 31) - 1
    x = np.array([most, most, -most, -most, 1, 1, 0, 0], np.int32)
    out = np.zeros(4, np.int32)
    with tile.sanitize("all"):
        totals[(1,)](x, out, N=8)
    np.testing.assert_array_equal(out, [0, 0, 1, 0])


@tile.jit
def masked_by_both(x_ptr, o_ptr, row, stride, N: tl.constexpr):
    i = tl.arange(0, N)
    far = row * stride + i
    tl.store(o_ptr + i, tl.load(x_ptr + i), mask=(i < N) & ((far < 0) | (i >= 0)))


def test_wrapped_condition_that_decides_nothing() -> None:
    with tile.sanitize("all"):
        masked_by_both[(1,)](np.zeros(8, np.int8), np.zeros(8, np.int8), 1 << 16, 1 << 16, N=8)


@tile.jit
def guarded_ratio(a, b):
    return tl.where(b == 0, a, a // tl.where(b == 0, 1, b))


@tile.jit
def first_of_two(a, b):
    return a


@tile.jit
def scan_masked(x_ptr, o_ptr, n, N: tl.constexpr):
    i = tl.arange(0, N)
    x = tl.load(x_ptr + i, mask=i < n)
    tl.store(o_ptr + i, tl.associative_scan(x, 0, first_of_two))
    y = tl.associative_scan(x, 0, guarded_ratio)
    tl.store(o_ptr + i, y, mask=i < n)


def test_scan_function_that_ignores_an_operand() -> None:
    x, out = np.array([9, 3, 0, 20], np.int32), np.zeros(8, np.int32)
    with tile.sanitize("all"):
        scan_masked[(1,)](x, out, 4, N=8)


@tile.jit
def next_blocks(x_ptr, at_ptr, out_ptr, blocks, N: tl.constexpr):
    """Add up blocks in two steps each, as flex attention steps through the blocks of a mask."""
    lane = tl.arange(0, N)
    place, total = tl.load(at_ptr) * 2 * N + lane, tl.zeros((N,), tl.float32)
    for step in range(2 * blocks):
        total += tl.load(x_ptr + place)
        block = step // 2
        following = tl.load(at_ptr + block + 1, mask=block + 1 < blocks)
        jumps = (step + 1) % 2 == 0
        jump = (following - tl.load(at_ptr + block)) * 2 * N - N
        place += jump * jumps + (1 - jumps) * N
    tl.store(out_ptr + lane, total)


def test_undefined_integers_times_0_are_0() -> None:
    x, at = np.arange(64, dtype=np.float32), np.array([2, 0, 3], np.int32)
    out = np.zeros(8, np.float32)
    with tile.sanitize("all"):
        next_blocks[(1,)](x, at, out, 3, N=8)
    wanted = x.reshape(4, 2, 8)[[2, 0, 3]].sum((0, 1))
    np.testing.assert_array_equal(out, wanted)
