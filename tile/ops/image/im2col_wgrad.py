"""The gradient of filters with pixels that TMA copies: a form of conv2d_wgrad.py.

    dfilters[k, r, s, c] = sum over pixels of dy[pixel, k] * x[pixel moved by r and s, c]

A program has some channels at one position (r, s) of the window, and an iteration some pixels: rows
of dy, and the pixels of x under that element of their windows, which an im2col descriptor
(im2col_convolution.py) finds and pads. Pixels are the inner axis of the matmul, so that both
operands are contiguous along the outer ones, which wgmma reads in types of 16 bits.
"""

from __future__ import annotations

import math

import tile
import tile.language as tl
from tile.ops.core.call import Call
from tile.ops.core.tables import ANY, Configuration, Table
from tile.ops.image.im2col_windows import fits_descriptor
from tile.ops.image.images import Image
from tile.ops.image.windows import Windows
from tile.ops.linear.configurations import PORTABLE, tiles
from tile.ops.linear.matmul_tiles import tile_position

# By filters, channels and pixels; RESIDENT: programs that a multiprocessor runs at a time. H200,
# float16, 3 x 3 of 64 to 256 channels and 12544 to 200704 pixels, 2026-11-26.
TABLE = Table(
    {sizes: {**config, "RESIDENT": 1} for sizes, config in PORTABLE.items()},
    {
        "nvptx": {
            (64, ANY, ANY): {**tiles(64, 64, 64, stages=4), "RESIDENT": 3},
            (ANY, 64, ANY): {**tiles(128, 64, 64, stages=4), "RESIDENT": 2},
            (128, ANY, ANY): {**tiles(128, 128, 128, warps=8), "RESIDENT": 1},
            (ANY, 128, ANY): {**tiles(128, 128, 128, warps=8), "RESIDENT": 1},
            (ANY, ANY, ANY): {**tiles(128, 256, 64, warps=8), "RESIDENT": 1},
        }
    },
)
LEAST_COLUMNS = 32  # of a tile
MERGED = 64  # filters of a tile of several groups
# Pixels from which on TMA copies them, by backend: fewer are not measured.
LEAST_PIXELS = {"nvptx": 8192}


@tile.jit
def im2col_wgrad_kernel(
    dy_ptr,
    x_ptr,
    parts_ptr,
    dy_pixel,
    x_strides,
    sizes,
    filters,
    span,
    LOWER: tl.constexpr,
    UPPER: tl.constexpr,
    STEPS: tl.constexpr,
    APART: tl.constexpr,
    S: tl.constexpr,
    WINDOW: tl.constexpr,
    CHANNELS: tl.constexpr,
    GROUPS: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    GROUP: tl.constexpr,
):
    """Store sums over some pixels.

    GROUPS: the filters and channels of a group, if there are several. A program has all channels of
    the groups of its filters then, and stores for each filter those of its own.
    """
    COLUMNS: tl.constexpr = WINDOW * (CHANNELS if GROUPS is None else BLOCK_N)
    batches, height, width, pixels = sizes
    tile_row, tile_column = tile_position(filters, COLUMNS, BLOCK_M, BLOCK_N, GROUP)
    split = tl.program_id(1)
    first_filter, first_column = tile_row * BLOCK_M, tile_column * BLOCK_N
    if GROUPS is None:
        position, channel = first_column // CHANNELS, first_column % CHANNELS
    else:
        position, channel = tile_column, tile_row * BLOCK_N
    dy = tl.make_tensor_descriptor(dy_ptr, [pixels, filters], [dy_pixel, 1], [BLOCK_K, BLOCK_M])
    x = tl.make_im2col_descriptor(
        x_ptr,
        [batches, height, width, CHANNELS],
        [x_strides[0], x_strides[1], x_strides[2], 1],
        [BLOCK_K, BLOCK_N],
        LOWER,
        UPPER,
        STEPS,
    )
    down, right = position // S * APART[0], position % S * APART[1]
    total = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    # Both descriptors put zeros where there are no more pixels.
    for k in range(split * span, min(pixels, (split + 1) * span), BLOCK_K):
        a = dy.load([k, first_filter]).T
        total = tl.dot(a, x.load([k, channel], [down, right]), total)
    row = first_filter + tl.arange(0, BLOCK_M)[:, None]
    column = first_column + tl.arange(0, BLOCK_N)[None, :]
    inside = row < filters
    if GROUPS is None:
        at = (split.to(tl.int64) * filters + row) * COLUMNS + column
    else:
        column = channel + tl.arange(0, BLOCK_N)[None, :]
        inside = inside & (row // GROUPS[0] == column // GROUPS[1])
        at = (split.to(tl.int64) * filters + row) * (WINDOW * GROUPS[1])
        at += position * GROUPS[1] + column % GROUPS[1]
    tl.store(parts_ptr + at, total.to(parts_ptr.dtype.element_ty), mask=inside)


def im2col_wgrad_configuration(
    call: Call, dy: Image, x: Image, windows: Windows, groups: int = 1
) -> Configuration | None:
    """Return a configuration for pixels that TMA copies; None if it cannot."""
    operands = dy.operand, x.operand
    count, channels = dy.shape[3], x.shape[3]
    batches, p, q, _ = dy.shape
    rows = dy.strides[:2] == (p * q * dy.strides[2], q * dy.strides[2])
    if operands[0].dtype.itemsize != 2 or not rows or dy.strides[3] != 1 or x.strides[3] != 1:
        return None
    pixels = batches * p * q
    config = TABLE.select(call.backend, count, channels, pixels)
    if channels % config["BLOCK_N"]:
        config = {**config, "BLOCK_N": max(LEAST_COLUMNS, math.gcd(channels, config["BLOCK_N"]))}
    if groups > 1:
        columns = MERGED * channels // count
        if count % MERGED or MERGED % (count // groups) or columns not in (16, 32, 64, 128):
            return None
        config = {**config, **tiles(MERGED, columns, 64, stages=4), "RESIDENT": 3, "GROUP": 1}
    fits = (
        pixels >= LEAST_PIXELS.get(call.backend, pixels + 1)
        and channels % config["BLOCK_N"] == 0
        and fits_descriptor(windows, x, dy)
        and call.describes(*operands)
    )
    return config if fits else None
