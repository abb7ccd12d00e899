"""Images with the axes "NCHW" whose channels are adjacent in memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tile.ops
from tile.errors import ArgumentValueError
from tile.ops.core.reference import reference_of

CONVOLUTION = {"stride": 1, "padding": 1, "dilation": 1, "groups": 1}


def normal(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def last(*shape: int) -> np.ndarray:
    """Return numbers of this shape, batch x channels x height x width, with adjacent channels."""
    return normal(*(shape[axis] for axis in (0, 2, 3, 1))).transpose(0, 3, 1, 2)


def is_last(x: np.ndarray) -> bool:
    return x.transpose(0, 2, 3, 1).flags.c_contiguous


def index_of(window: int, stride: int) -> np.ndarray:
    """Return the indices of maxima of an image of 7 x 6 pixels and 5 channels."""
    images = last(2, 5, 7, 6)
    index: np.ndarray = reference_of(tile.ops.max_pool2d)(
        images, window, stride, indices=True, layout="NCHW"
    )[1]
    return index


# By op: its arguments, and options.
CASES: dict[str, Callable[[], tuple[tuple[Any, ...], dict[str, Any]]]] = {
    "conv2d": lambda: ((last(2, 5, 7, 6), normal(4, 5, 3, 3), normal(4)), CONVOLUTION),
    "conv2d_dgrad": lambda: ((last(2, 4, 7, 6), last(4, 5, 3, 3), (7, 6)), CONVOLUTION),
    "conv2d_wgrad": lambda: ((last(2, 4, 7, 6), last(2, 5, 7, 6), (3, 3)), CONVOLUTION),
    "conv_transpose2d": lambda: ((last(2, 4, 7, 6), normal(4, 5, 3, 3)), CONVOLUTION),
    "max_pool2d": lambda: ((last(2, 5, 7, 6), 2, 2), {}),
    "max_pool2d_backward": lambda: ((last(2, 5, 3, 3), index_of(2, 2), (7, 6), 2, 2), {}),
    "avg_pool2d": lambda: ((last(2, 5, 7, 6), 3, 2), {}),
    "avg_pool2d_backward": lambda: ((last(2, 5, 3, 2), (7, 6), 3, 2), {}),
    "adaptive_max_pool2d": lambda: ((last(2, 5, 7, 6), (3, 2)), {}),
    "adaptive_avg_pool2d": lambda: ((last(2, 5, 7, 6), (3, 2)), {}),
    "adaptive_avg_pool2d_backward": lambda: ((last(2, 5, 3, 2), (7, 6)), {}),
    "resize_bilinear": lambda: ((last(2, 5, 7, 6), (5, 9)), {}),
    "resize_bilinear_backward": lambda: ((last(2, 5, 5, 9), (7, 6)), {}),
}


@pytest.mark.parametrize("name", CASES)
def test_results_have_the_format_of_the_image(name: str) -> None:
    arguments, options = CASES[name]()
    op = getattr(tile.ops, name)
    result = op(*arguments, **options, layout="NCHW")
    expected = reference_of(op)(*arguments, **options, layout="NCHW")
    np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-4)
    assert is_last(result)
    planes = [np.ascontiguousarray(each) if np.ndim(each) == 4 else each for each in arguments]
    result = op(*planes, **options, layout="NCHW")
    np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-4)
    assert result.flags.c_contiguous


def test_indices_have_it_too() -> None:
    x = last(2, 5, 7, 6)
    results = tile.ops.max_pool2d(x=x, window=2, stride=2, indices=True, layout="NCHW")
    expected = reference_of(tile.ops.max_pool2d)(x, 2, 2, indices=True, layout="NCHW")
    for result, wanted in zip(results, expected, strict=True):
        np.testing.assert_array_equal(result, wanted)
        assert is_last(result)


@pytest.mark.parametrize("make", [normal, last])
def test_out_is_written(make: Callable[..., np.ndarray]) -> None:
    x, out = last(2, 5, 7, 6), make(2, 5, 3, 2)
    assert tile.ops.avg_pool2d(x, 3, 2, layout="NCHW", out=out) is out
    np.testing.assert_allclose(
        out, reference_of(tile.ops.avg_pool2d)(x, 3, 2, layout="NCHW"), atol=1e-6
    )


def test_an_error_names_axes_as_they_were_passed() -> None:
    with pytest.raises(ArgumentValueError, match="x is batch x channels x height x width"):
        tile.ops.conv2d(last(2, 5, 7, 6), normal(4, 3, 3, 3), layout="NCHW")


def test_autograd() -> None:
    torch = pytest.importorskip("torch")
    x, filters = torch.from_numpy(last(2, 5, 7, 6)), torch.from_numpy(normal(4, 5, 3, 3))
    x.requires_grad_(), filters.requires_grad_()
    tile.ops.conv2d(x, filters, padding=1, layout="NCHW").square().sum().backward()
    gradients = x.grad, filters.grad
    assert x.grad.is_contiguous(memory_format=torch.channels_last)
    x.grad = filters.grad = None
    torch.nn.functional.conv2d(x, filters, padding=1).square().sum().backward()
    for result, expected in zip(gradients, (x.grad, filters.grad), strict=True):
        torch.testing.assert_close(result, expected, rtol=1e-3, atol=1e-3)
