"""Barriers under a condition, and what threads do behind it."""

from __future__ import annotations

import numpy as np
import pytest

import tile
import tile.language as tl
from tests.conformance.running import Device


@tile.jit
def most(x_ptr, o_ptr, SIZE: tl.constexpr):
    """Store all but the greatest, which takes threads that exchange what they have."""
    i = tl.arange(0, SIZE)
    tl.store(o_ptr + i, tl.sort(tl.load(x_ptr + i)), mask=i < SIZE - 1)


@tile.jit(noinline=True)
def called(x_ptr, o_ptr, SIZE: tl.constexpr):
    most(x_ptr, o_ptr, SIZE)


@tile.jit
def conditional(x_ptr, o_ptr, ends_ptr, n, SIZE: tl.constexpr, HOW: tl.constexpr):
    """Sorts if `n` is 1."""
    if HOW == "if":
        if n > 0:
            most(x_ptr, o_ptr, SIZE)
    elif HOW == "else":
        if n <= 0:
            tl.store(o_ptr, 5)
        else:
            most(x_ptr, o_ptr, SIZE)
    elif HOW == "nested":
        if n > 0:
            if n < 2:
                most(x_ptr, o_ptr, SIZE)
            tl.store(ends_ptr + 1, 8)
    elif HOW == "loop":
        for k in range(2):
            if k < n:
                most(x_ptr, o_ptr, SIZE)
    elif HOW == "call":
        if n > 0:
            called(x_ptr, o_ptr, SIZE)
    tl.store(ends_ptr, 9)


@pytest.mark.parametrize("size", [4, 128])
@pytest.mark.parametrize("n", [0, 1])
@pytest.mark.parametrize("how", ["if", "else", "nested", "loop", "call"])
def test_barriers_under_a_condition(device: Device, how: str, n: int, size: int) -> None:
    types = {"x_ptr": "*i32", "o_ptr": "*i32", "ends_ptr": "*i32", "n": "i32"}
    options = {"num_warps": device.options.num_warps, "num_stages": device.options.num_stages}
    constants = {"SIZE": size, "HOW": how}
    kernel = tile.compile(conditional, types, constants, options, device.target)
    x = np.random.default_rng(size).permutation(size).astype(np.int32)
    out, ends = np.full(size, 7, np.int32), np.zeros(2, np.int32)
    kernel[1,](x, out, ends, n)
    wanted = np.full(size, 7, np.int32)
    if n:
        wanted[:-1] = np.arange(size - 1)
    elif how == "else":
        wanted[0] = 5
    np.testing.assert_array_equal(out, wanted)
    assert ends.tolist() == [9, 8 if how == "nested" and n else 0]
