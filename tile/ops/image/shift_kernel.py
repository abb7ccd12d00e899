"""The kernel of shift convolution (shift_conv.py): a program for a tile of pixels and filters.

The numbers of channels and filters are constants: the loop of few channels is unrolled. A tile of
96 pixels is two of 64 and 32, which are multiplied with the same filters.
"""

from __future__ import annotations

import tile
import tile.language as tl
from tile.ops.core.division import quotient


@tile.jit
def shifted_pixels(
    x_ptr,
    pixel,
    down,
    right,
    channel,
    height,
    width,
    divisors,
    pixels,
    CHANNELS: tl.constexpr,
    WIDE: tl.constexpr,
    CACHE: tl.constexpr,
):
    """Load channels of pixels, each from where it is shifted to."""
    source = min(pixel, pixels - 1)[:, None]
    line = quotient(source, divisors[1])  # of all images
    h, w = line - quotient(line, divisors[0]) * height, source - line * width
    rows, columns = tl.cast(height, tl.uint32), tl.cast(width, tl.uint32)
    # One comparison is for both edges: numbers below 0 are large ones without a sign.
    inside = (h + down).to(tl.uint32, bitcast=True) < rows
    inside = inside & ((w + right).to(tl.uint32, bitcast=True) < columns)
    # The address of the pixel, and the offset of the channel and its shift.
    at = (down * width + right) * CHANNELS + channel
    if WIDE:  # pointers, which take more registers than offsets
        x_tile = x_ptr + source.to(tl.int64) * CHANNELS + at
    else:
        x_tile = x_ptr + (source * CHANNELS + at)
    return tl.load(x_tile, mask=inside & (channel < CHANNELS), other=0.0, cache_modifier=CACHE)


@tile.jit
def multiply(total, a, b, SWAPPED: tl.constexpr, PRECISION: tl.constexpr, SUMS: tl.constexpr):
    """Add the dot of pixels and filters to a sum; SWAPPED: the filters are its rows."""
    if SWAPPED:
        return tl.dot(b, a.T, total, input_precision=PRECISION, out_dtype=SUMS)
    return tl.dot(a, b.T, total, input_precision=PRECISION, out_dtype=SUMS)


@tile.jit
def store_pixels(
    total,
    out_ptr,
    first_pixel,
    first_filter,
    pixels,
    FILTERS: tl.constexpr,
    SWAPPED: tl.constexpr,
    STORED: tl.constexpr,
):
    """Store the result of pixels and filters; STORED: by TMA."""
    if SWAPPED:
        total = total.T
    total = total.to(out_ptr.dtype.element_ty)
    if STORED:
        target = tl.make_tensor_descriptor(out_ptr, [pixels, FILTERS], [FILTERS, 1], total.shape)
        target.store([first_pixel, first_filter], total)
    else:
        pixel = (first_pixel + tl.arange(0, total.shape[0]))[:, None]
        column = (first_filter + tl.arange(0, total.shape[1]))[None, :]
        at = pixel.to(tl.int64) * FILTERS + column
        tl.store(out_ptr + at, total, mask=(pixel < pixels) & (column < FILTERS))


@tile.jit(do_not_specialize=("divisors",))
def shift_conv_kernel(
    x_ptr,
    filters_ptr,
    shift_h_ptr,
    shift_w_ptr,
    out_ptr,
    height,
    width,
    divisors,
    pixels,
    FILTERS: tl.constexpr,
    CHANNELS: tl.constexpr,
    RUN: tl.constexpr,
    DESCRIBED: tl.constexpr,
    WIDE: tl.constexpr,
    PRECISION: tl.constexpr,
    SUMS: tl.constexpr,
    SWAPPED: tl.constexpr,
    STORED: tl.constexpr,
    CACHE: tl.constexpr,
    SPREAD: tl.constexpr,
    EARLY: tl.constexpr,
    BLOCK_M: tl.constexpr,
    REST: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
):
    """Compute a tile of BLOCK_M + REST pixels."""
    # Programs with the same pixels are neighbors.
    tile_row = quotient(tl.program_id(0), divisors[2])
    tile_column = tl.program_id(0) - tile_row * tl.cdiv(FILTERS, BLOCK_N)
    first_pixel, first_filter = tile_row * (BLOCK_M + REST), tile_column * BLOCK_N
    # Few programs fetch from memory for all, while the launch before ends: others would wait.
    if tl.program_id(0) == 0:
        tl.extra.cuda.prefetch(shift_h_ptr, CHANNELS)
        tl.extra.cuda.prefetch(shift_w_ptr, CHANNELS)
    if EARLY:
        if tile_column == 0:
            count = min(pixels - first_pixel, BLOCK_M + REST)
            tl.extra.cuda.prefetch(x_ptr + first_pixel.to(tl.int64) * CHANNELS, count * CHANNELS)
        if tile_row == 0:
            count = min(FILTERS - first_filter, BLOCK_N)
            tl.extra.cuda.prefetch(filters_ptr + first_filter * CHANNELS, count * CHANNELS)
    # Pixels and columns past the end read others again: their results are not stored.
    pixel = first_pixel + tl.arange(0, BLOCK_M)
    column = min(first_filter + tl.arange(0, BLOCK_N), FILTERS - 1)
    if DESCRIBED:
        described = tl.make_tensor_descriptor(
            filters_ptr, [FILTERS, CHANNELS], [CHANNELS, 1], [BLOCK_N, BLOCK_K]
        )
    else:
        weights = filters_ptr + column[:, None].to(tl.int64) * CHANNELS
    inner = tl.arange(0, BLOCK_K)
    # A thread loads one shift for a run of channels, and then the run at once.
    head = inner // RUN * RUN
    heads_h, heads_w = shift_h_ptr + head, shift_w_ptr + head
    total = tl.zeros((BLOCK_N, BLOCK_M) if SWAPPED else (BLOCK_M, BLOCK_N), dtype=SUMS)
    if REST:
        rest_pixel = first_pixel + BLOCK_M + tl.arange(0, REST)
        rest = tl.zeros((BLOCK_N, REST) if SWAPPED else (REST, BLOCK_N), dtype=SUMS)
    for start in range(0, CHANNELS, BLOCK_K):
        channel = (start + inner)[None, :]
        exists = channel < CHANNELS
        down = tl.load(heads_h[None, :] + start, mask=exists, other=0)
        right = tl.load(heads_w[None, :] + start, mask=exists, other=0)
        image = down, right, channel, height, width, divisors, pixels, CHANNELS, WIDE, CACHE
        a = shifted_pixels(x_ptr, pixel, *image)
        if DESCRIBED:
            b = described.load([first_filter, start])
        else:
            shared = CACHE if FILTERS <= BLOCK_N else ""  # by all programs of a multiprocessor
            b = tl.load(weights + channel, mask=exists, other=0.0, cache_modifier=shared)
        total = multiply(total, a, b, SWAPPED, PRECISION, SUMS)
        if REST:
            a = shifted_pixels(x_ptr, rest_pixel, *image)
            rest = multiply(rest, a, b, SWAPPED, PRECISION, SUMS)
    if SPREAD:  # programs of the next launch find this one's multiprocessors equally full
        tl.extra.cuda.gdc_launch_dependents()
    last = first_filter, pixels, FILTERS, SWAPPED, STORED
    store_pixels(total, out_ptr, first_pixel, *last)
    if REST:
        store_pixels(rest, out_ptr, first_pixel + BLOCK_M, *last)
