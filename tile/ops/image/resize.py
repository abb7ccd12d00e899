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
from tile.ops.core.call_plans import launch, planned
from tile.ops.core.device_functions import widen
from tile.ops.core.reference import Array
from tile.ops.image.conv_arguments import channels_in, channels_last
from tile.ops.image.depthwise import tile_of
from tile.ops.image.images import image_of, layout_of, result_image, size_of_x
from tile.ops.image.resize_backward import resize_bilinear_backward
from tile.ops.image.resize_sources import Scale, result_size, sources
from tile.ops.image.windows import Window, pair


@tile.jit
def resize_kernel(
    x_ptr,
    out_ptr,
    x_strides,
    out_strides,
    sizes,
    pixels,
    channels,
    down,
    right,
    PIXELS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    height, width, out_height, out_width = sizes
    pixel = tl.program_id(0) * PIXELS + tl.arange(0, PIXELS)[:, None]
    channel = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)[None, :]
    n = (pixel // (out_height * out_width)).to(tl.int64)
    p, q = pixel // out_width % out_height, pixel % out_width
    exists = (pixel < pixels) & (channel < channels)
    top, bottom, low = sources(p, height, down)
    left, end, near = sources(q, width, right)
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
    at = n * out_strides[0] + p * out_strides[1] + q * out_strides[2]
    at += channel.to(tl.int64) * out_strides[3]
    tl.store(out_ptr + at, above * (1.0 - by_row) + below * by_row, mask=exists)


@differentiable_by("x", backward=resize_bilinear_backward, size=size_of_x)
@planned()
def resize_bilinear(
    x: Any, size: Window, align_corners: bool = False, *, layout: str = "NHWC", out: Any = None
) -> Any:
    """Return an image of the given height and width, interpolated, in the type of `x`.

    x: batch x height x width x channels, of any strides; with the layout "NCHW", channels are the
    second axis. size: of the result. align_corners: the pixels of corners have equal values in both
    images; otherwise their outer edges lie on each other.
    """
    call = Call("resize_bilinear")
    operand = call.array("x", x, rank=4)
    layout = layout_of(call, layout)
    image = image_of(operand, layout)
    batches, height, width, channels = image.shape
    counts = result_size(call, size, (height, width), operand.shape)
    result, target = result_image(call, out, (batches, *counts, channels), operand.dtype, layout)
    if result.size:
        down = Scale.of(height, counts[0], align_corners)
        right = Scale.of(width, counts[1], align_corners)
        pixels = batches * counts[0] * counts[1]
        rows, block = tile_of(target)
        launch(resize_kernel, (tile.cdiv(pixels, rows), tile.cdiv(channels, block)))(
            *(x, result.value, image.strides, target.strides, (height, width, *counts)),
            *(pixels, channels, down.numbers, right.numbers),
            PIXELS=rows,
            BLOCK=block,
        )
    return result.value


def resize_bilinear_reference(x: Array, size: Window, align_corners: bool, layout: str) -> Array:
    """Return the image in float64, by matrices of weights."""
    x = channels_last(x, layout)
    counts = pair(Call("resize_bilinear"), "size", size, 1)
    rows, columns = (
        Scale.of(n, count, align_corners).weights(n, count)
        for n, count in zip(x.shape[1:3], counts, strict=True)
    )
    return channels_in(np.einsum("ph,qw,nhwc->npqc", rows, columns, x), layout)
