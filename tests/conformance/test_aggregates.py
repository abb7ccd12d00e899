"""Aggregates in loops, in branches and as arguments of functions."""

from __future__ import annotations

import numpy as np

import tile
import tile.language as tl
from tests.conformance.running import Device
from tests.frontend.building import module_of
from tile.ir.types import F32, I32, Pointer


@tile.aggregate
class Moments:
    count: tl.tensor
    mean: tl.tensor
    BLOCK: tl.constexpr

    @tile.jit
    def add(self, x):
        count = self.count + 1
        return Moments(count, self.mean + (x - self.mean) / count, self.BLOCK)

    @tile.jit
    def offsets(self):
        return tl.arange(0, self.BLOCK)


def running_mean(x, out, n, N: tl.constexpr):
    state = Moments(0.0, tl.zeros((N,), tl.float32), N)
    for i in range(n):
        row = tl.load(x + i * N + state.offsets())
        if i % 2 == 0:
            state = state.add(row)
        else:
            state.mean = state.add(row * 2).mean
            state.count += 1
    tl.store(out + state.offsets(), state.mean)


def test_a_running_mean(device: Device) -> None:
    n, extent = 6, 64
    x = np.random.default_rng(0).standard_normal((n, extent)).astype(np.float32)
    out = np.zeros(extent, np.float32)
    module = module_of(running_mean, Pointer(F32), Pointer(F32), I32, N=extent)
    device.run(module, (1, 1, 1), [x, out, np.int32(n)])
    expected = np.zeros(extent, np.float32)
    for i in range(n):
        row = x[i] if i % 2 == 0 else x[i] * 2
        expected += (row - expected) / np.float32(i + 1)
    np.testing.assert_allclose(out, expected, rtol=1e-5, atol=1e-6)
