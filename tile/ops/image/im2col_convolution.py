"""Convolution through an im2col descriptor, whose pixels TMA copies: a form of convolution.py.

TMA computes the addresses and puts zeros where a pixel is in the padding, so that no thread does
arithmetic on indices (im2col_tile.py). im2col_windows.py has the windows that a descriptor can
hold.
"""

from __future__ import annotations

from typing import Any

import tile
import tile.language as tl
from tile.ops.core.batched_grid import persistent_programs
from tile.ops.core.call_plans import launch
from tile.ops.image.convolution_matmul import Convolution
from tile.ops.image.im2col_configuration import stores_rows
from tile.ops.image.im2col_tile import im2col_tile
from tile.ops.image.im2col_windows import upper_corner


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
    channels,
    filters,
    image_pixels,
    x_strides,
    filters_start,
    out_start,
    filters_strides,
    out_strides,
    out_split,
    span,
    tiles,
    LOWER: tl.constexpr,
    UPPER: tl.constexpr,
    STEPS: tl.constexpr,
    APART: tl.constexpr,
    DENSE: tl.constexpr,
    S: tl.constexpr,
    CHANNELS: tl.constexpr,
    INNER: tl.constexpr,
    PER_GROUP: tl.constexpr,
    SPLIT: tl.constexpr,
    ORDER: tl.constexpr,
    ACTIVATION: tl.constexpr,
    PRECISION: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    GROUP: tl.constexpr,
    STORED: tl.constexpr,
    PERSISTENT: tl.constexpr,
):
    """Compute a tile, or each of those of a persistent program."""
    arguments = (
        *(x_ptr, filters_ptr, bias_ptr, out_ptr, batches, height, width, out_height, out_width),
        *(channels, filters, image_pixels, x_strides, filters_start, out_start),
        *(filters_strides, out_strides, out_split, span, LOWER, UPPER, STEPS, APART, DENSE, S),
        *(CHANNELS, INNER, PER_GROUP, SPLIT, ORDER, ACTIVATION, PRECISION, BLOCK_M, BLOCK_N),
        *(BLOCK_K, GROUP, STORED),
    )
    if PERSISTENT:
        for item in range(tl.program_id(0), tiles, tl.num_programs(0)):
            im2col_tile(item, *arguments)
    else:
        im2col_tile(tl.program_id(0), *arguments)


def im2col_convolution(conv: Convolution, grid: tuple[int, int, int], **options: Any) -> None:
    """Write a convolution of one group, or parts of its sums; see `pointer_convolution`."""
    k, down, right, c = conv.filters.strides
    dense = c == 1
    batches, p, q, _ = conv.out.shape
    count = conv.filters.shape[0]
    extents = (batches, *conv.x.shape[1:3], p, q, conv.x.shape[3], count * conv.groups, p * q)
    tiles, programs = grid[0] * grid[1], options.pop("PERSISTENT", 0)
    launch(im2col_conv2d_kernel, (persistent_programs(tiles, programs or tiles), grid[2]))(
        *(*conv.arrays, *extents, conv.x.strides, *conv.starts[1:]),
        *((k if dense else c, down, right), conv.out.strides),
        tiles=tiles,
        PERSISTENT=programs > 0,
        STORED=programs > 0 and grid[2] == 1 and stores_rows(conv),
        LOWER=conv.windows.first,
        UPPER=upper_corner(conv.windows, conv.x, conv.out),
        STEPS=(1, *conv.windows.step, 1),
        APART=conv.windows.apart,
        DENSE=dense,
        PER_GROUP=count if conv.groups > 1 else None,
        SPLIT=grid[2] > 1,
        **conv.constants,
        **options,
    )
