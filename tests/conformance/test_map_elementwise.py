"""Functions of scalars with branches, applied to each element."""

from __future__ import annotations

import numpy as np
import pytest

import tile
import tile.language as tl
from tests.conformance.running import Device
from tests.frontend.building import module_of, refusal
from tile.ir.types import F32, I32, Pointer


@tile.jit
def step(x, y):
    if x % 2 == 0:
        if x > y:
            z = x // 2
        else:
            z = x + 5
    else:
        z = 3 * x + 1
    return z, z.to(tl.float32) * 0.5


def branches(x, y, z, N: tl.constexpr):
    at = tl.arange(0, N)[:, None] * 4 + tl.arange(0, 4)[None, :]
    whole, half = tl.map_elementwise(step, tl.load(x + at), 10)
    tl.store(y + at, whole)
    tl.store(z + at, half)


@pytest.mark.parametrize("n", [1, 8, 64])
def test_branches_are_taken_by_element(device: Device, n: int) -> None:
    x = np.random.default_rng(0).integers(0, 100, (n, 4)).astype(np.int32)
    y, z = np.zeros_like(x), np.zeros(x.shape, np.float32)
    module = module_of(branches, Pointer(I32), Pointer(I32), Pointer(F32), N=n)
    device.run(module, (1, 1, 1), [x, y, z])
    expected = np.where(x % 2 == 1, 3 * x + 1, np.where(x > 10, x // 2, x + 5))
    np.testing.assert_array_equal(y, expected)
    np.testing.assert_array_equal(z, expected.astype(np.float32) / 2)


@tile.jit
def scaled(a, b, c, d, w0, w1, w2, w3):
    return a * w0, b * w1, c * w2, d * w3


def packed(x, y):
    at = tl.arange(0, 32)
    tl.store(y + at, tl.map_elementwise(scaled, tl.load(x + at), at, pack=4))


def test_several_elements_share_a_call(device: Device) -> None:
    x, y = np.arange(32, dtype=np.int32)[::-1].copy(), np.zeros(32, np.int32)
    device.run(module_of(packed, Pointer(I32), Pointer(I32)), (1, 1, 1), [x, y])
    np.testing.assert_array_equal(y, x * np.arange(32))


@tile.jit
def loads(x):
    return tl.load(x)


@tile.jit
def three(a, b):
    return a, b, a


def refused_load(x):
    tl.map_elementwise(loads, x + tl.arange(0, 4))


def refused_scalar(x):
    tl.map_elementwise(step, 1, 2)


def refused_function(x):
    tl.map_elementwise(3, tl.arange(0, 4))


def refused_pack(x):
    tl.map_elementwise(three, tl.arange(0, 4), pack=3)


def refused_results(x):
    tl.map_elementwise(three, tl.arange(0, 4), pack=2)


@pytest.mark.parametrize(
    ("kernel", "message"),
    [
        (refused_load, "`load` is not allowed there"),
        (refused_scalar, "tl.map_elementwise takes at least one tile"),
        (refused_function, "the scalar_fn of tl.map_elementwise is a @tile.jit function, not 3"),
        (refused_pack, "the pack of tl.map_elementwise is a power of two up to 4"),
        (refused_results, "`three`, the scalar_fn of tl.map_elementwise, returns 3 values"),
    ],
)
def test_errors(kernel: object, message: str) -> None:
    assert message in refusal(kernel, Pointer(I32)).message  # type: ignore[arg-type]
