"""Matmuls on a simulated H100, whose loops copy by TMA."""

from __future__ import annotations

import importlib

import numpy as np
import pytest

import tile
import tile.ops
from tile.ops.linear.configurations import tiles

matmul_module = importlib.import_module("tile.ops.linear.strided_matmul")


@pytest.mark.parametrize("splits", [1, 2, 4])
def test_parts_of_an_uneven_inner_axis(splits: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The masks of parts that TMA loads compare with the whole axis, of 5.4 tiles."""
    monkeypatch.setattr(matmul_module, "tiles_of", lambda *_: tiles(64, 32, 64))
    random = np.random.default_rng(splits)
    a, b = (random.standard_normal(shape).astype(np.float16) for shape in ((70, 344), (344, 40)))
    with tile.backend("interp:wgmma"):
        result = tile.ops.matmul(a, b, splits=splits)
    np.testing.assert_allclose(result, np.float32(a) @ np.float32(b), rtol=1e-2, atol=5e-2)
