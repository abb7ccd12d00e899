"""Bilinear interpolation of images to another size, forward and backward.

    out[p, q] = sum over h, w of x[h, w] * near(h - source(p)) * near(w - source(q))
    near(d) = max(0, 1 - |d|)        source(p) = (p + 1/2) height / P - 1/2, at least 0, or
                                     p (height - 1) / (P - 1) if corners are aligned

Sources are fractions of integers, so that pixels and weights are exact in every type. In the
backward pass a program has pixels of the image, and iterates over the pixels of the result whose
sources are near: it gathers, in a fixed order.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

import tile
import tile.language as tl
from tile.errors import ArgumentValueError
from tile.ops.core.autograd import differentiable
from tile.ops.core.call import Call
from tile.ops.core.call_plans import launch, planned
from tile.ops.core.device_functions import widen
from tile.ops.core.reference import Array, wide
from tile.ops.image.conv_arguments import channels_in, channels_last
from tile.ops.image.depthwise import tile_of
from tile.ops.image.images import image_of, layout_of, result_image, spatial
from tile.ops.image.windows import Pair, Window, pair


@tile.jit
def sources(p, size, scale):
    """Return both pixels between which the source of p is, and the weight of the second times c.

    scale: a, b and c, of which the source is (p * a + b) / c.
    """
    above = tl.maximum(p * scale[0] + scale[1], 0)
    first = above // scale[2]
    return first, tl.minimum(first + 1, size - 1), above % scale[2]


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


@dataclass(frozen=True)
class Scale:
    """The source of pixel p along an axis, (p * a + b) / c."""

    a: int
    b: int
    c: int

    @classmethod
    def of(cls, size: int, count: int, aligned: bool) -> Scale:
        if size == 1:
            return cls(1, 0, count + 1)  # all sources are between pixel 0 and itself
        if aligned:
            return cls(size - 1, 0, max(1, count - 1))
        return cls(2 * size, size - count, 2 * count)

    @property
    def numbers(self) -> tuple[int, int, int]:
        return self.a, self.b, self.c

    @property
    def reach(self) -> int:
        """The most pixels whose sources are less than a pixel from one pixel."""
        return tile.cdiv(2 * self.c, self.a) + 1

    def weights(self, size: int, count: int) -> Array:
        """Return the matrix of weights, count x size, for references."""
        above = np.maximum(np.arange(count) * self.a + self.b, 0)
        first, weight = above // self.c, above % self.c / self.c
        matrix = np.zeros((count, size))
        np.add.at(matrix, (np.arange(count), first), 1 - weight)
        np.add.at(matrix, (np.arange(count), np.minimum(first + 1, size - 1)), weight)
        return matrix


def _gradients(step: Any) -> dict[str, Any]:
    options = step.options("align_corners", "layout")
    size = spatial(step.arguments["x"].shape, options.get("layout", "NHWC"))
    return {"x": resize_bilinear_backward(step.grads[0], size, **options)}


@differentiable(_gradients)
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
    counts = _size(call, size, (height, width), operand.shape)
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
    height, width = _size(call, size, (counts[0], counts[1]), operand.shape)
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


def _size(call: Call, size: Any, image: Pair, shape: tuple[int, ...]) -> Pair:
    if not image[0] * image[1]:
        name = call.operands[0].name
        raise ArgumentValueError(f"{call.op}: `{name}` has shape {shape}; it has no pixels")
    return pair(call, "size", size, 1)


def resize_bilinear_reference(
    x: Array, size: Window, align_corners: bool = False, layout: str = "NHWC"
) -> Array:
    """Return the image in float64, by matrices of weights."""
    x = channels_last(wide(x)[0], layout)
    counts = pair(Call("resize_bilinear"), "size", size, 1)
    rows, columns = (
        Scale.of(n, count, align_corners).weights(n, count)
        for n, count in zip(x.shape[1:3], counts, strict=True)
    )
    return channels_in(np.einsum("ph,qw,nhwc->npqc", rows, columns, x), layout)


def resize_bilinear_backward_reference(
    dy: Array, size: Window, align_corners: bool = False, layout: str = "NHWC"
) -> Array:
    """Return the gradient in float64."""
    dy = channels_last(wide(dy)[0], layout)
    sizes = pair(Call("resize_bilinear"), "size", size, 1)
    rows, columns = (
        Scale.of(n, count, align_corners).weights(n, count)
        for n, count in zip(sizes, dy.shape[1:3], strict=True)
    )
    return channels_in(np.einsum("ph,qw,npqc->nhwc", rows, columns, dy), layout)
