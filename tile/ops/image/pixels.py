"""Pixels of images in kernels: their positions and addresses, the end of convolutions, a launch."""

from __future__ import annotations

from typing import Any

import tile
import tile.language as tl
from tile.ops.core.call_plans import launch
from tile.ops.core.division import quotient
from tile.ops.image.images import Image

ELEMENTS = 1024  # of a program's tile
MOST_CHANNELS = 64


@tile.jit
def pixel_position(pixel, height, width):
    """Return the image, row and column of pixels that are numbered through all images."""
    rows = pixel // width  # of all images; a remainder costs no second division
    image = rows // height
    return image.to(tl.int64), rows - image * height, pixel - rows * width


@tile.jit
def position_by(pixel, height, by_height, width, by_width):
    """Return the same, where `divisor` made the two numbers to divide by."""
    rows = quotient(pixel, by_width)
    image = quotient(rows, by_height)
    return image.to(tl.int64), rows - image * height, pixel - rows * width


@tile.jit
def tile_of_program(PIXELS: tl.constexpr, BLOCK: tl.constexpr):
    """Return the pixels of this program, a column, and its channels, a row; see `launch_pixels`."""
    pixel = tl.program_id(0) * PIXELS + tl.arange(0, PIXELS)[:, None]
    return pixel, tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)[None, :]


@tile.jit
def offset_of(n, h, w, channel, strides):
    """Return the distance of elements of an image from its first one."""
    return n * strides[0] + h * strides[1] + w * strides[2] + channel.to(tl.int64) * strides[3]


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
    LINEAR: tl.constexpr,
    ACTIVATION: tl.constexpr,
):
    """Store activation(total + bias) for pixels, a column, and filters, a row.

    size: height and width of the result. LINEAR: its pixels are one stride apart.
    """
    if bias_ptr is not None:
        total += tl.load(bias_ptr + column, mask=column < filters, other=0.0)
    if ACTIVATION is not None:
        total = ACTIVATION(total)
    if LINEAR:
        at = pixel.to(tl.int64) * out_strides[2]
    else:
        n, p, q = pixel_position(pixel, size[0], size[1])
        at = n * out_strides[0] + p * out_strides[1] + q * out_strides[2]
    at += column * out_strides[3]
    inside = (pixel < pixels) & (column < filters)
    tl.store(out_ptr + at, total.to(out_ptr.dtype.element_ty), mask=inside)


def tile_of(image: Image) -> tuple[int, int]:
    """Return the pixels and the channels of a program's tile."""
    contiguous = image.strides[3] == 1
    block = min(MOST_CHANNELS, tile.next_power_of_2(image.shape[3])) if contiguous else 1
    return ELEMENTS // block, block


def launch_pixels(kernel: Any, result: Image, *arguments: Any, **constants: Any) -> None:
    """Launch a kernel whose programs have pixels and channels of the result.

    The numbers of pixels and channels follow the arguments; PIXELS and BLOCK are those of a tile.
    """
    batches, height, width, channels = result.shape
    pixels, (rows, block) = batches * height * width, tile_of(result)
    launch(kernel, (tile.cdiv(pixels, rows), tile.cdiv(channels, block)))(
        *arguments, pixels, channels, PIXELS=rows, BLOCK=block, **constants
    )
