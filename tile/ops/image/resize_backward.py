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
from tile.ops.core.call_plans import planned
from tile.ops.core.device_functions import widen
from tile.ops.core.division import quotient
from tile.ops.core.reference import Array
from tile.ops.image.conv_arguments import channels_in, channels_last
from tile.ops.image.memory_format import keeps_channels_last
from tile.ops.image.pixels import offset_of, position_by, result_offset, tile_of_program
from tile.ops.image.resize_sources import resize, sources, tile_of_plane, weights_of
from tile.ops.image.windows import Window


@tile.jit
def targets(h, count, scale, by_a):
    """Return the first p whose source is less than a pixel from h, and one past the last."""
    below, above = (h - 1) * scale[2] - scale[1], (h + 1) * scale[2] - scale[1]
    start = tl.where(below < 0, 0, quotient(tl.maximum(below, 0), by_a) + 1)
    return start, tl.minimum(count, quotient(tl.maximum(above, 0) + scale[0] - 1, by_a))


@tile.jit
def share(zero, p, h, size, scale, by_c):
    """Return the weight of pixel h in p, in the type of `zero`."""
    first, second, by_second = sources(p, size, scale, by_c)
    weight = (zero + by_second) / scale[2]
    return tl.where(first == h, 1.0 - weight, 0.0) + tl.where(second == h, weight, 0.0)


@tile.jit(do_not_specialize=("by_width", "divisors"))
def resize_backward_kernel(
    dy_ptr,
    dx_ptr,
    dy_strides,
    dx_strides,
    sizes,
    by_width,
    down,
    right,
    divisors,
    pixels,
    channels,
    LINEAR: tl.constexpr,
    REACH_ROWS: tl.constexpr,
    REACH_COLUMNS: tl.constexpr,
    PIXELS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    height, width, out_height, out_width = sizes
    n, pixel, channel = tile_of_program(pixels, PIXELS, BLOCK)
    h, w = position_by(pixel, width, by_width)
    exists = (pixel < pixels) & (channel < channels)
    p_start, p_end = targets(h, out_height, down, divisors[0])
    q_start, q_end = targets(w, out_width, right, divisors[2])
    zero = widen(tl.zeros((PIXELS, 1), dy_ptr.dtype.element_ty))
    total = widen(tl.zeros((PIXELS, BLOCK), dy_ptr.dtype.element_ty))
    for position in range(REACH_ROWS * REACH_COLUMNS):
        p, q = p_start + position // REACH_COLUMNS, q_start + position % REACH_COLUMNS
        inside = exists & (p < p_end) & (q < q_end)
        at = offset_of(n, p.to(tl.int64), q.to(tl.int64), channel, dy_strides)
        dy = widen(tl.load(dy_ptr + at, mask=inside, other=0.0))
        total += dy * (
            share(zero, p, h, height, down, divisors[1])
            * share(zero, q, w, width, right, divisors[3])
        )
    at = result_offset(n, pixel, width, by_width, channel, dx_strides, LINEAR)
    tl.store(dx_ptr + at, total, mask=exists)


@tile.jit(do_not_specialize=("divisors",))
def resize_planes_backward_kernel(
    dy_ptr,
    dx_ptr,
    dy_strides,
    dx_strides,
    sizes,
    down,
    right,
    divisors,
    channels,
    REACH_ROWS: tl.constexpr,
    REACH_COLUMNS: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    """Store the gradient of a tile of rows and columns of one channel."""
    height, width, out_height, out_width = sizes
    plane, h, w = tile_of_plane(height, width, ROWS, COLUMNS)
    p_start, p_end = targets(h, out_height, down, divisors[0])
    q_start, q_end = targets(w, out_width, right, divisors[2])
    exists = (h < height) & (w < width)
    zero = widen(tl.zeros((1, 1), dy_ptr.dtype.element_ty))
    total = widen(tl.zeros((ROWS, COLUMNS), dy_ptr.dtype.element_ty))
    dy_ptr += plane // channels * dy_strides[0] + plane % channels * dy_strides[3]
    for i in range(REACH_ROWS):
        p = p_start + i
        by_row = share(zero, p, h, height, down, divisors[1])
        row = dy_ptr + p.to(tl.int64) * dy_strides[1]
        for j in range(REACH_COLUMNS):
            q = q_start + j
            inside = exists & (p < p_end) & (q < q_end)
            dy = tl.load(row + q.to(tl.int64) * dy_strides[2], mask=inside, other=0.0)
            total += widen(dy) * (by_row * share(zero, q, w, width, right, divisors[3]))
    dx_ptr += plane // channels * dx_strides[0] + plane % channels * dx_strides[3]
    at = h.to(tl.int64) * dx_strides[1] + w.to(tl.int64) * dx_strides[2]
    tl.store(dx_ptr + at, total, mask=exists)


@keeps_channels_last("dy")
@planned()
def resize_bilinear_backward(
    dy: Any, size: Window, align_corners: bool = False, *, layout: str = "NHWC", out: Any = None
) -> Any:
    """Return the gradient of the image from `dy`, that of the result.

    size: the height and width of the image. The other arguments are those of `resize_bilinear`.
    """
    call = Call("resize_bilinear_backward")
    kernels = resize_backward_kernel, resize_planes_backward_kernel
    return resize(call, kernels, ("dy", dy), size, align_corners, layout, out, True)


def resize_bilinear_backward_reference(
    dy: Array, size: Window, align_corners: bool, layout: str
) -> Array:
    """Return the gradient in float64."""
    dy = channels_last(dy, layout)
    rows, columns = weights_of(size, dy.shape[1:3], align_corners)
    return channels_in(np.einsum("ph,qw,npqc->nhwc", rows, columns, dy), layout)
