"""Convolution by pointers: a matmul whose left operand is never stored, of any convolution.

A program computes the addresses of its pixels once; an iteration adds the offset of its r, s and c,
and masks pixels outside the image. If the channels fill whole iterations, r and s are scalars
there; otherwise, as for an image of 3 channels, they differ along the inner axis. A group of
channels is a program axis.
"""

from __future__ import annotations

from typing import Any

import tile
import tile.language as tl
from tile.ops.core.call_plans import launch
from tile.ops.core.tables import Configuration
from tile.ops.image.convolution_matmul import Convolution
from tile.ops.image.convolution_tables import table_of
from tile.ops.image.pixels import pixel_position, store_pixels
from tile.ops.linear.matmul_tiles import tile_position


@tile.jit
def conv2d_kernel(
    x_ptr,
    filters_ptr,
    bias_ptr,
    out_ptr,
    starts,
    group_steps,
    x_strides,
    filter_strides,
    out_strides,
    sizes,
    pixels,
    filters,
    first,
    step,
    apart,
    out_split,
    span,
    S: tl.constexpr,
    CHANNELS: tl.constexpr,
    INNER: tl.constexpr,
    DENSE: tl.constexpr,
    GROUPED: tl.constexpr,
    SPLIT: tl.constexpr,
    ORDER: tl.constexpr,
    ACTIVATION: tl.constexpr,
    PRECISION: tl.constexpr,
    SUMS: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    GROUP: tl.constexpr,
):
    tile_row, tile_column = tile_position(pixels, filters, BLOCK_M, BLOCK_N, GROUP)
    height, width, out_height, out_width, _ = sizes
    x_ptr, filters_ptr, out_ptr = x_ptr + starts[0], filters_ptr + starts[1], out_ptr + starts[2]
    if GROUPED:
        group = tl.program_id(1).to(tl.int64)
        x_ptr += group * group_steps[0]
        filters_ptr += group * group_steps[1]
        out_ptr += group * group_steps[2]
        if bias_ptr is not None:
            bias_ptr += group * filters
    pixel = tile_row * BLOCK_M + tl.arange(0, BLOCK_M)[:, None]
    column = tile_column * BLOCK_N + tl.arange(0, BLOCK_N)[None, :]
    inner = tl.arange(0, BLOCK_K)
    n, p, q = pixel_position(pixel, out_height, out_width)
    # The pixel under the first element of the window, which may be in the padding.
    top, left = p * step[0] + first[0], q * step[1] + first[1]
    origin = x_ptr + n * x_strides[0] + top.to(tl.int64) * x_strides[1]
    origin += left.to(tl.int64) * x_strides[2]
    weights = filters_ptr + column.to(tl.int64) * filter_strides[0]
    if DENSE:  # the inner axis is contiguous
        weights += inner[:, None]
    rows, columns = tl.cast(height, tl.uint32), tl.cast(width, tl.uint32)
    total = tl.zeros((BLOCK_M, BLOCK_N), dtype=SUMS)
    start, end = 0, INNER
    if SPLIT:
        start = tl.program_id(2) * span
        end = min(INNER, start + span)
        out_ptr += tl.program_id(2).to(tl.int64) * out_split
    for k in range(start, end, BLOCK_K):
        if CHANNELS % BLOCK_K == 0:  # a scalar position in the window
            position = k // CHANNELS
            channel = k % CHANNELS + inner
            r, s = position // S, position % S
        else:
            position = (k + inner) // CHANNELS
            channel = (k + inner) % CHANNELS
            r, s = (position // S)[None, :], (position % S)[None, :]
        down, right = r * apart[0], s * apart[1]
        # One address a pixel, and one 32-bit offset for each element along the inner axis.
        offset = down * x_strides[1] + right * x_strides[2] + channel[None, :] * x_strides[3]
        h, w = top + down, left + right
        # One comparison is for both edges: numbers below 0 are large ones without a sign.
        inside = (h.to(tl.uint32, bitcast=True) < rows) & (pixel < pixels)
        inside = inside & (w.to(tl.uint32, bitcast=True) < columns)
        if INNER % BLOCK_K != 0:
            inside = inside & (k + inner < INNER)[None, :]
        a = tl.load(origin + offset, mask=inside, other=0.0)
        if DENSE:
            weight = weights + k
        elif CHANNELS % BLOCK_K == 0:
            weight = weights + (r * filter_strides[1] + s * filter_strides[2])
            weight += channel[:, None] * filter_strides[3]
        else:
            at = position // S * filter_strides[1] + position % S * filter_strides[2]
            weight = weights + (at + channel * filter_strides[3])[:, None]
        b_inside = (k + inner < INNER)[:, None] & (column < filters)
        b = tl.load(weight, mask=b_inside, other=0.0)
        total = tl.dot(a, b, total, input_precision=PRECISION, out_dtype=SUMS)
    store_pixels(
        *(total, bias_ptr, out_ptr, out_strides, sizes[2:]),
        *(pixel, column, pixels, filters, ORDER, ACTIVATION),
    )


def pointer_configuration(conv: Convolution) -> Configuration:
    """Return the configuration of a convolution by pointers."""
    return table_of(conv.dtype, conv.precision).select(conv.call.backend, *conv.sizes)


def pointer_convolution(conv: Convolution, grid: tuple[int, int, int], **options: Any) -> None:
    """Write a convolution, or parts of its sums: `span` elements of the window each.

    grid: tiles, groups and parts. options: the configuration, out_split and span.
    """
    count, _, s, channels = conv.filters.shape
    group_steps = (channels * conv.x.strides[3], conv.filter_step, count * conv.out.strides[3])
    launch(conv2d_kernel, grid)(
        *(*conv.arrays, conv.starts, group_steps, *conv.addresses),
        DENSE=conv.filters.strides[1:] == (s * channels, channels, 1),
        GROUPED=conv.groups > 1,
        SPLIT=grid[2] > 1,
        SUMS=conv.sums,
        **conv.constants,
        **options,
    )
