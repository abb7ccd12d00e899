"""Maxima and means of windows that move over images, forward and backward.

    max_pool2d: out[n, p, q, c] = max over r, s of x[n, p * stride - padding + r, ..., c]
    avg_pool2d: the same with the mean; pixels in the padding count as zeros
    dx[n, h, w, c] = sum over the windows of (h, w) of dy, where it is the maximum, or of dy / (R S)

The padding of a maximum is -inf. NaN in a window gives NaN. Of equal pixels, the first is the
maximum. pool_kernels.py has the kernels.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tile.ops.core.autograd import differentiable_by
from tile.ops.core.call import Call
from tile.ops.core.call_plans import planned
from tile.ops.core.reference import Array
from tile.ops.image.conv_arguments import image_size
from tile.ops.image.images import (
    in_layout,
    layout_of,
    size_of_x,
    spatial,
)
from tile.ops.image.pool_launches import Pooling, pool, pool_gradient
from tile.ops.image.pool_reference import Spans, maximum_gradient, mean_gradient, pooled
from tile.ops.image.windows import Window, Windows, pair, window_counts, windows_of


def _indices(step: Any) -> Any:
    """Return the indices of maxima, which are computed again unless they were a result."""
    if len(step.results) == 2:
        return step.results[1]
    options = step.options("window", "stride", "padding", "layout")
    return max_pool2d(step.arguments["x"].detach(), indices=True, **options)[1]


@differentiable_by("x", size=size_of_x, index=_indices)
@planned()
def max_pool2d(
    x: Any,
    window: Window,
    stride: Window,
    padding: Window = 0,
    indices: bool = False,
    *,
    layout: str = "NHWC",
    out: Any = None,
) -> Any:
    """Return the maxima of windows, batch x P x Q x channels, in the type of `x`.

    x: batch x height x width x channels, of any strides; with the layout "NCHW", channels are the
    second axis. window, stride, padding: of height and width, or of both; the padding is at most
    half of the window. indices: return also the index of each maximum, row * width + column, int32.
    """
    call = Call("max_pool2d")
    operand = call.array("x", x, rank=4)
    windows = _windows(call, window, stride, padding)
    counts = window_counts(call, spatial(operand.shape, layout_of(call, layout)), windows)
    return pool(call, Pooling(False, windows), operand, counts, layout, out, indices)


@differentiable_by("x", size=size_of_x)
@planned()
def avg_pool2d(
    x: Any,
    window: Window,
    stride: Window,
    padding: Window = 0,
    padded: bool = True,
    *,
    layout: str = "NHWC",
    out: Any = None,
) -> Any:
    """Return the means of windows, batch x P x Q x channels, in the type of `x`.

    padded: pixels in the padding count, as zeros; otherwise means are over the others. The other
    arguments are those of `max_pool2d`.
    """
    call = Call("avg_pool2d")
    operand = call.array("x", x, rank=4)
    windows = _windows(call, window, stride, padding)
    counts = window_counts(call, spatial(operand.shape, layout_of(call, layout)), windows)
    return pool(call, Pooling(True, windows, padded), operand, counts, layout, out, False)


def _windows(call: Call, window: Any, stride: Any, padding: Any) -> Windows:
    windows = windows_of(call, pair(call, "window", window, 1), stride, padding, 1)
    for first, extent in zip(windows.first, windows.count, strict=True):
        call.number("padding", -first, high=extent // 2)
    return windows


@planned()
def max_pool2d_backward(
    dy: Any,
    index: Any,
    size: tuple[int, int],
    window: Window,
    stride: Window,
    padding: Window = 0,
    *,
    layout: str = "NHWC",
    out: Any = None,
) -> Any:
    """Return the gradient of the image from `dy`, that of the maxima, and their indices.

    size: the height and width of the image. The other arguments are those of `max_pool2d`.
    """
    call = Call("max_pool2d_backward")
    pooling = Pooling(False, _windows(call, window, stride, padding))
    return _backward(call, pooling, dy, index, size, layout, out)


@planned()
def avg_pool2d_backward(
    dy: Any,
    size: tuple[int, int],
    window: Window,
    stride: Window,
    padding: Window = 0,
    padded: bool = True,
    *,
    layout: str = "NHWC",
    out: Any = None,
) -> Any:
    """Return the gradient of the image from `dy`, that of the means.

    size: the height and width of the image. The other arguments are those of `avg_pool2d`.
    """
    call = Call("avg_pool2d_backward")
    pooling = Pooling(True, _windows(call, window, stride, padding), padded)
    return _backward(call, pooling, dy, None, size, layout, out)


def _backward(
    call: Call, pooling: Pooling, dy: Any, index: Any, size: Any, layout: Any, out: Any
) -> Any:
    gradient = call.array("dy", dy, rank=4)
    counts = spatial(gradient.shape, layout_of(call, layout))
    assert pooling.windows is not None
    size = image_size(call, size, pooling.windows, counts)
    return pool_gradient(call, pooling, gradient, index, size, layout, out)


def _spans(
    x: Array, window: Window, stride: Window, padding: Window, padded: bool, layout: str
) -> Spans:
    """Return the windows over an image, for references."""
    call = Call("pooling")
    size = spatial(x.shape, layout)
    windows = _windows(call, window, stride, padding)
    return Spans.equal(windows, size, window_counts(call, size, windows), padded)


def max_pool2d_reference(
    x: Array, window: Window, stride: Window, padding: Window, indices: bool, layout: str
) -> Array | tuple[Array, Array]:
    """Return the maxima in float64."""
    spans = _spans(x, window, stride, padding, True, layout)
    results = pooled(x, spans, False, layout)
    return results if indices else results[0]


def avg_pool2d_reference(
    x: Array, window: Window, stride: Window, padding: Window, padded: bool, layout: str
) -> Array:
    """Return the means in float64."""
    return pooled(x, _spans(x, window, stride, padding, padded, layout), True, layout)[0]


def max_pool2d_backward_reference(
    dy: Array, index: Array, size: tuple[int, int], layout: str
) -> Array:
    """Return the gradient in float64."""
    return maximum_gradient(dy, index, size, layout)


def avg_pool2d_backward_reference(
    dy: Array,
    size: tuple[int, int],
    window: Window,
    stride: Window,
    padding: Window,
    padded: bool,
    layout: str,
) -> Array:
    """Return the gradient in float64."""
    shape = in_layout((1, *size, 1), layout)
    spans = _spans(np.zeros(shape), window, stride, padding, padded, layout)
    return mean_gradient(dy, spans, size, layout)
