"""The matmul of all convolutions of images, whose left operand is never stored.

    out[n, p, q, k] = sum over r, s, c of x[n, p * step + first + r * apart, ..., c]
                      * filters[k, r, s, c]

Rows of the matmul are the pixels (n, p, q) of the result, columns are filters, and the inner axis
is (r, s, c). A program computes the addresses of its pixels once; an iteration adds the offset of
its r, s and c, and masks pixels outside the image. If the channels fill whole iterations, r and s
are scalars there; otherwise, as for an image of 3 channels, they differ along the inner axis.

Everything is addressed by strides, and `apart` may be negative: the gradient of an image is a
convolution of this form, too (conv2d_dgrad.py). A group of channels is a program axis. Groups of
one channel each have a kernel without a matmul (depthwise.py).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import tile
import tile.language as tl
from tile.ops.core.activations import ACTIVATIONS
from tile.ops.core.call import F32, F64, Call, accumulator
from tile.ops.core.call_plans import launch
from tile.ops.core.new_arrays import DType
from tile.ops.core.tables import ANY, Table
from tile.ops.image.depthwise import depthwise
from tile.ops.image.im2col_convolution import (
    im2col_configuration,
    im2col_conv2d_kernel,
    reversed_windows,
    upper_corner,
)
from tile.ops.image.images import Image
from tile.ops.image.pixels import pixel_position, store_pixels
from tile.ops.image.thin_convolution import thin_convolution
from tile.ops.image.windows import Windows
from tile.ops.linear.configurations import PORTABLE, tiles
from tile.ops.linear.matmul_tiles import tile_position
from tile.ops.linear.splits import add_splits, splits_of

# By pixels, filters and the inner axis. Few pixels take small tiles, so that there are as many
# programs as multiprocessors, and a short inner axis takes a short iteration. H200, float16, 3 x 3
# of 64 to 512 channels, forward and backward, 2026-11-23; the first three are not measured.
TABLE = Table(
    PORTABLE,
    {
        "nvptx": {
            (ANY, ANY, 32): tiles(128, 64, 32),
            (ANY, 32, ANY): tiles(128, 32, 64),
            (1024, ANY, ANY): tiles(64, 64, 64, stages=4),
            (ANY, 64, ANY): tiles(128, 64, 64),
            (4096, ANY, ANY): tiles(128, 128, 64, warps=8),
            (8192, ANY, ANY): tiles(64, 128, 64),
            (ANY, 255, ANY): tiles(64, 128, 64),
            (ANY, ANY, ANY): tiles(128, 256, 64, warps=8),
        }
    },
)
# The same for float32 by fused multiply-adds: H200, tasks 2 to 5 of docs/results/paper.md,
# 2026-11-26; the entries for other sizes are not measured.
WIDE = Table(
    PORTABLE,
    {
        "nvptx": {
            (ANY, ANY, 32): tiles(128, 64, 32),
            (ANY, 32, ANY): tiles(128, 32, 64),
            (256, ANY, ANY): tiles(64, 64, 32, stages=2),
            (1024, ANY, ANY): tiles(128, 128, 32, warps=8, stages=2),
            (4096, ANY, ANY): tiles(64, 64, 32, stages=2),
            (ANY, 64, ANY): tiles(128, 64, 64),
            (ANY, 128, ANY): tiles(128, 128, 64, warps=8),
            (ANY, ANY, ANY): tiles(128, 64, 16, warps=8),
        }
    },
)
# By tf32, not measured.
ROUNDED = Table(
    PORTABLE,
    {
        "nvptx": {
            (ANY, ANY, 32): tiles(128, 64, 32),
            (ANY, 32, ANY): tiles(128, 32, 64),
            (1024, ANY, ANY): tiles(64, 64, 64, stages=4),
            (ANY, 64, ANY): tiles(128, 64, 64),
            (ANY, ANY, ANY): tiles(128, 128, 64, warps=8),
        }
    },
)
WIDEST = Table(PORTABLE, {"nvptx": {(ANY, ANY, ANY): tiles(64, 64, 32)}})
# Elements of the inner axis that are worth a program of their own.
LEAST_INNER = 512


def table_of(dtype: DType, precision: str) -> Table:
    """Return the table of configurations for a type of elements."""
    if dtype == F32:
        return WIDE if precision == "ieee" else ROUNDED
    return WIDEST if dtype == F64 else TABLE


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
    LINEAR: tl.constexpr,
    ACTIVATION: tl.constexpr,
    PRECISION: tl.constexpr,
    SUMS: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    GROUP: tl.constexpr,
):
    tile_row, tile_column = tile_position(pixels, filters, BLOCK_M, BLOCK_N, GROUP)
    height, width, out_height, out_width = sizes
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
        *(total, bias_ptr, out_ptr, out_strides, (out_height, out_width)),
        *(pixel, column, pixels, filters, LINEAR, ACTIVATION),
    )


@dataclass(frozen=True)
class Groups:
    """Groups of channels: so many, and the distance of their filters, in elements."""

    count: int
    filter_step: int


def convolve(
    call: Call,
    x: Image,
    filters: Image,
    bias: Any,
    out: Image,
    windows: Windows,
    groups: Groups,
    dtype: DType,
    activation: str | None = None,
    precision: str = "ieee",
) -> None:
    """Write the convolution of `x` with `filters`, those of one group, to `out`.

    The shape of `filters` is filters of a group x R x S x channels of a group.
    """
    batches, p, q, _ = out.shape
    count, r, s, channels = filters.shape
    function = None if activation is None else ACTIVATIONS[activation].function
    if channels == 1 and groups.count > 1:
        depthwise(x, filters, bias, out, windows, groups.filter_step, function)
        return
    pixels, inner = batches * p * q, r * s * channels
    config = None
    if groups.count == 1:
        arguments = (x, filters, bias, out, windows, dtype, function, precision)
        if thin_convolution(call, *arguments):
            return
        ahead, ordered = reversed_windows(windows, filters)
        config = im2col_configuration(call, x, ordered, out, ahead, precision)
    by_im2col = config is not None
    if config is None:
        config = table_of(dtype, precision).select(call.backend, pixels, count, inner)
    tiles_ = tile.cdiv(pixels, config["BLOCK_M"]) * tile.cdiv(count, config["BLOCK_N"])
    sums, result = accumulator(dtype), out
    columns = count * groups.count
    steps = tile.cdiv(inner, config["BLOCK_K"])
    # The pixels of an image must be rows one stride apart to add parts up.
    rows = out.start == 0 and out.strides[1] == q * out.strides[2]
    least = tile.cdiv(LEAST_INNER, config["BLOCK_K"])
    # Fused multiply-adds need two programs on a multiprocessor.
    share = 2 if dtype == F32 and precision == "ieee" else 1
    programs = tile.cdiv(tiles_ * groups.count, share)
    splits = splits_of(call, None if rows else 1, programs, steps, least)
    parts = call.new((splits, pixels, columns), sums) if splits > 1 else None
    if parts is not None:
        out = Image(parts.value, out.shape, (p * q * columns, q * columns, columns, 1))
    common: dict[str, Any] = {
        "S": max(1, s),
        "CHANNELS": max(1, channels),
        "INNER": inner,
        "SPLIT": splits > 1,
        "LINEAR": out.strides[:2] == (p * q * out.strides[2], q * out.strides[2]),
        "ACTIVATION": function if parts is None else None,
        "PRECISION": precision,
        **config,
    }
    span = tile.cdiv(steps, splits) * config["BLOCK_K"]
    if by_im2col:
        dense, (k, down, right, c) = ordered.strides[3] == 1, ordered.strides
        launch(im2col_conv2d_kernel, (tiles_, splits))(
            *(x.value, filters.value, bias if parts is None else None, out.value, batches),
            *(*x.shape[1:3], p, q, count, x.strides, ordered.start, out.start),
            *((k if dense else c, down, right), out.strides, pixels * columns, span),
            LOWER=ahead.first,
            UPPER=upper_corner(ahead, x, out),
            STEPS=(1, *windows.step, 1),
            APART=ahead.apart,
            DENSE=dense,
            **common,
        )
    else:
        group_steps = (channels * x.strides[3], groups.filter_step, count * out.strides[3])
        launch(conv2d_kernel, (tiles_, groups.count, splits))(
            *(x.value, filters.value, bias if parts is None else None, out.value),
            *((x.start, filters.start, out.start), group_steps),
            *(x.strides, filters.strides, out.strides, (*x.shape[1:3], p, q), pixels, count),
            *(windows.first, windows.step, windows.apart, pixels * columns, span),
            DENSE=filters.strides[1:] == (s * channels, channels, 1),
            GROUPED=groups.count > 1,
            SUMS=getattr(tl, sums.name),
            **common,
        )
    if parts is not None:
        strides = result.strides[0], result.strides[2], result.strides[3]
        add_splits(call, parts, result.value, strides, batches, bias, function)
