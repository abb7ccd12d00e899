"""Norms whose mean and variance are of distances to a sample of a row lose no digits of 16 bits."""

from __future__ import annotations

import numpy as np
import pytest

import tile.ops
from tile.ops.core.reference import Array
from tile.ops.rowwise.layer_norm import layer_norm_backward_reference, layer_norm_reference
from tile.ops.rowwise.row_sums import SAMPLE


def rows_of(length: int) -> tuple[Array, Array, Array]:
    """Return rows, whose samples are as far from the mean as they can be, their gradient, a weight.

    Means are large, one element is, all of the sample are, and all are equal.
    """
    rng = np.random.default_rng(length)
    x, dy = rng.standard_normal((2, 6, length))
    x[1] += 500
    x[2, 3] = 3e4
    x[3, :SAMPLE] = 300
    x[4, :SAMPLE] -= 2000
    x[5] = 7
    return x.astype(np.float16), dy.astype(np.float16), rng.standard_normal(length)


@pytest.mark.parametrize("length", [5000, 8192])
def test_layer_norm(length: int) -> None:
    x, _, weight = rows_of(length)
    weight = weight.astype(np.float32)
    result, mean, rstd = tile.ops.layer_norm(x, weight, -weight, statistics=True)
    wanted = layer_norm_reference(x.astype(np.float64), weight, -weight, 1e-5, True)
    np.testing.assert_allclose(result, wanted[0], rtol=2e-3, atol=2e-3)
    np.testing.assert_allclose(mean * wanted[2], wanted[1] * wanted[2], rtol=1e-6, atol=4e-6)
    np.testing.assert_allclose(rstd, wanted[2], rtol=4e-5)


@pytest.mark.parametrize("length", [5000, 8192])
def test_gradients(length: int) -> None:
    x, dy, weight = rows_of(length)
    weight = weight.astype(np.float32)
    results = tile.ops.layer_norm_backward(dy, x, weight)
    wanted = layer_norm_backward_reference(*(v.astype(np.float64) for v in (dy, x, weight)), 1e-5)
    for result, expected in zip(results, wanted, strict=True):
        # dx has 16 bits; other results have errors where a sample is far from the mean.
        limit = 1e-3 if result.ndim > 1 else 4e-5
        scale = np.abs(expected).max(axis=-1, keepdims=True)
        np.testing.assert_allclose(result / scale, expected / scale, atol=limit)


def test_several_short_rows_of_a_program() -> None:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((1100, 300)).astype(np.float16)
    weight, bias = rng.standard_normal((2, 300)).astype(np.float16)
    result = tile.ops.layer_norm(x, weight, bias)
    wanted = layer_norm_reference(*(v.astype(np.float64) for v in (x, weight, bias)), 1e-5, False)
    np.testing.assert_allclose(result, wanted, rtol=4e-3, atol=4e-3)


@pytest.mark.parametrize("rows", [0, 3])
def test_statistics_of_rows_without_elements_are_nan(rows: int) -> None:
    x, weight = np.ones((rows, 0)), np.ones(0)
    result, *statistics = tile.ops.layer_norm(x, weight, weight, statistics=True)
    assert result.shape == (rows, 0)
    _, scale = tile.ops.rms_norm(x, weight, statistics=True)
    for each in (*statistics, scale):
        np.testing.assert_array_equal(each, np.full(rows, np.nan))
