"""Depthwise convolutions of several blocks of channels, and the tiles that they have."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

import tile
import tile.ops
from tile.ops.core.reference import reference_of
from tile.ops.image.depthwise_tiles import PixelTile


@pytest.mark.parametrize(
    ("channels", "window", "step"),
    [(40, 3, 2), (96, 3, 1), (96, 5, 2), (33, 7, 1), (256, 3, 2), (300, 3, 1)],
)
def test_blocks_of_channels(channels: int, window: int, step: int) -> None:
    random = np.random.default_rng(channels)
    x = random.integers(-3, 4, (2, 9, 10, channels)).astype(np.float32)
    filters = random.integers(-3, 4, (channels, window, window, 1)).astype(np.float32)
    options = {"stride": step, "padding": window // 2, "groups": channels}
    y = tile.ops.conv2d(x, filters, **options)
    expected = reference_of(tile.ops.conv2d)(x, filters, **options)
    np.testing.assert_array_equal(y, expected)
    dx = tile.ops.conv2d_dgrad(y, filters, (9, 10), **options)
    expected = reference_of(tile.ops.conv2d_dgrad)(y, filters, (9, 10), **options)
    np.testing.assert_array_equal(dx, expected)


@pytest.mark.parametrize(
    ("channels", "window", "step", "size", "wanted"),
    [
        (96, 3, 2, 56, (4, 8, 2, 32, True)),  # no idle lanes of 128
        (144, 3, 2, 28, (4, 16, 1, 32, True)),  # seven groups of a row
        (384, 3, 1, 28, (8, 4, 1, 128, True)),
        (384, 3, 1, 14, (8, 8, 1, 64, True)),
        (384, 7, 1, 14, (8, 16, 1, 32, True)),
        (256, 3, 1, 56, (4, 4, 2, 256, False)),
        (256, 3, 2, 28, (4, 8, 1, 64, True)),
    ],
)
def test_tiles(channels: int, window: int, step: int, size: int, wanted: Any) -> None:
    image = SimpleNamespace(shape=(1, size, size, channels), strides=(1, 1, 1, 1))
    windows = SimpleNamespace(count=(window, window), step=(step, step))
    chosen = PixelTile.of(cast("Any", image), cast("Any", windows), size, size)
    found = chosen.adjacent, chosen.rows, chosen.columns, chosen.block, chosen.unrolled
    assert found == wanted
