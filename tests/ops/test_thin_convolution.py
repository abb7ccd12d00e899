"""Convolutions whose windows have few elements: programs with many tiles of pixels."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tile
import tile.ops
from tests.ops.launches import record_launches
from tile.ops.core.reference import reference_of
from tile.ops.image import thin_convolution

# height, width, channels; filters, R, S; stride, padding, dilation
GEOMETRIES: dict[str, tuple[Any, ...]] = {
    "one channel": (9, 14, 1, 70, 5, 5, 1, 2, 1),
    "stride": (9, 10, 3, 20, 3, 3, 2, 1, 1),
    "dilation": (9, 8, 2, 24, 2, 3, 1, (1, 0), 2),
    "one row": (1, 30, 2, 16, 1, 3, 1, (0, 1), 1),
}


@pytest.mark.parametrize("layout", ["NHWC", "NCHW"])
@pytest.mark.parametrize("geometry", GEOMETRIES)
@pytest.mark.parametrize("backend", ["interp", "interp:wgmma"])
def test_results(backend: str, geometry: str, layout: str, monkeypatch: pytest.MonkeyPatch) -> None:
    h, w, c, f, r, s, stride, padding, dilation = GEOMETRIES[geometry]
    programs = {("interp", 2, stored): 2 for stored in (False, True)}
    monkeypatch.setattr(thin_convolution, "PROGRAMS", programs)
    names = record_launches(monkeypatch)
    random = np.random.default_rng(0)
    shapes = ((3, h, w, c), (f, r, s, c), (f,))
    x, filters, bias = (random.integers(-3, 4, shape).astype("float16") for shape in shapes)
    if layout == "NCHW":
        x, filters = (np.ascontiguousarray(np.moveaxis(v, -1, 1)) for v in (x, filters))
    arguments = x, filters, bias, "relu", stride, padding, dilation
    tile.ops.conv2d.plans.clear()
    with tile.backend(backend):
        result = tile.ops.conv2d(*arguments, layout=layout)
    tile.ops.conv2d.plans.clear()
    assert names == ["thin_conv2d_kernel"]
    np.testing.assert_array_equal(result, reference_of(tile.ops.conv2d)(*arguments, layout=layout))
