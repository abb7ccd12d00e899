"""Transposed convolution, which enlarges images: the gradient of a convolution's image.

    out[n, p * stride - padding + r * dilation, ..., c] += x[n, p, q, k] * filters[k, r, s, c]

Each pixel of x adds a multiple of the filters to a window of the result. The result is computed
pixel by pixel (convolution_phases.py), so that no two programs add to one element. Its own
gradients are a convolution, and that of filters with the roles of x and dy exchanged.
"""

from __future__ import annotations

from typing import Any

from tile.errors import ArgumentValueError
from tile.ops.channels.channel_sums import channel_sums
from tile.ops.core.autograd import differentiable
from tile.ops.core.call import Call
from tile.ops.core.call_plans import planned
from tile.ops.core.epilogue import epilogue_of
from tile.ops.core.reference import Array
from tile.ops.image.conv2d import conv2d
from tile.ops.image.conv2d_dgrad import conv2d_dgrad_reference
from tile.ops.image.conv2d_wgrad import conv2d_wgrad
from tile.ops.image.conv_arguments import group_count, image_and_filters, referenced
from tile.ops.image.convolution_phases import gradient_of_image
from tile.ops.image.images import result_image, spatial
from tile.ops.image.memory_format import keeps_channels_last
from tile.ops.image.windows import Pair, Window, Windows, pair, windows_of


def _gradients(step: Any) -> dict[str, Any]:
    arguments, grad = step.arguments, step.grads[0]
    x, filters, layout = arguments["x"], arguments["filters"], arguments.get("layout", "NHWC")
    names = ("stride", "padding", "dilation", "groups", "precision", "layout")
    options = step.options(*names)
    gradients = {}
    if "x" in step.needed:
        gradients["x"] = conv2d(grad, filters, **options)
    if "filters" in step.needed:
        window = spatial(filters.shape, layout)
        gradients["filters"] = conv2d_wgrad(x, grad, window, **options)
    if "bias" in step.needed:
        sums = channel_sums(grad, 1 if layout == "NCHW" else -1)
        gradients["bias"] = sums.to(arguments["bias"].dtype)
    return gradients


@keeps_channels_last("x", "filters")
@differentiable(_gradients)
@planned()
def conv_transpose2d(
    x: Any,
    filters: Any,
    bias: Any = None,
    stride: Window = 1,
    padding: Window = 0,
    output_padding: Window = 0,
    dilation: Window = 1,
    groups: int = 1,
    *,
    precision: str = "ieee",
    layout: str = "NHWC",
    out: Any = None,
) -> Any:
    """Return the transposed convolution of `x` with `filters` + bias, in the type of `x`.

    x: batch x height x width x channels; filters: channels x R x S x filters of a group, of its
    type; with the layout "NCHW", the last axis of both is the second. Strides are any. The result
    has as many channels as all groups have filters. output_padding: pixels that are added below and
    to the right, fewer than the stride. The other arguments are those of `conv2d`.
    """
    call = Call("conv_transpose2d")
    operand, image, weights = image_and_filters(call, ("x", x), filters, layout)
    (batches, p, q, channels), (inputs, r, s, depth) = image.shape, weights.shape
    groups = group_count(call, groups, channels, inputs, "the channels of `x` and of `filters`")
    if channels != inputs:
        raise ArgumentValueError(
            f"conv_transpose2d: `x` has {channels} channels and `filters` {inputs}; x is batch x "
            "height x width x channels, and filters are channels x R x S x filters of a group"
        )
    epilogue_of(call, depth * groups, bias, precision)
    windows = windows_of(call, (r, s), stride, padding, dilation)
    size = enlarged(call, (p, q), windows, output_padding)
    shape = (batches, *size, depth * groups)
    result, enlarged_image = result_image(call, out, shape, operand.dtype, layout)
    if result.size:
        gradient_of_image(
            *(call, image, weights, bias, enlarged_image, windows, groups),
            *(operand.dtype, precision),
        )
    return result.value


def enlarged(call: Call, size: Pair, windows: Windows, output_padding: Any) -> Pair:
    """Return the height and width of the result, or raise `ArgumentValueError`."""
    more = pair(call, "output_padding", output_padding, 0)
    if more[0] >= windows.step[0] or more[1] >= windows.step[1]:
        raise ArgumentValueError(
            f"{call.op}: `output_padding` is {output_padding!r}; it must be less than `stride`"
        )
    height, width = (
        (size[i] - 1) * windows.step[i]
        + (windows.count[i] - 1) * windows.apart[i]
        + 1
        + 2 * windows.first[i]
        + more[i]
        for i in (0, 1)
    )
    if height < 1 or width < 1:
        raise ArgumentValueError(
            f"{call.op}: the result would have the height {height} and the width {width}; `x` is "
            "too small for `padding`"
        )
    return height, width


def conv_transpose2d_reference(
    x: Array,
    filters: Array,
    bias: Array | None,
    stride: Window,
    padding: Window,
    output_padding: Window,
    dilation: Window,
    groups: int,
    layout: str,
) -> Array:
    """Return the result in float64."""
    _, windows = referenced(filters, stride, padding, dilation, groups, layout)
    size = spatial(x.shape, layout)
    size = enlarged(Call("conv_transpose2d"), size, windows, output_padding)
    out = conv2d_dgrad_reference(x, filters, size, stride, padding, dilation, groups, layout=layout)
    shape = (-1, 1, 1) if layout == "NCHW" else (-1,)
    return out + (0 if bias is None else bias.reshape(shape))
