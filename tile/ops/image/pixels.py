"""The device functions that kernels of convolutions share: positions of pixels, and the end."""

from __future__ import annotations

import tile
import tile.language as tl
from tile.ops.core.division import quotient


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
