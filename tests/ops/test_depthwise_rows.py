"""Gradients of depthwise filters by rows of images, which are divided among programs."""

from __future__ import annotations

import numpy as np
import pytest

import tile
import tile.ops
from tile.ops.core.reference import reference_of
from tile.ops.image import depthwise_rows_wgrad


@pytest.mark.parametrize("programs", [1, 40, 528])
@pytest.mark.parametrize(
    ("shape", "window", "padding"),
    [
        ((2, 13, 11, 64), (3, 3), (1, 1)),
        ((1, 30, 9, 70), (3, 2), (0, 1)),
        ((3, 5, 6, 8), (1, 3), (0, 0)),
        ((1, 17, 3, 8), (3, 3), (2, 2)),
    ],
)
def test_results(
    shape: tuple[int, int, int, int],
    window: tuple[int, int],
    padding: tuple[int, int],
    programs: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(depthwise_rows_wgrad, "PROGRAMS", programs)
    monkeypatch.setattr(depthwise_rows_wgrad, "LEAST_ROWS", 2)
    tile.ops.conv2d_wgrad.plans.clear()  # of other numbers of programs
    random = np.random.default_rng(programs)
    batch, height, width, channels = shape
    rows, columns = (
        n + 2 * edge - count + 1
        for n, edge, count in zip((height, width), padding, window, strict=True)
    )
    # Small integers: sums are exact in any order.
    x = random.integers(-3, 4, shape).astype(np.float32)
    dy = random.integers(-3, 4, (batch, rows, columns, channels)).astype(np.float32)
    options = {"padding": padding, "groups": channels}
    with tile.backend("interp"), tile.sanitize():
        result = tile.ops.conv2d_wgrad(dy, x, window, **options)
    expected = reference_of(tile.ops.conv2d_wgrad)(dy, x, window, **options)
    np.testing.assert_array_equal(result, expected)
