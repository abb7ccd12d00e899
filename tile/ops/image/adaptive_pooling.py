"""Maxima and means of adaptive windows, forward and backward: for results of any given size.

    out[n, p, q, c] = max or mean of x[n, h, w, c] over the windows p and q
    window p: floor(p * height / P) <= h < ceil((p + 1) * height / P); q alike

Windows have about equal sizes, cover the image, and overlap where the size does not divide that of
the image. The kernels are those of equal windows (pool_kernels.py).
"""

from __future__ import annotations

import math
from typing import Any

from tile.errors import ArgumentValueError
from tile.ops.core.autograd import differentiable_by
from tile.ops.core.call import Call
from tile.ops.core.call_plans import planned
from tile.ops.core.reference import Array
from tile.ops.image.images import layout_of, size_of_x, spatial
from tile.ops.image.memory_format import keeps_channels_last
from tile.ops.image.pool_launches import Pooling, pool, pool_gradient
from tile.ops.image.pool_reference import Spans, maximum_gradient, mean_gradient, pooled
from tile.ops.image.windows import Window, pair


def _indices(step: Any) -> Any:
    """Return the indices of maxima, which are computed again unless they were a result."""
    if len(step.results) == 2:
        return step.results[1]
    options = step.options("size", "layout")
    return adaptive_max_pool2d(step.arguments["x"].detach(), indices=True, **options)[1]


@keeps_channels_last("x")
@differentiable_by("x", reads=(1,), size=size_of_x, index=_indices)
@planned()
def adaptive_max_pool2d(
    x: Any, size: Window, indices: bool = False, *, layout: str = "NHWC", out: Any = None
) -> Any:
    """Return the maxima of `size` windows, batch x P x Q x channels, in the type of `x`.

    x: batch x height x width x channels, of any strides; with the layout "NCHW", channels are the
    second axis, and a result is in PyTorch's memory format `channels_last` if x is. size: P and Q,
    or both. indices: return also the index of each maximum, row * width + column, int32.
    """
    return _pool(Call("adaptive_max_pool2d"), False, x, size, indices, layout, out)


@keeps_channels_last("x")
@differentiable_by("x", size=size_of_x)
@planned()
def adaptive_avg_pool2d(x: Any, size: Window, *, layout: str = "NHWC", out: Any = None) -> Any:
    """Return the means of `size` windows, batch x P x Q x channels, in the type of `x`.

    The arguments are those of `adaptive_max_pool2d`.
    """
    return _pool(Call("adaptive_avg_pool2d"), True, x, size, False, layout, out)


def _pool(call: Call, mean: bool, x: Any, size: Any, indices: bool, layout: Any, out: Any) -> Any:
    operand = call.array("x", x, rank=4)
    if not math.prod(spatial(operand.shape, layout_of(call, layout))):
        raise ArgumentValueError(f"{call.op}: `x` has shape {operand.shape}; it has no pixels")
    counts = pair(call, "size", size, 1)
    return pool(call, Pooling(mean, None), operand, counts, layout, out, indices)


@keeps_channels_last("dy", "index")
@planned()
def adaptive_max_pool2d_backward(
    dy: Any, index: Any, size: tuple[int, int], *, layout: str = "NHWC", out: Any = None
) -> Any:
    """Return the gradient of the image from `dy`, that of the maxima, and their indices.

    size: the height and width of the image.
    """
    call = Call("adaptive_max_pool2d_backward")
    return _backward(call, Pooling(False, None), dy, index, size, layout, out)


@keeps_channels_last("dy")
@planned()
def adaptive_avg_pool2d_backward(
    dy: Any, size: tuple[int, int], *, layout: str = "NHWC", out: Any = None
) -> Any:
    """Return the gradient of the image from `dy`, that of the means.

    size: the height and width of the image.
    """
    call = Call("adaptive_avg_pool2d_backward")
    return _backward(call, Pooling(True, None), dy, None, size, layout, out)


def _backward(
    call: Call, pooling: Pooling, dy: Any, index: Any, size: Any, layout: Any, out: Any
) -> Any:
    gradient = call.array("dy", dy, rank=4)
    shape = pair(call, "size", size, 1)
    return pool_gradient(call, pooling, gradient, index, shape, layout_of(call, layout), out)


def adaptive_max_pool2d_reference(
    x: Array, size: Window, indices: bool, layout: str
) -> Array | tuple[Array, Array]:
    """Return the maxima in float64."""
    spans = Spans.adaptive(spatial(x.shape, layout), pair(Call("pooling"), "size", size, 1))
    results = pooled(x, spans, False, layout)
    return results if indices else results[0]


def adaptive_avg_pool2d_reference(x: Array, size: Window, layout: str) -> Array:
    """Return the means in float64."""
    spans = Spans.adaptive(spatial(x.shape, layout), pair(Call("pooling"), "size", size, 1))
    return pooled(x, spans, True, layout)[0]


def adaptive_max_pool2d_backward_reference(
    dy: Array, index: Array, size: tuple[int, int], layout: str
) -> Array:
    """Return the gradient in float64."""
    return maximum_gradient(dy, index, size, layout)


def adaptive_avg_pool2d_backward_reference(dy: Array, size: tuple[int, int], layout: str) -> Array:
    """Return the gradient in float64."""
    return mean_gradient(dy, Spans.adaptive(size, spatial(dy.shape, layout)), size, layout)
