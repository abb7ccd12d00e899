"""The kernel of shift convolution (shift_conv.py): a program for a tile of pixels and filters."""

from __future__ import annotations

import tile
import tile.language as tl
from tile.ops.core.division import quotient


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
    filters,
    channels,
    RUN: tl.constexpr,
    EVEN: tl.constexpr,
    DESCRIBED: tl.constexpr,
    WIDE: tl.constexpr,
    PRECISION: tl.constexpr,
    SUMS: tl.constexpr,
    SWAPPED: tl.constexpr,
    STORED: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
):
    # Programs with the same pixels are neighbors.
    tile_row = quotient(tl.program_id(0), divisors[2])
    tile_column = tl.program_id(0) - tile_row * tl.cdiv(filters, BLOCK_N)
    pixel = tile_row * BLOCK_M + tl.arange(0, BLOCK_M)
    column = tile_column * BLOCK_N + tl.arange(0, BLOCK_N)
    # Pixels and columns past the end read others again: their results are not stored.
    source = min(pixel, pixels - 1)[:, None]
    line = quotient(source, divisors[1])  # of all images
    h, w = line - quotient(line, divisors[0]) * height, source - line * width
    if WIDE:  # pointers, which take more registers than offsets
        base = x_ptr + source.to(tl.int64) * channels
    rows, columns = tl.cast(height, tl.uint32), tl.cast(width, tl.uint32)
    if DESCRIBED:
        described = tl.make_tensor_descriptor(
            filters_ptr, [filters, channels], [channels, 1], [BLOCK_N, BLOCK_K]
        )
    else:
        weights = filters_ptr + min(column, filters - 1)[:, None].to(tl.int64) * channels
    inner = tl.arange(0, BLOCK_K)
    # A thread loads one shift for a run of channels, and then the run at once.
    head = inner // RUN * RUN
    heads_h, heads_w = shift_h_ptr + head, shift_w_ptr + head
    total = tl.zeros((BLOCK_N, BLOCK_M) if SWAPPED else (BLOCK_M, BLOCK_N), dtype=SUMS)
    for start in range(0, channels, BLOCK_K):
        channel = start + inner
        exists = EVEN | (channel < channels)
        down = tl.load(heads_h + start, mask=exists, other=0)
        right = tl.load(heads_w + start, mask=exists, other=0)
        down, right = down[None, :], right[None, :]
        # One comparison is for both edges: numbers below 0 are large ones without a sign.
        inside = (h + down).to(tl.uint32, bitcast=True) < rows
        inside = inside & ((w + right).to(tl.uint32, bitcast=True) < columns)
        # The address of the pixel, and the offset of the channel and its shift.
        at = (down * width + right) * channels + channel[None, :]
        a_tile = base + at if WIDE else x_ptr + (source * channels + at)
        a = tl.load(a_tile, mask=inside & exists[None, :], other=0.0)
        if DESCRIBED:
            b = described.load([tile_column * BLOCK_N, start])
        else:
            b = tl.load(weights + channel[None, :], mask=exists[None, :], other=0.0)
        operands = (b, a.T) if SWAPPED else (a, b.T)
        total = tl.dot(*operands, total, input_precision=PRECISION, out_dtype=SUMS)
    if SWAPPED:
        total = total.T
    total = total.to(out_ptr.dtype.element_ty)
    if STORED:
        target = tl.make_tensor_descriptor(
            out_ptr, [pixels, filters], [filters, 1], [BLOCK_M, BLOCK_N]
        )
        target.store([tile_row * BLOCK_M, tile_column * BLOCK_N], total)
        return
    pixel, column = pixel[:, None], column[None, :]
    at = pixel.to(tl.int64) * filters + column
    inside = (pixel < pixels) & (column < filters)
    tl.store(out_ptr + at, total, mask=inside)
