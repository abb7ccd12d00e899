"""Convolutions of planes, few channels, groups and single pixels: copies that TMA loads, matmuls."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from numpy.lib.stride_tricks import as_strided

import tile
import tile.ops
from tests.ops.launches import record_launches
from tests.ops.test_im2col_convolution import forget, integers
from tests.sampling import sample
from tile.ops.core.reference import reference_of
from tile.ops.image import aligned_convolution, convolution, im2col_wgrad

COPY, IM2COL, MATMUL = "copy_images_kernel", "im2col_conv2d_kernel", "matmul_kernel"


@pytest.fixture
def launched(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The names of kernels that run; copies pay for the smallest convolutions."""
    names = record_launches(monkeypatch)
    monkeypatch.setattr(aligned_convolution, "LEAST_WORK", 0)
    monkeypatch.setitem(im2col_wgrad.LEAST_PIXELS, "interp", 0)
    forget()
    yield names
    forget()


def placed(array: np.ndarray, layout: str) -> np.ndarray:
    """Return an array of batch x height x width x channels in a layout."""
    return array if layout == "NHWC" else np.ascontiguousarray(array.transpose(0, 3, 1, 2))


# x; filters, R, S, channels of a group; options; the kernels of NHWC and of NCHW
FORWARD: dict[str, tuple[Any, ...]] = {
    "3x3": ((2, 8, 6, 32), (40, 3, 3, 32), {"padding": 1}, [IM2COL], [COPY, IM2COL]),
    "odd planes": ((2, 7, 5, 32), (24, 3, 2, 32), {}, [IM2COL], [COPY, IM2COL]),
    "pixels of no vectors": (
        *((2, 7, 7, 32), (24, 3, 3, 32), {"padding": 1, "dilation": 2}),
        *([IM2COL], [COPY, IM2COL, COPY]),
    ),
    "channels to fill up": (
        *((2, 6, 8, 33), (16, 3, 3, 33), {"padding": 1}),
        *([COPY, IM2COL], [COPY, IM2COL]),
    ),
    "1x1": ((2, 8, 8, 32), (48, 1, 1, 32), {}, [MATMUL], [MATMUL]),
    "1x1, stride": ((2, 8, 8, 32), (48, 1, 1, 32), {"stride": 2}, [IM2COL], [COPY, IM2COL]),
    "1x1, odd planes": ((2, 7, 7, 32), (48, 1, 1, 32), {}, [MATMUL], [COPY, IM2COL, COPY]),
    "three channels": (
        *((2, 17, 19, 3), (20, 7, 7, 3), {"padding": 3, "stride": 2}),
        *([COPY, IM2COL], [COPY, IM2COL, COPY]),
    ),
    "one channel, step of one": ((1, 8, 9, 1), (16, 6, 6, 1), {}, [COPY, IM2COL], [COPY, IM2COL]),
    "groups of 4": (
        *((2, 8, 8, 32), (32, 3, 3, 4), {"padding": 1, "groups": 8}),
        *([COPY, IM2COL], [COPY, IM2COL]),
    ),
    "groups of 8 and 4": (
        *((2, 8, 8, 128), (64, 3, 3, 8), {"padding": 1, "groups": 16}),
        *([COPY, IM2COL], [COPY, IM2COL]),
    ),
    "large groups": (
        *((2, 8, 8, 64), (64, 3, 3, 32), {"padding": 1, "groups": 2}),
        *([IM2COL], [COPY, IM2COL]),
    ),
    "groups that do not merge": (
        *((2, 8, 8, 36), (36, 3, 3, 12), {"padding": 1, "groups": 3}),
        *(["conv2d_kernel"], ["conv2d_kernel"]),
    ),
}


@pytest.mark.parametrize(("case", "layout"), sample(FORWARD, ["NHWC", "NCHW"]))
def test_results(case: str, layout: str, launched: list[str]) -> None:
    shape, filters, options, *kernels = FORWARD[case]
    x, weights = placed(integers(*shape), layout), placed(integers(*filters, seed=1), layout)
    arguments = x, weights, integers(filters[0], seed=2), "relu"
    options = {"stride": 1, "padding": 0, "dilation": 1, "groups": 1, "layout": layout} | options
    expected = reference_of(tile.ops.conv2d)(*arguments, **options)
    out = np.zeros(expected.shape, np.float16)
    with tile.backend("interp:wgmma"):
        tile.ops.conv2d(*arguments, **options, out=out)
    assert launched == kernels[layout == "NCHW"]
    np.testing.assert_array_equal(out, expected)


def test_parts_of_sums_of_planes(launched: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """They are added up pixel by pixel, and copied to planes."""
    monkeypatch.setattr(convolution, "splits_of", lambda *_: 3)
    x, filters = integers(2, 32, 8, 8), integers(24, 32, 3, 3, seed=1)
    with tile.backend("interp:wgmma"):
        result = tile.ops.conv2d(x, filters, padding=1, layout="NCHW")
    assert launched == [COPY, IM2COL, "add_splits_kernel", COPY]
    expected = reference_of(tile.ops.conv2d)(x, filters, padding=1, layout="NCHW")
    np.testing.assert_array_equal(result, expected)


def test_tf32(launched: list[str]) -> None:
    x, filters = integers(1, 33, 8, 8, dtype="float32"), integers(16, 33, 3, 3, dtype="float32")
    with tile.backend("interp:wgmma"):
        result = tile.ops.conv2d(x, filters, padding=1, precision="tf32", layout="NCHW")
    assert launched == [COPY, IM2COL]
    expected = reference_of(tile.ops.conv2d)(x, filters, padding=1, layout="NCHW")
    np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize("stride", [1, 2])
def test_strides_of_axes_of_one_element(stride: int, launched: list[str]) -> None:
    """PyTorch's filters of 1 x 1 have strides that TMA would not take."""
    x, filters = integers(2, 7, 7, 64), integers(32, 64)
    filters = as_strided(filters, (32, 1, 1, 64), (128, 2, 2, 2))
    with tile.backend("interp:wgmma"):
        result = tile.ops.conv2d(x, filters, stride=stride)
    assert launched == [MATMUL if stride == 1 else IM2COL]
    np.testing.assert_array_equal(result, reference_of(tile.ops.conv2d)(x, filters, stride=stride))


# x; filters; options; the kernels of gradients of images, and of filters
BACKWARD: dict[str, tuple[Any, ...]] = {
    "three channels": (
        *((2, 17, 19, 3), (64, 7, 7, 3), {"padding": 3, "stride": (1, 2)}),
        *([COPY, COPY, IM2COL, COPY, IM2COL, COPY], [COPY, COPY, "im2col_wgrad_kernel", COPY]),
    ),
    "3x3": (
        *((2, 10, 10, 64), (32, 3, 3, 64), {"padding": 1}),
        *([COPY, IM2COL], [COPY, "im2col_wgrad_kernel", COPY]),
    ),
    "stride": (
        *((2, 9, 8, 64), (32, 3, 3, 64), {"padding": 1, "stride": 2}),
        *([COPY, "im2col_phases_kernel", COPY], [COPY, "im2col_wgrad_kernel", COPY]),
    ),
    "1x1": (
        *((2, 8, 8, 64), (48, 1, 1, 64), {}),
        *([MATMUL], [COPY, "im2col_wgrad_kernel"]),
    ),
    "groups": (
        *((2, 8, 8, 32), (32, 3, 3, 4), {"padding": 1, "groups": 8}),
        *([COPY, IM2COL], [COPY, "conv2d_wgrad_kernel", COPY]),
    ),
    "groups of a tile": (
        *((2, 8, 8, 64), (128, 3, 3, 4), {"padding": 1, "groups": 16}),
        *([COPY, IM2COL], [COPY, "im2col_wgrad_kernel", COPY]),
    ),
    "groups of more channels": (
        *((2, 8, 8, 128), (64, 3, 3, 8), {"padding": 1, "groups": 16}),
        *([COPY, IM2COL], [COPY, "im2col_wgrad_kernel", COPY]),
    ),
}


@pytest.mark.parametrize("case", BACKWARD)
def test_gradients_of_planes(case: str, launched: list[str]) -> None:
    shape, filters, options, image_kernels, filter_kernels = BACKWARD[case]
    x, weights = (placed(integers(*sizes), "NCHW") for sizes in (shape, filters))
    options = {"stride": 1, "padding": 0, "dilation": 1, "groups": 1, "layout": "NCHW"} | options
    dy = integers(*reference_of(tile.ops.conv2d)(x, weights, None, None, **options).shape, seed=2)
    for op, arguments, kernels in (
        (tile.ops.conv2d_dgrad, (dy, weights, shape[1:3]), image_kernels),
        (tile.ops.conv2d_wgrad, (dy, x, filters[1:3]), filter_kernels),
    ):
        launched.clear()
        with tile.backend("interp:wgmma"):
            result = op(*arguments, **options)
        assert launched == kernels
        np.testing.assert_array_equal(result, reference_of(op)(*arguments, **options))


def test_gradient_of_filters_of_three_channels(launched: list[str]) -> None:
    x, dy = integers(2, 17, 20, 3), integers(2, 9, 10, 24, seed=1)
    options: dict[str, Any] = {"stride": 2, "padding": 3}
    with tile.backend("interp:wgmma"):
        result = tile.ops.conv2d_wgrad(dy, x, (7, 7), **options)
    assert launched == [COPY, "im2col_wgrad_kernel", COPY]
    expected = reference_of(tile.ops.conv2d_wgrad)(dy, x, (7, 7), **options)
    np.testing.assert_array_equal(result, expected)
