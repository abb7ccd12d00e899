"""Convolution of images: strided, dilated, grouped, depthwise; with bias and activation.

    out[n, p, q, k] = sum over r, s, c of x[n, p * stride - padding + r * dilation, ..., c]
                      * filters[k, r, s, c]

With groups, a filter has the channels of its group alone: filters are divided into as many groups
as channels are. It is a matmul whose left operand is never stored; convolution.py chooses a kernel.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from tile.errors import ArgumentValueError
from tile.ops.channels.channel_sums import channel_sums
from tile.ops.core.activations import ACTIVATIONS
from tile.ops.core.autograd import differentiable
from tile.ops.core.call import Call
from tile.ops.core.call_plans import planned
from tile.ops.core.epilogue import epilogue_of
from tile.ops.core.reference import Array
from tile.ops.image.conv2d_dgrad import conv2d_dgrad
from tile.ops.image.conv2d_wgrad import conv2d_wgrad
from tile.ops.image.conv_arguments import (
    channels_in,
    channels_last,
    group_count,
    grouped,
    image_and_filters,
    referenced,
)
from tile.ops.image.convolution import convolve
from tile.ops.image.convolution_matmul import Convolution
from tile.ops.image.images import result_image, spatial
from tile.ops.image.memory_format import keeps_channels_last
from tile.ops.image.windows import Window, edges_of, window_counts, windows_of
from tile.ops.pointwise.activation import activation_gradient, read_results


def _gradients(step: Any) -> dict[str, Any]:
    arguments = step.arguments
    x, filters, layout = arguments["x"], arguments["filters"], arguments.get("layout", "NHWC")
    names = ("stride", "padding", "dilation", "groups", "precision", "layout")
    options = step.options(*names)
    grad = activation_gradient(
        *(arguments.get("activation"), step.grads[0], step.results[0]),
        lambda: conv2d(x, filters, arguments.get("bias"), **options),
    )
    gradients = {}
    if "x" in step.needed:
        size = spatial(x.shape, layout)
        gradients["x"] = conv2d_dgrad(grad, filters, size, **options)
    if "filters" in step.needed:
        window = spatial(filters.shape, layout)
        gradients["filters"] = conv2d_wgrad(grad, x, window, **options)
    if "bias" in step.needed:
        axis = 1 if layout == "NCHW" else -1
        gradients["bias"] = channel_sums(grad, axis).to(arguments["bias"].dtype)
    return gradients


@keeps_channels_last("x", "filters")
@differentiable(_gradients, reads=read_results)
@planned()
def conv2d(
    x: Any,
    filters: Any,
    bias: Any = None,
    activation: str | None = None,
    stride: Window = 1,
    padding: Window = 0,
    dilation: Window = 1,
    groups: int = 1,
    *,
    precision: str = "ieee",
    layout: str = "NHWC",
    out: Any = None,
) -> Any:
    """Return activation(convolution of `x` with `filters` + bias), in the type of `x`.

    x: batch x height x width x channels; filters: filters x R x S x channels of a group, of its
    type; the result is batch x P x Q x filters. With the layout "NCHW", channels are the second
    axis of all three. Strides are any; an image in PyTorch's memory format `channels_last` has such
    a result. bias: one element for each filter. stride, padding, dilation: of height and width, or
    of both. activation, precision: as in `matmul`.
    """
    call = Call("conv2d")
    operand, image, weights = image_and_filters(call, ("x", x), filters, layout)
    (batches, height, width, channels), (count, r, s, depth) = image.shape, weights.shape
    groups = group_count(call, groups, channels, count, "the channels and filters")
    if depth * groups != channels:
        axes, window = "height x width x channels", "R x S x channels of a group"
        if layout == "NCHW":
            axes, window = "channels x height x width", "channels of a group x R x S"
        raise ArgumentValueError(
            f"conv2d: `x` has {channels} channels and `filters` {depth}; x is batch x {axes}, "
            f"and filters are filters x {window}"
        )
    function = epilogue_of(call, count, bias, precision, activation)
    windows = windows_of(call, (r, s), stride, padding, dilation)
    p, q = window_counts(call, (height, width), windows)
    result, out_image = result_image(call, out, (batches, p, q, count), operand.dtype, layout)
    if result.size:
        per_group = replace(weights, shape=(count // groups, r, s, depth))
        step = count // groups * weights.strides[0]
        convolve(
            Convolution(
                *(call, image, per_group, bias, out_image, windows, groups, step),
                *(operand.dtype, function, precision),
            )
        )
    return result.value


def conv2d_reference(
    x: Array,
    filters: Array,
    bias: Array | None,
    activation: str | None,
    stride: Window,
    padding: Window,
    dilation: Window,
    groups: int,
    layout: str,
) -> Array:
    """Return the result in float64: a sum over the positions of the window."""
    x = channels_last(x, layout)
    filters, windows = referenced(filters, stride, padding, dilation, groups, layout)
    size = window_counts(Call("conv2d"), x.shape[1:3], windows)
    padded = grouped(np.pad(x, edges_of(windows)), groups)
    out = np.zeros((len(x), *size, filters.shape[0] * filters.shape[1]))
    for r, s, rows, columns in windows.positions(size):
        part = np.einsum("npqgc,gkc->npqgk", padded[:, rows, columns], filters[:, :, r, s])
        out += part.reshape(out.shape)
    out += 0 if bias is None else bias
    return channels_in(
        out if activation is None else ACTIVATIONS[activation].reference(out), layout
    )
