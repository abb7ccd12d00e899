"""The gradient of bilinear interpolation of images.

    dx[h, w] = sum over p, q of dy[p, q] * near(h - source(p)) * near(w - source(q))

A program has pixels of the image, and iterates over the pixels of the result whose sources are near
(resize_sources.py): it gathers, in a fixed order.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import tile
import tile.language as tl
from tile.ops.core.call import Call
from tile.ops.core.call_plans import launch, planned
from tile.ops.core.device_functions import widen
from tile.ops.core.reference import Array
from tile.ops.image.conv_arguments import channels_in, channels_last
from tile.ops.image.depthwise import tile_of
from tile.ops.image.images import image_of, layout_of, result_image
from tile.ops.image.resize_sources import Scale, result_size, sources
from tile.ops.image.windows import Window, pair


@tile.jit
def targets(h, count, scale):
    """Return the first p whose source is less than a pixel from h, and one past the last."""
    below, above = (h - 1) * scale[2] - scale[1], (h + 1) * scale[2] - scale[1]
    start = tl.where(below < 0, 0, tl.maximum(below, 0) // scale[0] + 1)
    return start, tl.minimum(count, tl.cdiv(tl.maximum(above, 0), scale[0]))


@tile.jit
def share(zero, p, h, size, scale):
    """Return the weight of pixel h in p, in the type of `zero`."""
    first, second, by_second = sources(p, size, scale)
    weight = (zero + by_second) / scale[2]
    return tl.where(first == h, 1.0 - weight, 0.0) + tl.where(second == h, weight, 0.0)


@tile.jit
def resize_backward_kernel(
    dy_ptr,
    dx_ptr,
    dy_strides,
    dx_strides,
    sizes,
    pixels,
    channels,
    down,
    right,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    PIXELS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    height, width, out_height, out_width = sizes
    pixel = tl.program_id(0) * PIXELS + tl.arange(0, PIXELS)[:, None]
    channel = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)[None, :]
    n = (pixel // (height * width)).to(tl.int64)
    h, w = pixel // width % height, pixel % width
    exists = (pixel < pixels) & (channel < channels)
    p_start, p_end = targets(h, out_height, down)
    q_start, q_end = targets(w, out_width, right)
    zero = widen(tl.zeros((PIXELS, 1), dy_ptr.dtype.element_ty))
    total = widen(tl.zeros((PIXELS, BLOCK), dy_ptr.dtype.element_ty))
    for position in range(ROWS * COLUMNS):
        p, q = p_start + position // COLUMNS, q_start + position % COLUMNS
        inside = exists & (p < p_end) & (q < q_end)
        at = n * dy_strides[0] + p.to(tl.int64) * dy_strides[1] + q.to(tl.int64) * dy_strides[2]
        at += channel.to(tl.int64) * dy_strides[3]
        dy = widen(tl.load(dy_ptr + at, mask=inside, other=0.0))
        total += dy * (share(zero, p, h, height, down) * share(zero, q, w, width, right))
    at = n * dx_strides[0] + h * dx_strides[1] + w * dx_strides[2]
    tl.store(dx_ptr + at + channel.to(tl.int64) * dx_strides[3], total, mask=exists)


@planned()
def resize_bilinear_backward(
    dy: Any, size: Window, align_corners: bool = False, *, layout: str = "NHWC", out: Any = None
) -> Any:
    """Return the gradient of the image from `dy`, that of the result.

    size: the height and width of the image. The other arguments are those of `resize_bilinear`.
    """
    call = Call("resize_bilinear_backward")
    operand = call.array("dy", dy, rank=4)
    layout = layout_of(call, layout)
    gradient = image_of(operand, layout)
    batches, *counts, channels = gradient.shape
    height, width = result_size(call, size, (counts[0], counts[1]), operand.shape)
    shape = (batches, height, width, channels)
    result, target = result_image(call, out, shape, operand.dtype, layout)
    if result.size:
        down = Scale.of(height, counts[0], align_corners)
        right = Scale.of(width, counts[1], align_corners)
        pixels = batches * height * width
        rows, block = tile_of(target)
        launch(resize_backward_kernel, (tile.cdiv(pixels, rows), tile.cdiv(channels, block)))(
            *(dy, result.value, gradient.strides, target.strides, (height, width, *counts)),
            *(pixels, channels, down.numbers, right.numbers),
            ROWS=min(down.reach, counts[0]),
            COLUMNS=min(right.reach, counts[1]),
            PIXELS=rows,
            BLOCK=block,
        )
    return result.value


def resize_bilinear_backward_reference(
    dy: Array, size: Window, align_corners: bool, layout: str
) -> Array:
    """Return the gradient in float64."""
    dy = channels_last(dy, layout)
    sizes = pair(Call("resize_bilinear"), "size", size, 1)
    rows, columns = (
        Scale.of(n, count, align_corners).weights(n, count)
        for n, count in zip(sizes, dy.shape[1:3], strict=True)
    )
    return channels_in(np.einsum("ph,qw,npqc->nhwc", rows, columns, dy), layout)
