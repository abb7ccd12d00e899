"""Moments of channels of which a sample is far from the mean of all."""

from __future__ import annotations

import numpy as np
import pytest

import tile
import tile.ops


@pytest.mark.parametrize("shape", [(4, 2, 64, 64), (8, 2, 7, 7), (64, 32)])
@pytest.mark.parametrize("far", [1e4, -1e6])
def test_far_elements(shape: tuple[int, ...], far: float) -> None:
    """The first element of each channel of the batch, which the sample has, is far from others."""
    x = np.random.default_rng(0).standard_normal(shape).astype(np.float32) + np.float32(100)
    x[(0, slice(None), *(0,) * (len(shape) - 2))] = far
    with tile.backend("interp"):
        _, mean, variance = tile.ops.batch_norm(x, np.ones(shape[1], "f"), np.ones(shape[1], "f"))
    axes = tuple(i for i in range(len(shape)) if i != 1)
    wide = x.astype(np.float64)
    assert (np.abs(mean - wide.mean(axes)) <= 1e-6 * wide.std(axes)).all()
    np.testing.assert_allclose(variance, wide.var(axes), rtol=1e-4)


def test_large_mean() -> None:
    x = (np.random.default_rng(0).standard_normal((4, 3, 32, 32)) + 1e4).astype(np.float32)
    with tile.backend("interp"):
        _, mean, variance = tile.ops.batch_norm(x, np.ones(3, "f"), np.ones(3, "f"))
    wide = x.astype(np.float64)
    np.testing.assert_allclose(mean, wide.mean((0, 2, 3)), rtol=1e-7)
    np.testing.assert_allclose(variance, wide.var((0, 2, 3)), rtol=1e-5)
