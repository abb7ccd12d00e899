"""Depthwise convolutions by rows of images: results, and how many rows a program has."""

from __future__ import annotations

import itertools
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

import tile
import tile.ops
from tests.sampling import sample
from tile.ops.core.reference import reference_of
from tile.ops.image import depthwise_rows, depthwise_strips
from tile.ops.image.depthwise_strips import Form, Strips

FORMS = [Form(4, 3, 80, 2), Form(2, 2, 128), Form(3, 1, 128)]


@pytest.mark.parametrize(
    ("shape", "window", "padding", "most_dense", "form"),
    sample(
        [
            ((2, 9, 10, 40), (3, 3), (1, 1)),
            ((1, 7, 6, 96), (5, 5), (2, 2)),
            ((2, 5, 3, 7), (3, 1), (4, 0)),  # rows without a row of the image
            ((1, 1, 4, 64), (3, 3), (3, 1)),
            ((1, 6, 9, 8), (4, 2), (0, 1)),
        ],
        list(itertools.product([0, 64], FORMS)),
        each=2,
    ),
)
def test_results(
    shape: tuple[int, int, int, int],
    window: tuple[int, int],
    padding: tuple[int, int],
    most_dense: int,
    form: Form,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for forms in ("SMALL", "LARGE"):
        monkeypatch.setattr(depthwise_strips, forms, (form,))
    monkeypatch.setattr(depthwise_strips, "PROGRAMS", {"interp": 40})
    monkeypatch.setattr(depthwise_strips, "LEAST", 2)
    monkeypatch.setattr(depthwise_rows, "MOST_DENSE", most_dense)
    random = np.random.default_rng(most_dense)
    channels = shape[3]
    # Small integers: sums are exact in any order.
    x = random.integers(-3, 4, shape).astype(np.float16)
    filters = random.integers(-3, 4, (channels, *window, 1)).astype(np.float16)
    bias = random.integers(-3, 4, channels).astype(np.float16)
    options: dict[str, Any] = {"padding": padding, "groups": channels}
    for op in (tile.ops.conv2d, tile.ops.conv2d_dgrad):
        op.plans.clear()  # of other forms
    with tile.backend("interp"), tile.sanitize():
        y = tile.ops.conv2d(x, filters, bias, activation="relu", **options)
    assert y.max() < 2048  # all integers up to there are numbers of 16 bits
    expected = reference_of(tile.ops.conv2d)(x, filters, bias, activation="relu", **options)
    np.testing.assert_array_equal(y, expected)
    with tile.backend("interp"), tile.sanitize():
        dx = tile.ops.conv2d_dgrad(y, filters, shape[1:3], **options)
    expected = reference_of(tile.ops.conv2d_dgrad)(y, filters, shape[1:3], **options)
    np.testing.assert_array_equal(dx, expected)


@pytest.mark.parametrize(
    ("shape", "window", "wanted"),
    [
        ((32, 56, 56, 256), 3, (4, 3)),
        ((32, 112, 112, 64), 3, (4, 3)),
        ((32, 28, 28, 192), 3, (4, 4)),
        ((32, 7, 7, 960), 3, (4, 1)),
        ((32, 28, 28, 240), 5, (2, 1)),
        ((32, 14, 14, 672), 5, (4, 1)),
        ((32, 7, 7, 1152), 5, (4, 1)),
    ],
)
def test_rows_of_a_program(
    shape: tuple[int, int, int, int], window: int, wanted: tuple[int, int]
) -> None:
    windows = SimpleNamespace(count=(window, window))
    strips = Strips.of("nvptx", shape, cast("Any", windows), 2)
    assert (strips.form.strip, strips.parts) == wanted
    assert strips.rows * strips.parts >= shape[1] > strips.rows * (strips.parts - 1)
