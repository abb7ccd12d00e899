"""Convolution through an im2col descriptor, whose pixels TMA copies: a form of convolution.py.

An iteration takes some channels at one position (r, s) of the window: a block of pixels, moved by r
and s, and a block of the filters. These are rows of R x S x C elements: of filters, or, in the
gradient of an image, of its channels, which a filter has there. TMA computes the addresses and puts
zeros where a pixel is in the padding, so that no thread does arithmetic on indices.
im2col_windows.py has the windows that a descriptor can hold.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import tile
import tile.language as tl
from tile.ops.core.call import F32
from tile.ops.core.call_plans import launch
from tile.ops.core.tables import ANY, Configuration, Table
from tile.ops.image.convolution_matmul import Convolution
from tile.ops.image.im2col_windows import fits_descriptor, upper_corner
from tile.ops.image.pixels import store_pixels
from tile.ops.linear.configurations import PORTABLE, tiles
from tile.ops.linear.matmul_tiles import tile_position

# By pixels, filters and the inner axis: H200, tasks 1 to 5 and 7 of docs/results/paper.md,
# 2026-11-26, and 64 images of 56 x 56 x 64; by tf32, the entry for 64 filters is not measured.
HALF = Table(
    PORTABLE,
    {
        "nvptx": {
            (ANY, 32, ANY): tiles(256, 32, 32, stages=4),
            (256, ANY, ANY): tiles(64, 64, 128, stages=4),
            (1024, ANY, ANY): tiles(64, 128, 64, stages=5),
            (4096, ANY, ANY): tiles(128, 128, 64, stages=4),
            (ANY, 64, ANY): tiles(128, 64, 64, warps=8),
            (ANY, 128, ANY): tiles(128, 128, 64, stages=4),
            (ANY, ANY, ANY): tiles(128, 128, 64),
        }
    },
)
ROUNDED = Table(
    PORTABLE,
    {
        "nvptx": {
            (ANY, 32, ANY): tiles(256, 32, 32),
            (256, ANY, ANY): tiles(64, 128, 32, stages=4),
            (1024, ANY, ANY): tiles(128, 128, 32, stages=4),
            (ANY, 64, ANY): tiles(128, 64, 32, stages=4),
            (4096, ANY, ANY): tiles(128, 128, 32, warps=8, stages=4),
            (ANY, 128, ANY): tiles(128, 128, 32, warps=8, stages=4),
            (ANY, ANY, ANY): tiles(128, 256, 32, warps=8),
        }
    },
)


@tile.jit
def im2col_conv2d_kernel(
    x_ptr,
    filters_ptr,
    bias_ptr,
    out_ptr,
    batches,
    height,
    width,
    out_height,
    out_width,
    filters,
    x_strides,
    filters_start,
    out_start,
    filters_strides,
    out_strides,
    out_split,
    span,
    LOWER: tl.constexpr,
    UPPER: tl.constexpr,
    STEPS: tl.constexpr,
    APART: tl.constexpr,
    DENSE: tl.constexpr,
    S: tl.constexpr,
    CHANNELS: tl.constexpr,
    INNER: tl.constexpr,
    SPLIT: tl.constexpr,
    LINEAR: tl.constexpr,
    ACTIVATION: tl.constexpr,
    PRECISION: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    GROUP: tl.constexpr,
):
    pixels = batches * out_height * out_width
    tile_row, tile_column = tile_position(pixels, filters, BLOCK_M, BLOCK_N, GROUP)
    x = tl.make_im2col_descriptor(
        x_ptr,
        [batches, height, width, CHANNELS],
        [x_strides[0], x_strides[1], x_strides[2], 1],
        [BLOCK_M, BLOCK_K],
        LOWER,
        UPPER,
        STEPS,
    )
    row, down, right = filters_strides
    if DENSE:
        weights = tl.make_tensor_descriptor(
            filters_ptr, [filters, row], [row, 1], [BLOCK_N, BLOCK_K]
        )
    else:
        weights = tl.make_tensor_descriptor(
            filters_ptr, [CHANNELS, row], [row, 1], [BLOCK_K, BLOCK_N]
        )
    out_ptr += out_start
    start, end = 0, INNER
    if SPLIT:
        start = tl.program_id(1) * span
        end = min(INNER, start + span)
        out_ptr += tl.program_id(1).to(tl.int64) * out_split
    first_pixel, first_filter = tile_row * BLOCK_M, tile_column * BLOCK_N
    total = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k in range(start, end, BLOCK_K):
        r, s, channel = k // CHANNELS // S, k // CHANNELS % S, k % CHANNELS
        a = x.load([first_pixel, channel], [r * APART[0], s * APART[1]])
        at = filters_start + r * down + s * right
        if DENSE:
            b = weights.load([first_filter, at + channel]).T
        else:
            b = weights.load([channel, at + first_filter])
        total = tl.dot(a, b, total, input_precision=PRECISION)
    pixel = first_pixel + tl.arange(0, BLOCK_M)[:, None]
    column = first_filter + tl.arange(0, BLOCK_N)[None, :]
    store_pixels(
        *(total, bias_ptr, out_ptr, out_strides, (out_height, out_width)),
        *(pixel, column, pixels, filters, LINEAR, ACTIVATION),
    )


def im2col_configuration(conv: Convolution, phases: int = 1) -> Configuration | None:
    """Return a configuration for pixels and filters that TMA copies; None if it cannot.

    The windows go to the right and below (`ahead`). phases: convolutions as this in one launch.
    """
    image, filters = conv.x, conv.filters
    values = image.value, filters.value
    operands = [op for op in conv.call.operands if any(op.value is value for value in values)]
    half, rounded = operands[0].dtype.itemsize == 2, conv.precision == "tf32"
    table = HALF if half else ROUNDED if operands[0].dtype == F32 and rounded else None
    _, r, s, channels = filters.shape
    contiguous = filters.strides[3] == 1 or (filters.strides[0] == 1 and half)
    if table is None or image.strides[3] != 1 or not contiguous or image.start or not r * s:
        return None
    pixels, *others = conv.sizes
    config = table.select(conv.call.backend, phases * pixels, *others)
    fits = (
        channels % config["BLOCK_K"] == 0
        and fits_descriptor(replace(conv.windows, count=(r, s)), image, conv.out)
        and conv.call.describes(*operands)
    )
    return config if fits else None


def im2col_convolution(conv: Convolution, grid: tuple[int, int, int], **options: Any) -> None:
    """Write a convolution of one group, or parts of its sums; see `pointer_convolution`."""
    k, down, right, c = conv.filters.strides
    dense = c == 1
    batches, p, q, _ = conv.out.shape
    extents = (batches, *conv.x.shape[1:3], p, q, conv.filters.shape[0])
    launch(im2col_conv2d_kernel, (grid[0], grid[2]))(
        *(*conv.arrays, *extents, conv.x.strides, *conv.starts[1:]),
        *((k if dense else c, down, right), conv.out.strides),
        LOWER=conv.windows.first,
        UPPER=upper_corner(conv.windows, conv.x, conv.out),
        STEPS=(1, *conv.windows.step, 1),
        APART=conv.windows.apart,
        DENSE=dense,
        SPLIT=grid[2] > 1,
        **conv.constants,
        **options,
    )
