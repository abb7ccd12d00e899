"""The kernels of pooling: maxima and means of windows, and their gradients.

A program has some pixels of the result and a block of channels, and iterates over the window. In
the backward pass it has pixels of the image, and iterates over the windows that they are in, so
that no two programs add to one element. A maximum passes its gradient to the pixel whose index the
forward pass stores.

Windows are equal, or adaptive: as many as the result has pixels, of about equal size,

    window p: floor(p * size / count) <= h < ceil((p + 1) * size / count)
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import tile
import tile.language as tl
from tile.ops.core.call import I32, Call, Operand
from tile.ops.core.device_functions import widen
from tile.ops.core.division import divisor, quotient
from tile.ops.image.images import Image, image_of, result_image
from tile.ops.image.pixels import launch_pixels, offset_of, position_by, tile_of_program
from tile.ops.image.windows import Pair, Windows


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
    PIXELS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    height, width, out_height, out_width = sizes
    of_height = (height, out_height, divisors[2], step[0], first[0], extent[0], ADAPTIVE)
    of_width = (width, out_width, divisors[3], step[1], first[1], extent[1], ADAPTIVE)
    pixel, channel = tile_of_program(PIXELS, BLOCK)
    n, p, q = position_by(pixel, out_height, divisors[2], out_width, divisors[3])
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
    tl.store(out_ptr + offset_of(n, p, q, channel, out_strides), total, mask=exists)
    if index_ptr is not None:
        tl.store(index_ptr + offset_of(n, p, q, channel, index_strides), index, mask=exists)


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
    PIXELS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    height, width, out_height, out_width = sizes
    of_height = (height, out_height, divisors[2], step[0], first[0], extent[0], ADAPTIVE)
    of_width = (width, out_width, divisors[3], step[1], first[1], extent[1], ADAPTIVE)
    pixel, channel = tile_of_program(PIXELS, BLOCK)
    n, h, w = position_by(pixel, height, divisors[0], width, divisors[1])
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
    tl.store(dx_ptr + offset_of(n, h, w, channel, dx_strides), total, mask=exists)


@dataclass(frozen=True)
class Pooling:
    """Windows to pool over: a maximum or a mean, and None for adaptive windows.

    padded: pixels in the padding count in means.
    """

    mean: bool
    windows: Windows | None
    padded: bool = True

    def pool(self, x: Image, out: Image, index: Image | None) -> None:
        """Write the maxima or means of `x`, and the indices of maxima unless `index` is None."""
        reach = _reach(x, out) if self.windows is None else self.windows.count
        self._launch(pool_kernel, (x, index, out), reach, (x, out))

    def gradient(self, dy: Image, index: Image | None, dx: Image) -> None:
        """Write the gradient `dx` of an image."""
        reach = _reach(dy, dx)
        if self.windows is not None:
            count, step = self.windows.count, self.windows.step
            reach = tile.cdiv(count[0], step[0]), tile.cdiv(count[1], step[1])
        self._launch(pool_backward_kernel, (dy, index, dx), reach, (dx, dy))

    def _launch(
        self,
        kernel: Any,
        arrays: tuple[Image, Image | None, Image],
        reach: Pair,
        image_and_pooled: tuple[Image, Image],
    ) -> None:
        image, pooled = image_and_pooled
        source, index, result = arrays
        windows = self.windows or Windows((1, 1), (0, 0), (1, 1), (1, 1))
        sizes = (*image.shape[1:3], *pooled.shape[1:3])
        launch_pixels(
            *(kernel, result),
            *(source.value, None if index is None else index.value, result.value),
            *(source.strides, (index or result).strides, result.strides),
            *(sizes, tuple(map(divisor, (*sizes, *windows.step)))),
            *(windows.count, windows.step, windows.first),
            R=reach[0],
            S=reach[1],
            MEAN=self.mean,
            PADDED=self.padded and self.windows is not None,
            ADAPTIVE=self.windows is None,
        )


def pool(
    call: Call, pooling: Pooling, x: Operand, counts: Pair, layout: str, out: Any, indices: bool
) -> Any:
    """Return the maxima or means of windows, `counts` of them, and the indices if wanted."""
    image = image_of(x, layout)
    shape = (image.shape[0], *counts, image.shape[3])
    result, target = result_image(call, out, shape, x.dtype, layout)
    index = call.new(result.shape, I32) if indices else None
    if result.size:
        pooling.pool(image, target, None if index is None else image_of(index, layout))
    return result.value if index is None else (result.value, index.value)


def pool_gradient(
    call: Call, pooling: Pooling, dy: Operand, index: Any, size: Pair, layout: str, out: Any
) -> Any:
    """Return the gradient of an image of this size from that of the maxima or means.

    index: the indices of maxima.
    """
    indices = None
    if not pooling.mean:
        operand = call.array("index", index, dtypes=(I32,), rank=4, shape=dy.shape)
        indices = image_of(operand.within(0, size[0] * size[1]), layout)
    image = image_of(dy, layout)
    shape = (image.shape[0], *size, image.shape[3])
    result, target = result_image(call, out, shape, dy.dtype, layout)
    if result.size:
        pooling.gradient(image, indices, target)
    return result.value


def _reach(image: Image, pooled: Image) -> Pair:
    """Return how many pixels of `image` an adaptive window has at most, for height and width."""
    height, width = (_longest(image.shape[axis], pooled.shape[axis]) for axis in (1, 2))
    return height, width


def _longest(size: int, count: int) -> int:
    """Return the extent of the longest of `count` adaptive windows over `size` pixels.

    The remainders of p * size by count are the multiples of the greatest common divisor.
    """
    common = math.gcd(size, count)
    return (count - common + size + count - 1) // count
