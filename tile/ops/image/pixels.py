"""Pixels of images in kernels: their positions and addresses, the end of convolutions, a launch."""

from __future__ import annotations

from typing import Any

import tile
import tile.language as tl
from tile.ops.core.call_plans import launch
from tile.ops.core.division import quotient
from tile.ops.image.images import Image

ELEMENTS = 1024  # of a program's tile
MOST_CHANNELS = 64  # of a tile, where they are contiguous
MOST_PIXELS = 256  # otherwise


@tile.jit
def pixel_position(pixel, height, width):
    """Return the image, row and column of pixels that are numbered through all images."""
    rows = pixel // width  # of all images; a remainder costs no second division
    image = rows // height
    return image.to(tl.int64), rows - image * height, pixel - rows * width


@tile.jit
def position_by(pixel, width, by_width):
    """Return the row and column of pixels of one image; `by_width` is `divisor(width)`."""
    row = quotient(pixel, by_width)
    return row, pixel - row * width


@tile.jit
def tile_of_program(pixels, PIXELS: tl.constexpr, BLOCK: tl.constexpr):
    """Return the image of this program, its pixels, a column, and its channels, a row.

    `launch_pixels` launches the programs, and passes the number of pixels of an image.
    """
    blocks = tl.cdiv(pixels, PIXELS)
    n = tl.program_id(0) // blocks
    pixel = (tl.program_id(0) - n * blocks) * PIXELS + tl.arange(0, PIXELS)[:, None]
    return n.to(tl.int64), pixel, tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)[None, :]


@tile.jit
def offset_of(n, h, w, channel, strides):
    """Return the distance of elements of an image from its first one."""
    return n * strides[0] + h * strides[1] + w * strides[2] + channel.to(tl.int64) * strides[3]


@tile.jit
def result_offset(n, pixel, width, by_width, channel, strides, LINEAR: tl.constexpr):
    """Return the distance of the program's elements from the first one of the result.

    LINEAR: the pixels of an image are one stride apart, so that those of a tile are contiguous, or
    their channels are.
    """
    if LINEAR:
        at = n * strides[0] + channel.to(tl.int64) * strides[3] + pixel.to(tl.int64) * strides[2]
    else:
        h, w = position_by(pixel, width, by_width)
        at = offset_of(n, h.to(tl.int64), w.to(tl.int64), channel, strides)
    return at


@tile.jit
def finished(total, bias_ptr, column, filters, ACTIVATION: tl.constexpr):
    """Return activation(total + bias) for filters, a row."""
    if bias_ptr is not None:
        total += tl.load(bias_ptr + column, mask=column < filters, other=0.0)
    if ACTIVATION is not None:
        total = ACTIVATION(total)
    return total


@tile.jit
def store_pixels(
    total,
    bias_ptr,
    out_ptr,
    out_strides,
    size,
    pixel,
    column,
    pixels,
    filters,
    ORDER: tl.constexpr,
    ACTIVATION: tl.constexpr,
):
    """Store activation(total + bias) for pixels, a column, and filters, a row.

    size: height, width and pixels of an image of the result. ORDER: that of pixels (`order_of`).
    """
    total = finished(total, bias_ptr, column, filters, ACTIVATION)
    if ORDER == "images":
        at = pixel.to(tl.int64) * out_strides[2]
    elif ORDER == "image":
        image = size[2]
        at = (pixel // image).to(tl.int64) * (out_strides[0] - image * out_strides[2])
        at += pixel.to(tl.int64) * out_strides[2]
    else:
        n, p, q = pixel_position(pixel, size[0], size[1])
        at = n * out_strides[0] + p * out_strides[1] + q * out_strides[2]
    at += column * out_strides[3]
    inside = (pixel < pixels) & (column < filters)
    tl.store(out_ptr + at, total.to(out_ptr.dtype.element_ty), mask=inside)


def order_of(image: Image) -> str:
    """Return "images" if all pixels are one stride apart, "image" if those of an image are."""
    _, height, width, _ = image.shape
    batch, down, right, _ = image.strides
    if down != width * right:
        return "none"
    return "images" if batch == height * down else "image"


def many_elements(image: Image) -> int:
    """Return the elements of a tile where positions of pixels take most of the time.

    A thread computes them once for several channels; those that are contiguous are several anyway.
    """
    return ELEMENTS if image.strides[3] == 1 else 4 * ELEMENTS


def tile_of(image: Image, elements: int) -> tuple[int, int]:
    """Return the pixels and the channels of a program's tile."""
    _, height, width, count = image.shape
    most = elements
    if image.strides[3] == 1:
        most //= min(MOST_CHANNELS, tile.next_power_of_2(count))
    else:
        most = min(most, MOST_PIXELS)
    pixels = min(most, tile.next_power_of_2(height * width))
    return pixels, min(elements // pixels, tile.next_power_of_2(count))


def launch_pixels(
    kernel: Any, result: Image, *arguments: Any, elements: int = ELEMENTS, **constants: Any
) -> None:
    """Launch a kernel whose programs have pixels of an image of the result, and channels.

    The numbers of an image's pixels and channels follow the arguments; PIXELS and BLOCK are those
    of a tile, which has `elements` of them at most. LINEAR is as for `result_offset`.
    """
    batches, height, width, channels = result.shape
    pixels, (rows, block) = height * width, tile_of(result, elements)
    linear = height == 1 or result.strides[1] == width * result.strides[2]
    launch(kernel, (batches * tile.cdiv(pixels, rows), tile.cdiv(channels, block)))(
        *arguments, pixels, channels, LINEAR=linear, PIXELS=rows, BLOCK=block, **constants
    )
