"""The gradient of the image of a convolution.

    dx[n, h, w, c] = sum over k and over p, r with p * stride - padding + r * dilation = h, ...,
                     of dy[n, p, q, k] * filters[k, r, s, c]

convolution_phases.py computes it as convolutions of stride 1, one for each remainder of a pixel's
index by the stride (phases.py), so that no operation on zeros is done.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tile.errors import ArgumentValueError
from tile.ops.core.call import Call
from tile.ops.core.call_plans import planned
from tile.ops.core.epilogue import PRECISIONS
from tile.ops.core.reference import Array
from tile.ops.image.conv_arguments import (
    channels_in,
    channels_last,
    group_count,
    grouped,
    image_and_filters,
    image_size,
    referenced,
)
from tile.ops.image.convolution_phases import gradient_of_image
from tile.ops.image.images import result_image
from tile.ops.image.memory_format import keeps_channels_last
from tile.ops.image.windows import Window, edges_of, inner, windows_of


@keeps_channels_last("dy", "filters")
@planned()
def conv2d_dgrad(
    dy: Any,
    filters: Any,
    size: tuple[int, int],
    stride: Window = 1,
    padding: Window = 0,
    dilation: Window = 1,
    groups: int = 1,
    *,
    precision: str = "ieee",
    layout: str = "NHWC",
    out: Any = None,
) -> Any:
    """Return the gradient of the image `x` of `conv2d` from `dy`, that of the result.

    size: the height and width of x. The other arguments are those of `conv2d`.
    """
    call = Call("conv2d_dgrad")
    operand, gradient, weights = image_and_filters(call, ("dy", dy), filters, layout)
    (batches, p, q, count), (filters_, r, s, depth) = gradient.shape, weights.shape
    groups = group_count(call, groups, count, filters_, "the channels of `dy` and the filters")
    if count != filters_:
        raise ArgumentValueError(
            f"conv2d_dgrad: `dy` has {count} channels, and there are {filters_} filters"
        )
    call.choice("precision", precision, PRECISIONS)
    windows = windows_of(call, (r, s), stride, padding, dilation)
    shape = (batches, *image_size(call, size, windows, (p, q)), depth * groups)
    result, dx = result_image(call, out, shape, operand.dtype, layout)
    if result.size:
        gradient_of_image(
            call, gradient, weights, None, dx, windows, groups, operand.dtype, precision
        )
    return result.value


def conv2d_dgrad_reference(
    dy: Array,
    filters: Array,
    size: tuple[int, int],
    stride: Window,
    padding: Window,
    dilation: Window,
    groups: int,
    layout: str,
) -> Array:
    """Return the gradient in float64: a sum over the positions of the window."""
    dy = channels_last(dy, layout)
    filters, windows = referenced(filters, stride, padding, dilation, groups, layout)
    channels = groups * filters.shape[-1]
    padded = np.pad(np.zeros((len(dy), *size, channels)), edges_of(windows))
    for r, s, rows, columns in windows.positions((dy.shape[1], dy.shape[2])):
        part = np.einsum("npqgk,gkc->npqgc", grouped(dy, groups), filters[:, :, r, s])
        padded[:, rows, columns] += part.reshape(*dy.shape[:3], channels)
    return channels_in(inner(padded, windows, size), layout)
