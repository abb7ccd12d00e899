"""Maxima of windows that move over images, forward and backward.

    out[n, p, q, c] = max over r, s of x[n, p * stride - padding + r, q * stride - padding + s, c]
    dx[n, h, w, c] = sum of dy over the windows whose maximum is (h, w)

The padding is -inf. NaN in a window gives NaN. Of equal pixels, the first is the maximum.
pool_kernels.py has the kernels.
"""

from __future__ import annotations

from typing import Any

from tile.ops.core.autograd import differentiable_by
from tile.ops.core.call import Call
from tile.ops.core.call_plans import planned
from tile.ops.core.reference import Array
from tile.ops.image.images import layout_of, size_of_x, spatial
from tile.ops.image.memory_format import keeps_channels_last
from tile.ops.image.pool_launches import Pooling, equal_pool_gradient, pool, pool_windows
from tile.ops.image.pool_reference import equal_spans, maximum_gradient, pooled
from tile.ops.image.windows import Window, window_counts


def _indices(step: Any) -> Any:
    """Return the indices of maxima, which are computed again unless they were a result."""
    if len(step.results) == 2:
        return step.results[1]
    options = step.options("window", "stride", "padding", "layout")
    return max_pool2d(step.arguments["x"].detach(), indices=True, **options)[1]


@keeps_channels_last("x")
@differentiable_by("x", reads=(1,), size=size_of_x, index=_indices)
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
    second axis, and a result is in PyTorch's memory format `channels_last` if x is. window, stride,
    padding: of height and width, or of both; the padding is at most half of the window. indices:
    return also the index of each maximum, row * width + column, int32.
    """
    call = Call("max_pool2d")
    operand = call.array("x", x, rank=4)
    windows = pool_windows(call, window, stride, padding)
    counts = window_counts(call, spatial(operand.shape, layout_of(call, layout)), windows)
    return pool(call, Pooling(False, windows), operand, counts, layout, out, indices)


@keeps_channels_last("dy", "index")
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
    pooling = Pooling(False, pool_windows(call, window, stride, padding))
    return equal_pool_gradient(call, pooling, dy, index, size, layout, out)


def max_pool2d_reference(
    x: Array, window: Window, stride: Window, padding: Window, indices: bool, layout: str
) -> Array | tuple[Array, Array]:
    """Return the maxima in float64."""
    spans = equal_spans(x, window, stride, padding, True, layout)
    results = pooled(x, spans, False, layout)
    return results if indices else results[0]


def max_pool2d_backward_reference(
    dy: Array, index: Array, size: tuple[int, int], layout: str
) -> Array:
    """Return the gradient in float64."""
    return maximum_gradient(dy, index, size, layout)
