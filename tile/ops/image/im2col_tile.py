"""A tile of a convolution through an im2col descriptor: the loop over its sums, and its store.

An iteration takes some channels at one position (r, s) of the window: a block of pixels, moved by r
and s, and a block of the filters. These are rows of R x S x C elements: of filters, or, in the
gradient of an image, of its channels, which a filter has there.
"""

from __future__ import annotations

import tile
import tile.language as tl
from tile.ops.image.pixels import finished, store_pixels
from tile.ops.linear.matmul_tiles import column_parts, tile_at


@tile.jit
def im2col_tile(
    item,
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
):
    pixels = batches * out_height * out_width
    tile_row, tile_column = tile_at(item, pixels, filters, BLOCK_M, BLOCK_N, GROUP)
    x = tl.make_im2col_descriptor(
        x_ptr,
        [batches, height, width, channels],
        [x_strides[0], x_strides[1], x_strides[2], 1],
        [BLOCK_M, BLOCK_K],
        LOWER,
        UPPER,
        STEPS,
    )
    # Blocks have powers of two of filters, of which the last ones may be those of other tiles.
    COLUMNS: tl.constexpr = tile.next_power_of_2(BLOCK_N)
    row, down, right = filters_strides
    if DENSE:
        weights = tl.make_tensor_descriptor(
            filters_ptr, [filters, row], [row, 1], [COLUMNS, BLOCK_K]
        )
    else:
        weights = tl.make_tensor_descriptor(
            filters_ptr, [CHANNELS, row], [row, 1], [BLOCK_K, COLUMNS]
        )
    out_ptr += out_start
    start, end = 0, INNER
    if SPLIT:
        start = tl.program_id(1) * span
        end = min(INNER, start + span)
        out_ptr += tl.program_id(1).to(tl.int64) * out_split
    first_pixel, first_filter = tile_row * BLOCK_M, tile_column * BLOCK_N
    first_channel = 0 if PER_GROUP is None else first_filter // PER_GROUP * CHANNELS
    total = tl.zeros((BLOCK_M, COLUMNS), dtype=tl.float32)
    for k in range(start, end, BLOCK_K):
        r, s, channel = k // CHANNELS // S, k // CHANNELS % S, k % CHANNELS
        a = x.load([first_pixel, first_channel + channel], [r * APART[0], s * APART[1]])
        at = filters_start + r * down + s * right
        if DENSE:
            b = weights.load([first_filter, at + channel]).T
        else:
            b = weights.load([channel, at + first_filter])
        total = tl.dot(a, b, total, input_precision=PRECISION)
    pixel = first_pixel + tl.arange(0, BLOCK_M)[:, None]
    totals = column_parts(total, BLOCK_N)
    for i in tl.static_range(len(totals)):
        column = first_filter + tl.arange(0, totals[i].shape[1])[None, :]
        if STORED:
            out = tl.make_tensor_descriptor(
                out_ptr, [pixels, filters], [out_strides[2], 1], totals[i].shape
            )
            result = finished(totals[i], bias_ptr, column, filters, ACTIVATION)
            out.store([first_pixel, first_filter], result.to(out_ptr.dtype.element_ty))
        else:
            store_pixels(
                *(totals[i], bias_ptr, out_ptr, out_strides, (out_height, out_width, image_pixels)),
                *(pixel, column, pixels, filters, ORDER, ACTIVATION),
            )
        first_filter += totals[i].shape[1]
