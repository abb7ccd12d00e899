"""The kernels of pooling: maxima and means of windows, and their gradients.

A program has some pixels of the result and a block of channels, and iterates over the window. In
the backward pass it has pixels of the image, and iterates over the windows that they are in, so
that no two programs add to one element. A maximum passes its gradient to the pixel whose index the
forward pass stores.

Windows are equal, or adaptive: as many as the result has pixels, of about equal size,

    window p: floor(p * size / count) <= h < ceil((p + 1) * size / count)
"""

from __future__ import annotations

import tile
import tile.language as tl
from tile.ops.core.device_functions import widen
from tile.ops.core.division import quotient
from tile.ops.image.pixels import offset_of, position_by, result_offset, tile_of_program


@tile.jit
def window_of(p, size, count, by_count, step, first, extent, ADAPTIVE: tl.constexpr):
    """Return the first pixel of window p, and one past its last; they may be in the padding."""
    if ADAPTIVE:
        start = quotient(p * size, by_count)
        end = quotient((p + 1) * size + count - 1, by_count)
    else:
        start = p * step + first
        end = start + extent
    return start, end


@tile.jit
def windows_around(h, size, by_size, count, step, by_step, first, extent, ADAPTIVE: tl.constexpr):
    """Return the first window that pixel h is in, and one past the last."""
    if ADAPTIVE:
        start, end = quotient(h * count, by_size), quotient((h + 1) * count + size - 1, by_size)
    else:
        # A window p has h - first - extent < p * step <= h - first.
        start = quotient(tl.maximum(h - first - extent + 1, 0) + step - 1, by_step)
        end = tl.minimum(quotient(h - first, by_step) + 1, count)
    return start, end


@tile.jit(do_not_specialize=("divisors",))
def pool_kernel(
    x_ptr,
    index_ptr,
    out_ptr,
    x_strides,
    index_strides,
    out_strides,
    sizes,
    divisors,
    extent,
    step,
    first,
    pixels,
    channels,
    R: tl.constexpr,
    S: tl.constexpr,
    MEAN: tl.constexpr,
    PADDED: tl.constexpr,
    ADAPTIVE: tl.constexpr,
    LINEAR: tl.constexpr,
    PIXELS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    height, width, out_height, out_width = sizes
    of_height = (height, out_height, divisors[2], step[0], first[0], extent[0], ADAPTIVE)
    of_width = (width, out_width, divisors[3], step[1], first[1], extent[1], ADAPTIVE)
    n, pixel, channel = tile_of_program(pixels, PIXELS, BLOCK)
    p, q = position_by(pixel, out_width, divisors[3])
    exists = (pixel < pixels) & (channel < channels)
    top, bottom = window_of(p, *of_height)
    left, right = window_of(q, *of_width)
    origin = x_ptr + n * x_strides[0] + channel.to(tl.int64) * x_strides[3]
    nothing = 0.0 if MEAN else -float("inf")
    total = widen(tl.full((PIXELS, BLOCK), nothing, x_ptr.dtype.element_ty))
    if index_ptr is not None:
        index = tl.maximum(top, 0) * width + tl.maximum(left, 0) + tl.zeros_like(channel)
    for position in range(R * S):
        h, w = top + position // S, left + position % S
        inside = exists & (h >= 0) & (h < height) & (w >= 0) & (w < width)
        if ADAPTIVE:
            inside = inside & (h < bottom) & (w < right)
        at = h.to(tl.int64) * x_strides[1] + w.to(tl.int64) * x_strides[2]
        x = widen(tl.load(origin + at, mask=inside, other=nothing))
        if MEAN:
            total += x
        else:
            if index_ptr is not None:
                index = tl.where((x > total) | (x != x), h * width + w, index)
            total = tl.maximum(total, x, propagate_nan=tl.PropagateNan.ALL)
    if MEAN:
        if PADDED:
            total = total / (R * S)
        else:
            rows = tl.minimum(bottom, height) - tl.maximum(top, 0)
            total = total / (rows * (tl.minimum(right, width) - tl.maximum(left, 0)))
    of_result = (n, pixel, out_width, divisors[3], channel)
    tl.store(out_ptr + result_offset(*of_result, out_strides, LINEAR), total, mask=exists)
    if index_ptr is not None:
        tl.store(index_ptr + result_offset(*of_result, index_strides, LINEAR), index, mask=exists)


@tile.jit(do_not_specialize=("divisors",))
def pool_backward_kernel(
    dy_ptr,
    index_ptr,
    dx_ptr,
    dy_strides,
    index_strides,
    dx_strides,
    sizes,
    divisors,
    extent,
    step,
    first,
    pixels,
    channels,
    R: tl.constexpr,
    S: tl.constexpr,
    MEAN: tl.constexpr,
    PADDED: tl.constexpr,
    ADAPTIVE: tl.constexpr,
    LINEAR: tl.constexpr,
    PIXELS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    height, width, out_height, out_width = sizes
    of_height = (height, out_height, divisors[2], step[0], first[0], extent[0], ADAPTIVE)
    of_width = (width, out_width, divisors[3], step[1], first[1], extent[1], ADAPTIVE)
    n, pixel, channel = tile_of_program(pixels, PIXELS, BLOCK)
    h, w = position_by(pixel, width, divisors[1])
    exists = (pixel < pixels) & (channel < channels)
    p_start, p_end = windows_around(
        *(h, height, divisors[0], out_height, step[0], divisors[4], first[0], extent[0], ADAPTIVE)
    )
    q_start, q_end = windows_around(
        *(w, width, divisors[1], out_width, step[1], divisors[5], first[1], extent[1], ADAPTIVE)
    )
    total = widen(tl.zeros((PIXELS, BLOCK), dy_ptr.dtype.element_ty))
    for position in range(R * S):
        p, q = p_start + position // S, q_start + position % S
        inside = exists & (p < p_end) & (q < q_end)
        at = offset_of(n, p.to(tl.int64), q, channel, dy_strides)
        dy = widen(tl.load(dy_ptr + at, mask=inside, other=0.0))
        if not MEAN:
            at = offset_of(n, p.to(tl.int64), q, channel, index_strides)
            index = tl.load(index_ptr + at, mask=inside, other=-1)
            total += tl.where(index == h * width + w, dy, 0.0)
        elif PADDED:
            total += dy / (extent[0] * extent[1])
        else:
            top, bottom = window_of(p, *of_height)
            left, right = window_of(q, *of_width)
            rows = tl.minimum(bottom, height) - tl.maximum(top, 0)
            columns = tl.minimum(right, width) - tl.maximum(left, 0)
            total += tl.where(inside, dy / (rows * columns), 0.0)
    at = result_offset(n, pixel, width, divisors[1], channel, dx_strides, LINEAR)
    tl.store(dx_ptr + at, total, mask=exists)
