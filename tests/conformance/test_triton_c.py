"""Kernels in Triton-C on the backend under test: the paper's listings, predicates, conversions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tile
from tests.conformance.running import Device
from tile import triton_c
from tile.runtime.signature import ALIASES

FOLDER = Path(__file__).parents[2] / "examples" / "triton_c"
NAMES = {ty: name for name, ty in ALIASES.items()}


def declared_types(kernel: triton_c.Kernel) -> dict[str, str]:
    """Return the types of a kernel's parameters, as a signature names them."""
    types = {}
    for parameter in kernel.jit.declared:
        assert parameter.type.element is not None
        types[parameter.name] = "*" * parameter.type.pointers + NAMES[parameter.type.element]
    return types


def launch(
    kernel: triton_c.Kernel, device: Device, grid: tuple[int, ...], *arguments: Any, **tunables: int
) -> None:
    """Compile a kernel for its declared types, and launch it."""
    types = declared_types(kernel)
    for name, array in kernel.constants.items():
        types[name] = {"int32": "*i32", "float32": "*fp32"}[array.dtype.name]
    options = {"num_warps": device.options.num_warps, "num_stages": device.options.num_stages}
    compiled = tile.compile(kernel.jit, types, tunables, options, device.target)
    compiled[grid](*arguments, *kernel.constants.values())


@pytest.mark.parametrize(("n", "tunables"), [(64, (32, 16, 16)), (72, (24, 12, 9))])
def test_listing_1(device: Device, n: int, tunables: tuple[int, int, int]) -> None:
    tm, tn, tk = tunables
    rng = np.random.default_rng(0)
    a, b = (np.asfortranarray(rng.integers(-4, 5, (n, n)).astype(np.float32)) for _ in "ab")
    c = np.full((n, n), np.nan, np.float32, order="F")
    kernel = triton_c.load(FOLDER / "listing1.tc").matmul_nt
    launch(kernel, device, (n // tm, n // tn), a, b, c, n, n, n, TM=tm, TN=tn, TK=tk)
    np.testing.assert_array_equal(c, a @ b.T)


def test_corrected_listing_1_at_odd_sizes(device: Device) -> None:
    m, n, k = 50, 37, 41
    rng = np.random.default_rng(0)
    a, b = (np.asfortranarray(rng.integers(-4, 5, (x, k)).astype(np.float32)) for x in (m, n))
    c = np.full((m, n), np.nan, np.float32, order="F")
    kernel = triton_c.load(FOLDER / "matmul_nt.tc").matmul_nt
    launch(kernel, device, (2, 2), a, b, c, m, n, k, TM=32, TN=32, TK=16)
    np.testing.assert_array_equal(c, a @ b.T)


@pytest.mark.filterwarnings("ignore:.*hides:RuntimeWarning")
def test_listing_8(device: Device) -> None:
    channels, size, filters, pixels = 16, 8, 16, 32
    rng = np.random.default_rng(0)
    shifts = rng.integers(0, 2, (2, channels))
    program = triton_c.load(
        FOLDER / "listing8.tc", C=channels, H=size, W=size, shift_h=shifts[0], shift_w=shifts[1]
    )
    image = rng.integers(-4, 5, channels * size * size + size * size).astype(np.float32)
    b = rng.integers(-4, 5, (channels, filters)).astype(np.float32)
    out = np.full((filters, pixels), np.nan, np.float32)
    launch(
        program.shift_conv, device, (2, 1), image, b, out, pixels, filters, channels,
        TM=16, TN=16, TK=16,
    )  # fmt: skip
    starts = np.arange(channels) * size * size + shifts[0] * size + shifts[1]
    shifted = np.stack([image[start : start + pixels] for start in starts])
    np.testing.assert_array_equal(out, b.T @ shifted)


def test_predicates_loops_and_conversions(device: Device) -> None:
    text = """
    const tunable int N = {64};
    int collatz(int n) { int steps = 0; while (n > 1) { n = n % 2 ? 3 * n + 1 : n / 2; steps++; }
                         return steps; }
    kernel void f(int* x, unsigned char* u, long* out, int count) {
        int i[N] = get_global_range(0);
        bool inside[N] = i < count;
        int v[N] = inside ? *(x + i) : -1;
        long sum[N] = 0;
        for (int k = 0; k < 5; k++) {
            if (k == 3) continue;
            @(v > k) sum += v * (inside ? u[i] : 0) / 3 + collatz(k + 3);
        }
        @inside { *(out + i) = sum; @(v < 0) *(out + i) = -sum - v; }
    }"""
    rng = np.random.default_rng(0)
    count = 100
    x = rng.integers(-3, 8, count).astype(np.int32)
    u = rng.integers(0, 256, count).astype(np.uint8)
    out = np.full(count, -7, np.int64)
    launch(triton_c.compile(text).f, device, (2,), x, u, out, count, N=64)
    steps = {3: 7, 4: 2, 5: 5, 7: 16}
    expected = []
    for value, factor in zip(x.tolist(), u.tolist(), strict=True):
        product = value * factor
        quotient = abs(product) // 3 * (1 if product >= 0 else -1)
        total = sum(quotient + steps[k + 3] for k in (0, 1, 2, 4) if value > k)
        expected.append(-total - value if value < 0 else total)
    np.testing.assert_array_equal(out, expected)
