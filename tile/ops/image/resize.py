"""Bilinear interpolation of images to another size.

    out[p, q] = sum over h, w of x[h, w] * near(h - source(p)) * near(w - source(q))
    near(d) = max(0, 1 - |d|)

resize_sources.py has the sources.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import tile
import tile.language as tl
from tile.ops.core.autograd import differentiable_by
from tile.ops.core.call import Call
from tile.ops.core.call_plans import planned
from tile.ops.core.device_functions import widen
from tile.ops.core.reference import Array
from tile.ops.image.conv_arguments import channels_in, channels_last
from tile.ops.image.images import size_of_x
from tile.ops.image.memory_format import keeps_channels_last
from tile.ops.image.pixels import position_by, result_offset, tile_of_program
from tile.ops.image.resize_backward import resize_bilinear_backward
from tile.ops.image.resize_sources import resize, sources, tile_of_plane, weights_of
from tile.ops.image.windows import Window


@tile.jit(do_not_specialize=("by_width", "divisors"))
def resize_kernel(
    x_ptr,
    out_ptr,
    x_strides,
    out_strides,
    sizes,
    by_width,
    down,
    right,
    divisors,
    pixels,
    channels,
    LINEAR: tl.constexpr,
    PIXELS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    height, width, _, out_width = sizes
    n, pixel, channel = tile_of_program(pixels, PIXELS, BLOCK)
    p, q = position_by(pixel, out_width, by_width)
    exists = (pixel < pixels) & (channel < channels)
    top, bottom, low = sources(p, height, down, divisors[1])
    left, end, near = sources(q, width, right, divisors[3])
    origin = x_ptr + n * x_strides[0] + channel.to(tl.int64) * x_strides[3]
    upper = origin + top.to(tl.int64) * x_strides[1]
    lower = origin + bottom.to(tl.int64) * x_strides[1]
    zero = widen(tl.zeros((PIXELS, 1), x_ptr.dtype.element_ty))
    by_row = (zero + low) / down[2]
    by_column = (zero + near) / right[2]
    a = widen(tl.load(upper + left * x_strides[2], mask=exists, other=0.0))
    b = widen(tl.load(upper + end * x_strides[2], mask=exists, other=0.0))
    c = widen(tl.load(lower + left * x_strides[2], mask=exists, other=0.0))
    d = widen(tl.load(lower + end * x_strides[2], mask=exists, other=0.0))
    above = a * (1.0 - by_column) + b * by_column
    below = c * (1.0 - by_column) + d * by_column
    at = result_offset(n, pixel, out_width, by_width, channel, out_strides, LINEAR)
    tl.store(out_ptr + at, above * (1.0 - by_row) + below * by_row, mask=exists)


@tile.jit(do_not_specialize=("divisors",))
def resize_planes_kernel(
    x_ptr,
    out_ptr,
    x_strides,
    out_strides,
    sizes,
    down,
    right,
    divisors,
    channels,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    """Store a tile of rows and columns of one channel, which share their sources."""
    height, width, out_height, out_width = sizes
    plane, p, q = tile_of_plane(out_height, out_width, ROWS, COLUMNS)
    top, bottom, low = sources(p, height, down, divisors[1])
    left, end, near = sources(q, width, right, divisors[3])
    zero = widen(tl.zeros((1, 1), x_ptr.dtype.element_ty))
    by_row = (zero + low) / down[2]
    by_column = (zero + near) / right[2]
    # Behind the edges of the result, the sources are those of the edges.
    top, left = tl.minimum(top, height - 1), tl.minimum(left, width - 1)
    origin = x_ptr + (plane // channels * x_strides[0] + plane % channels * x_strides[3])
    upper = origin + top.to(tl.int64) * x_strides[1]
    lower = origin + bottom.to(tl.int64) * x_strides[1]
    first, second = left.to(tl.int64) * x_strides[2], end.to(tl.int64) * x_strides[2]
    a, b = widen(tl.load(upper + first)), widen(tl.load(upper + second))
    c, d = widen(tl.load(lower + first)), widen(tl.load(lower + second))
    above = a * (1.0 - by_column) + b * by_column
    below = c * (1.0 - by_column) + d * by_column
    out_ptr += plane // channels * out_strides[0] + plane % channels * out_strides[3]
    at = p.to(tl.int64) * out_strides[1] + q.to(tl.int64) * out_strides[2]
    inside = (p < out_height) & (q < out_width)
    tl.store(out_ptr + at, above * (1.0 - by_row) + below * by_row, mask=inside)


@keeps_channels_last("x")
@differentiable_by("x", backward=resize_bilinear_backward, size=size_of_x)
@planned()
def resize_bilinear(
    x: Any, size: Window, align_corners: bool = False, *, layout: str = "NHWC", out: Any = None
) -> Any:
    """Return an image of the given height and width, interpolated, in the type of `x`.

    x: batch x height x width x channels, of any strides; with the layout "NCHW", channels are the
    second axis, and a result is in PyTorch's memory format `channels_last` if x is. size: of the
    result. align_corners: the pixels of corners have equal values in both images; otherwise their
    outer edges lie on each other.
    """
    call = Call("resize_bilinear")
    kernels = resize_kernel, resize_planes_kernel
    return resize(call, kernels, ("x", x), size, align_corners, layout, out, False)


def resize_bilinear_reference(x: Array, size: Window, align_corners: bool, layout: str) -> Array:
    """Return the image in float64, by matrices of weights."""
    x = channels_last(x, layout)
    rows, columns = weights_of(x.shape[1:3], size, align_corners)
    return channels_in(np.einsum("ph,qw,nhwc->npqc", rows, columns, x), layout)
