"""Convolution by windows of one element, each pixel's own, as a matmul of what is in memory.

Rows are the pixels of all images, or of one where channels are planes. Neither is copied: wgmma
reads both orders of 16-bit operands.
"""

from __future__ import annotations

from tile.ops.image.convolution_matmul import Convolution
from tile.ops.image.images import Image
from tile.ops.image.pixels import order_of
from tile.ops.linear.alignment import is_aligned
from tile.ops.linear.strided import Strided
from tile.ops.linear.strided_matmul import strided_matmul

# Channels of images whose pixels are rows: with more, programs that load windows take 9.0 us for
# 32 x 28 x 28 x 512 and 128 filters, and a matmul 10.7 (H200, 2026-11-29).
MOST_CHANNELS = 384


def pixel_matmul(conv: Convolution) -> bool:
    """Write a convolution if it is a matmul of 16-bit operands that TMA loads; True then."""
    x, filters, out, windows = conv.x, conv.filters, conv.out, conv.windows
    pixel_by_pixel = windows.count == (1, 1) == windows.step and windows.first == (0, 0)
    if not pixel_by_pixel or conv.groups > 1 or x.start or filters.start or out.start:
        return False
    a, b, result = _matrices(x), _matrices(filters), _matrices(out)
    if conv.dtype.itemsize != 2 or a is None or b is None or result is None:
        return False
    batches, (_, count, channels) = x.shape[0], conv.sizes
    pixels = x.shape[1] * x.shape[2]
    if order_of(x) == order_of(out) == "images":
        if channels > MOST_CHANNELS:
            return False
        pixels, batches = batches * pixels, 1
    weights = Strided(filters.value, (0, filters.strides[3], filters.strides[0]))
    if not (is_aligned(a.strides) and is_aligned(weights.strides)):
        return False
    strided_matmul(
        *(conv.call, a, weights, result, (batches, pixels, count, channels), conv.dtype),
        bias=conv.bias,
        function=conv.function,
        precision=conv.precision,
    )
    return True


def _matrices(image: Image) -> Strided | None:
    """Return the pixels of each image as rows, if one stride leads through them."""
    batch, _, right, channel = image.strides
    return None if order_of(image) == "none" else Strided(image.value, (batch, right, channel))
