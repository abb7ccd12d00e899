"""All convolutions of images: which kernel computes one, and the parts of its sums.

Groups of one channel are no matmul (depthwise.py), and windows of one element are one of what is in
memory (pixel_matmul.py). Windows of few elements have a kernel of their own (thin_convolution.py).
TMA copies the pixels of others where it can (im2col_convolution.py), if need be of a copy of images
and filters (aligned_convolution.py); pointers take the rest (pointer_convolution.py). If there are
few tiles, programs share the inner axis of the matmul (splits.py).

Planes are stored by vectors of pixels; where these have no vectors, or are sums of parts, channels
are stored last and copied to planes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import tile
from tile.ops.core.call import F32, accumulator
from tile.ops.core.tables import Configuration
from tile.ops.image.aligned_convolution import aligned
from tile.ops.image.aligned_images import Copy, copy_images, new_image
from tile.ops.image.convolution_matmul import Convolution
from tile.ops.image.depthwise import depthwise
from tile.ops.image.im2col_configuration import im2col_configuration
from tile.ops.image.im2col_convolution import im2col_convolution
from tile.ops.image.im2col_windows import ahead
from tile.ops.image.pixel_matmul import pixel_matmul
from tile.ops.image.pointer_convolution import pointer_configuration, pointer_convolution
from tile.ops.image.thin_convolution import thin_convolution
from tile.ops.linear.splits import add_splits, splits_of

VECTOR = 4  # pixels: the least multiple that launches tell compilation of
# Elements of the inner axis that are worth a program of their own.
LEAST_INNER = 512


def convolve(conv: Convolution) -> None:
    """Write the result of a convolution."""
    if conv.filters.shape[3] == 1 and conv.groups > 1:
        moved = ahead(conv)
        depthwise(
            *(conv.call, conv.x, moved.filters, conv.bias, conv.out, moved.windows),
            *(conv.filter_step, conv.function),
        )
    elif not (pixel_matmul(conv) or thin_convolution(conv)):
        moved = aligned(ahead(conv))
        config = im2col_configuration(moved)
        if config is None:
            _by_tiles(conv, pointer_configuration(conv), pointer_convolution)
        else:
            _by_tiles(moved, config, im2col_convolution)


def _by_tiles(conv: Convolution, config: Configuration, form: Callable[..., None]) -> None:
    """Write the result tile by tile; form: the function that launches the kernel."""
    (pixels, count, inner), (batches, p, q, _) = conv.sizes, conv.out.shape
    tiles = tile.cdiv(pixels, config["BLOCK_M"]) * tile.cdiv(count, config["BLOCK_N"])
    columns, steps = count * conv.groups, tile.cdiv(inner, config["BLOCK_K"])
    # The pixels of an image must be rows one stride apart to add parts up.
    out, last = conv.out, conv.out
    rows = out.start == 0 and out.strides[1] == q * out.strides[2]
    # Fused multiply-adds need two programs on a multiprocessor.
    share = 2 if conv.dtype == F32 and conv.precision == "ieee" else 1
    splits = splits_of(
        *(conv.call, None if rows else 1, tile.cdiv(tiles * conv.groups, share), steps),
        tile.cdiv(LEAST_INNER, config["BLOCK_K"]),
    )
    if form is im2col_convolution and (splits > 1 or p * q % VECTOR) and not out.channels_last:
        last = new_image(conv.call, out.shape, conv.dtype)
        conv = replace(conv, out=last)
    grid = (tiles, conv.groups, splits)
    span = tile.cdiv(steps, splits) * config["BLOCK_K"]
    options = {"out_split": pixels * columns, "span": span, **config}
    if splits == 1:
        form(conv, grid, **options)
    else:
        parts = conv.call.new((splits, pixels, columns), accumulator(conv.dtype))
        form(conv.into(parts), grid, **options)
        strides = last.strides[0], last.strides[2], last.strides[3]
        add_splits(conv.call, parts, last.value, strides, batches, conv.bias, conv.function)
    if last is not out:
        copy_images(Copy(last, out))
