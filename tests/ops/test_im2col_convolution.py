"""Convolutions whose pixels TMA copies, and such whose inner axis programs share."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import tile
import tile.ops
from tests.ops.launches import record_launches
from tests.sampling import crossed, sample
from tile.ops.core.reference import reference_of
from tile.ops.core.tables import ANY, Table
from tile.ops.image import (
    convolution,
    convolution_tables,
    im2col_configuration,
    im2col_convolution,
    im2col_wgrad,
    matmul_wgrad,
)
from tile.ops.linear.configurations import tiles

TILES = tiles(64, 32, 32)
# height, width, channels; filters, R, S; stride, padding, dilation
GEOMETRIES: dict[str, tuple[Any, ...]] = {
    "3x3": (7, 9, 32, 40, 3, 3, 1, 1, 1),
    "stride": (7, 9, 64, 40, 3, 3, 2, 1, 1),
    "dilation": (9, 8, 32, 24, 2, 3, 1, (1, 0), 2),
    "1x1": (7, 7, 32, 24, 1, 1, 2, 0, 1),
}


@pytest.fixture
def launched(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The names of kernels that run, with tiles of `TILES`."""
    names = record_launches(monkeypatch)
    table = Table({(ANY, ANY, ANY): TILES}, {})
    monkeypatch.setattr(convolution_tables, "TABLE", table)
    for name in ("HALF", "ROUNDED"):
        monkeypatch.setattr(im2col_configuration, name, table)
    monkeypatch.setattr(im2col_wgrad, "TABLE", table)
    forget()
    yield names
    forget()


def forget() -> None:
    names = "conv2d", "conv2d_dgrad", "conv2d_wgrad", "conv_transpose2d"
    for function in (getattr(tile.ops, name) for name in names):
        plans: dict[Any, Any] = function.plans  # type: ignore[attr-defined]
        plans.clear()


def integers(*shape: int, dtype: str = "float16", seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(-3, 4, shape).astype(dtype)


@crossed({"backend": ["interp", "interp:wgmma"], "geometry": GEOMETRIES, "splits": [1, 2, 5]})
def test_results(
    backend: str, geometry: str, splits: int, launched: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    h, w, c, f, r, s, stride, padding, dilation = GEOMETRIES[geometry]
    monkeypatch.setattr(convolution, "splits_of", lambda *_: splits)
    x, filters, bias = integers(2, h, w, c), integers(f, r, s, c, seed=1), integers(f, seed=2)
    arguments = x, filters, bias, "relu", stride, padding, dilation
    with tile.backend(backend):
        result = tile.ops.conv2d(*arguments)
    name = "im2col_conv2d_kernel" if backend == "interp:wgmma" else "conv2d_kernel"
    assert launched == [name, "add_splits_kernel"][: 1 + (splits > 1)]
    np.testing.assert_array_equal(result, reference_of(tile.ops.conv2d)(*arguments))


@pytest.mark.parametrize(("geometry", "columns"), sample(GEOMETRIES, [32, 24]))
def test_persistent_programs(
    geometry: str, columns: int, launched: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two programs for all tiles, the last of which ends past the pixels and filters."""
    h, w, c, f, r, s, stride, padding, dilation = GEOMETRIES[geometry]
    config = {**TILES, "BLOCK_N": columns}
    monkeypatch.setattr(im2col_configuration, "persistent_tiles", lambda _: config)
    monkeypatch.setattr(im2col_configuration, "PROGRAMS", {"interp": 2})
    x, filters, bias = integers(16, h, w, c), integers(f, r, s, c, seed=1), integers(f, seed=2)
    arguments = x, filters, bias, "relu", stride, padding, dilation
    grids: list[Any] = []
    ordinary = im2col_convolution.launch

    def launch(kernel: Any, grid: Any) -> Any:
        grids.append(grid)
        return ordinary(kernel, grid)

    monkeypatch.setattr(im2col_convolution, "launch", launch)
    with tile.backend("interp:wgmma"):
        result = tile.ops.conv2d(*arguments)
    assert launched == ["im2col_conv2d_kernel"] and grids == [(2, 1)]
    np.testing.assert_array_equal(result, reference_of(tile.ops.conv2d)(*arguments))


@pytest.mark.parametrize(
    ("count", "columns"),
    [(24, 32), (64, 64), (80, 80), (128, 128), (192, 192), (256, 128), (320, 160), (384, 192)],
)
def test_tiles_have_equal_parts_of_the_filters(count: int, columns: int) -> None:
    assert im2col_configuration.persistent_tiles(count)["BLOCK_N"] == columns


@pytest.mark.parametrize(("geometry", "splits"), sample(GEOMETRIES, [1, 2]))
def test_gradients_of_images(
    geometry: str, splits: int, launched: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Windows that go the other way, and filters by channels; phases of a stride are one launch."""
    h, w, c, f, r, s, stride, padding, dilation = GEOMETRIES[geometry]
    f = 64  # the channels of the matmul
    monkeypatch.setattr(convolution, "splits_of", lambda _, asked, *__: asked or splits)
    x, filters = integers(2, h, w, c), integers(f, r, s, c, seed=1)
    dy = integers(
        *reference_of(tile.ops.conv2d)(x, filters, None, None, stride, padding, dilation).shape,
        seed=2,
    )
    arguments = dy, filters, (h, w), stride, padding, dilation
    with tile.backend("interp:wgmma"):
        result = tile.ops.conv2d_dgrad(*arguments)
    kernel = "im2col_conv2d_kernel" if stride == 1 else "im2col_phases_kernel"
    assert launched[0] == kernel and (stride == 1 or len(launched) == 1)
    np.testing.assert_array_equal(result, reference_of(tile.ops.conv2d_dgrad)(*arguments))


# height, width; R, S; filters; stride, padding, output_padding, dilation
TRANSPOSED: dict[str, tuple[Any, ...]] = {
    "3x3": (5, 6, 3, 3, 40, 2, 1, 0, 1),
    "unlike axes": (5, 4, 2, 5, 24, (3, 2), (0, 2), (2, 1), 1),
    "dilation by the stride": (4, 5, 3, 2, 24, 2, 1, 1, 2),
    "dilation": (4, 5, 3, 4, 24, (4, 2), 1, 1, (2, 3)),
    "pixels without windows": (4, 4, 2, 1, 40, 3, 0, 1, 1),
    "one axis": (1, 9, 1, 4, 24, (1, 2), (0, 1), 0, 1),
    "one pixel": (1, 1, 4, 4, 24, 2, 1, 0, 1),
}


@pytest.mark.parametrize(("geometry", "dtype"), sample(TRANSPOSED, ["float16", "float32"]))
def test_transposed_convolutions(geometry: str, dtype: str, launched: list[str]) -> None:
    """All phases are one launch in types of 16 bits: others must be contiguous along channels."""
    h, w, r, s, c, *options = TRANSPOSED[geometry]
    x, filters = integers(2, h, w, 64, dtype=dtype), integers(64, r, s, c, dtype=dtype, seed=1)
    arguments = x, filters, integers(c, seed=2), *options
    with tile.backend("interp:wgmma"):
        result = tile.ops.conv_transpose2d(*arguments, precision="tf32")
    assert ("im2col_phases_kernel" in launched) == (dtype == "float16")
    np.testing.assert_array_equal(result, reference_of(tile.ops.conv_transpose2d)(*arguments))


def test_channels_of_filters_that_are_contiguous(launched: list[str]) -> None:
    """Filters are filters x R x S x channels of dy in memory: tf32 has phases, too."""
    x, memory = integers(2, 5, 6, 64, dtype="float32"), integers(24, 3, 3, 64, dtype="float32")
    arguments = x, memory.transpose(3, 1, 2, 0), None, 2, 1
    with tile.backend("interp:wgmma"):
        result = tile.ops.conv_transpose2d(*arguments, precision="tf32")
    assert launched == ["im2col_phases_kernel"]
    np.testing.assert_array_equal(result, reference_of(tile.ops.conv_transpose2d)(*arguments))


@pytest.mark.parametrize(("geometry", "splits"), sample(GEOMETRIES, [1, 3]))
def test_gradients_of_filters(
    geometry: str, splits: int, launched: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The inner axis is the pixels, whose number is no multiple of an iteration's."""
    h, w, c, f, r, s, stride, padding, dilation = GEOMETRIES[geometry]
    monkeypatch.setattr(matmul_wgrad, "splits_of", lambda *_: splits)
    monkeypatch.setitem(im2col_wgrad.LEAST_PIXELS, "interp", 0)
    x, filters = integers(3, h, w, c), integers(f, r, s, c, seed=1)
    dy = integers(
        *reference_of(tile.ops.conv2d)(x, filters, None, None, stride, padding, dilation).shape,
        seed=2,
    )
    arguments = dy, x, (r, s), stride, padding, dilation
    with tile.backend("interp:wgmma"):
        result = tile.ops.conv2d_wgrad(*arguments)
    assert launched == ["im2col_wgrad_kernel", "add_splits_kernel"][: 1 + (splits > 1)]
    np.testing.assert_array_equal(result, reference_of(tile.ops.conv2d_wgrad)(*arguments))


def test_tf32(launched: list[str]) -> None:
    x, filters = integers(1, 7, 7, 32, dtype="float32"), integers(16, 3, 3, 32, dtype="float32")
    with tile.backend("interp:wgmma"):
        result = tile.ops.conv2d(x, filters, padding=1, precision="tf32")
    assert launched == ["im2col_conv2d_kernel"]
    np.testing.assert_array_equal(result, reference_of(tile.ops.conv2d)(x, filters, padding=1))


PADDED = integers(1, 7, 7, 36)
OTHERS: dict[str, tuple[np.ndarray, np.ndarray, dict[str, Any]]] = {
    "channels that iterations do not divide": (integers(1, 7, 7, 40), integers(16, 3, 3, 40), {}),
    "strides of no 16 bytes": (PADDED[..., :32], integers(16, 3, 3, 32), {}),
    "groups": (integers(1, 7, 7, 64), integers(16, 3, 3, 32), {"groups": 2}),
    "wide windows": (integers(1, 4, 300, 32), integers(16, 1, 2, 32), {"dilation": (1, 256)}),
}


@pytest.mark.parametrize("why", OTHERS)
def test_pixels_that_tma_cannot_copy(why: str, launched: list[str]) -> None:
    x, filters, options = OTHERS[why]
    with tile.backend("interp:wgmma"):
        result = tile.ops.conv2d(x, filters, **options)
    assert launched == ["conv2d_kernel"]
    np.testing.assert_array_equal(result, reference_of(tile.ops.conv2d)(x, filters, **options))
