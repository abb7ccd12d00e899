"""Means of windows that move over images, forward and backward.

    out[n, p, q, c] = mean over r, s of x[n, p * stride - padding + r, q * stride - padding + s, c]
    dx[n, h, w, c] = sum over the windows of (h, w) of dy / (R S)

Pixels in the padding count as zeros, or not at all. pool_kernels.py has the kernels.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tile.ops.core.autograd import differentiable_by
from tile.ops.core.call import Call
from tile.ops.core.call_plans import planned
from tile.ops.core.reference import Array
from tile.ops.image.images import in_layout, layout_of, size_of_x, spatial
from tile.ops.image.memory_format import keeps_channels_last
from tile.ops.image.pool_launches import Pooling, equal_pool_gradient, pool, pool_windows
from tile.ops.image.pool_reference import equal_spans, mean_gradient, pooled
from tile.ops.image.windows import Window, window_counts


@keeps_channels_last("x")
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
    windows = pool_windows(call, window, stride, padding)
    counts = window_counts(call, spatial(operand.shape, layout_of(call, layout)), windows)
    return pool(call, Pooling(True, windows, padded), operand, counts, layout, out, False)


@keeps_channels_last("dy")
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
    pooling = Pooling(True, pool_windows(call, window, stride, padding), padded)
    return equal_pool_gradient(call, pooling, dy, None, size, layout, out)


def avg_pool2d_reference(
    x: Array, window: Window, stride: Window, padding: Window, padded: bool, layout: str
) -> Array:
    """Return the means in float64."""
    return pooled(x, equal_spans(x, window, stride, padding, padded, layout), True, layout)[0]


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
    spans = equal_spans(np.zeros(shape), window, stride, padding, padded, layout)
    return mean_gradient(dy, spans, size, layout)
