"""The kernels of `benchmarks/goals.py` compute what they say, at small sizes on the interpreter."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tile
import tile.language as tl


@pytest.fixture(scope="module")
def kernels() -> ModuleType:
    sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))
    try:
        from compiler_peers import kernels_of

        return kernels_of("tile", "goal_kernels")
    finally:
        del sys.path[0]


def normal(*shape: int, dtype: Any = np.float16) -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape, np.float32).astype(dtype)


def close(actual: np.ndarray, expected: np.ndarray, tolerance: float = 2e-3) -> None:
    difference = np.linalg.norm(actual.astype(np.float64) - expected)
    assert difference <= tolerance * np.linalg.norm(expected)


TILES = {"BM": 32, "BN": 32, "BK": 32, "GROUP": 8}


@pytest.mark.parametrize("by_columns", [False, True])
@pytest.mark.parametrize("gelu", [False, True])
def test_matmuls(kernels: ModuleType, gelu: bool, by_columns: bool) -> None:
    m, n, k = 72, 56, 96
    a, b, bias = normal(m, k), normal(k, n), normal(n)
    expected = a.astype(np.float64) @ b
    if gelu:
        x = expected + bias
        expected = 0.5 * x * (1 + np.tanh((2 / np.pi) ** 0.5 * (x + 0.044715 * x**3)))
    right = np.ascontiguousarray(b.T) if by_columns else b
    for persistent in (False, True):
        c = np.zeros((m, n), np.float16)
        kernels.pointers_kernel[(2 if persistent else 6,)](
            *(a, right, bias, c, m, n, k),
            **TILES,
            B_BY_COLUMNS=by_columns,
            PRECISION=None,
            IMPRECISE=None,
            SUMS=tl.float32,
            GELU=gelu,
            PERSISTENT=persistent,
        )
        close(c, expected)
    c = np.zeros((m, n), np.float16)
    describe = tile.TensorDescriptor.from_tensor
    blocks = describe(a, [32, 32]), describe(right, [32, 32])
    # A block of the bias would reach past its end.
    padded = np.concatenate([bias, np.zeros(8, np.float16)])
    kernels.descriptors_kernel[(2,)](
        *(*blocks, padded, describe(c, [32, 32]), m, n, k),
        **TILES,
        IMPRECISE=None,
        B_BY_COLUMNS=by_columns,
        GELU=gelu,
    )
    close(c, expected)


@pytest.mark.parametrize("columns", [24, 28, 32])
def test_tiles_of_any_columns(kernels: ModuleType, columns: int) -> None:
    m, n, k = 72, 70, 96
    a, b = normal(m, k), normal(n, k)
    c = np.zeros((m, n), np.float16)
    kernels.columns_kernel[(2,)](
        *(a, b, c, m, n, k), **{**TILES, "BN": columns}, IMPRECISE=None, COLUMNS=32
    )
    close(c, a.astype(np.float64) @ b.T)


def test_scales_of_blocks(kernels: ModuleType) -> None:
    m, n, k = 64, 256, 256
    kind = ml_dtypes.float8_e4m3fn
    a, b = normal(m, k, dtype=kind), normal(n, k, dtype=kind)
    a_scale, b_scale = abs(normal(m, 2, dtype=np.float32)), abs(normal(2, 2, dtype=np.float32))
    left = a.astype(np.float64) * a_scale.repeat(128, 1)
    right = b.T.astype(np.float64) * b_scale.repeat(128, 0).repeat(128, 1)
    c = np.zeros((m, n), np.float16)
    sizes = {"BM": 32, "BN": 128, "BK": 128, "GROUP": 8}
    kernels.block_scaled_kernel[(4,)](a, b, a_scale, b_scale, c, m, n, k, **sizes)
    close(c, left @ right)


@pytest.mark.parametrize(("channels", "r", "s"), [(32, 3, 3), (1, 5, 5), (32, 2, 4)])
def test_convolutions(kernels: ModuleType, channels: int, r: int, s: int) -> None:
    batch, h, w, filters = 2, 7, 9, 24
    x, kernel = normal(batch, h, w, channels), normal(filters, r, s, channels)
    edges = (r // 2, s // 2)
    p, q = h + 2 * edges[0] - r + 1, w + 2 * edges[1] - s + 1
    pads = ((0, 0), (edges[0], edges[0]), (edges[1], edges[1]), (0, 0))
    padded = np.pad(x, pads).astype(np.float64)
    expected = np.zeros((batch, p, q, filters))
    for i, j in np.ndindex(r, s):
        expected += padded[:, i : i + p, j : j + q] @ kernel[:, i, j].T.astype(np.float64)
    y = np.zeros((batch, p, q, filters), np.float16)
    pixels = batch * p * q
    kernels.convolution_kernel[(1, tile.cdiv(pixels, 32))](
        *(x, kernel, y, pixels, h, w, p, q, filters, *edges),
        R=r,
        S=s,
        C=channels,
        BM=32,
        BN=32,
        BK=32,
    )
    close(y, expected)


def test_depthwise_convolution(kernels: ModuleType) -> None:
    batch, h, w, channels = 2, 5, 6, 40
    x, filters = normal(batch, h, w, channels), normal(9, channels)
    padded = np.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0))).astype(np.float64)
    expected = np.zeros(x.shape)
    for tap in range(9):
        i, j = divmod(tap, 3)
        expected += padded[:, i : i + h, j : j + w] * filters[tap]
    y = np.zeros_like(x)
    pixels = batch * h * w
    kernels.depthwise_kernel[(tile.cdiv(pixels, 8), 5)](
        x, filters, y, pixels, h, w, channels, R=3, BM=8, BC=8
    )
    close(y, expected)


def test_cross_entropy(kernels: ModuleType) -> None:
    x, target = normal(5, 300), np.array([0, 299, 17, 128, 5])
    rows = x.astype(np.float64)
    expected = np.log(np.exp(rows).sum(1)) - rows[np.arange(5), target]
    out = np.zeros(5, np.float32)
    kernels.cross_entropy_kernel[(5,)](x, target, out, 300, BLOCK=128)
    close(out, expected, 1e-5)


def test_dropout(kernels: ModuleType) -> None:
    x, out = abs(normal(1000, dtype=np.float32)) + 1, np.zeros(1000, np.float32)
    kernels.dropout_kernel[(4,)](x, out, 1000, 0.3, 7, BLOCK=256)
    kept = out != 0
    assert 0.6 < kept.mean() < 0.8
    np.testing.assert_allclose(out[kept], x[kept] / 0.7, rtol=1e-6)
