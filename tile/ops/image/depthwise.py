"""Convolution of each channel with filters of its own: sums over the window, without a matmul.

    out[n, p, q, k] = sum over r, s of x[n, p * step + first + r * apart, ..., k / m]
                      * filters[k, r, s]

m is the number of filters of a channel. The limit is memory, and the instructions that load and
convert elements: a program has groups of adjacent pixels of the result and a block of channels, so
that a thread loads an element of `x` once for all pixels of a group; the compiler merges the loads
of one address. Lanes lie along the axis of `x` that is contiguous: channels, or pixels where the
channels are planes. The groups are of several rows of one image, which share rows of `x` in the
first level of the cache. Windows that move by a pixel go by rows (depthwise_rows.py).
"""

from __future__ import annotations

from typing import Any

import tile
import tile.language as tl
from tile.ops.core.call import Call
from tile.ops.core.call_plans import launch
from tile.ops.core.device_functions import widen
from tile.ops.image.depthwise_rows import depthwise_rows
from tile.ops.image.depthwise_strips import fit
from tile.ops.image.depthwise_tiles import PixelTile
from tile.ops.image.depthwise_window import add_row, filter_row
from tile.ops.image.images import Image
from tile.ops.image.windows import Windows


@tile.jit
def depthwise_kernel(
    x_ptr,
    filters_ptr,
    bias_ptr,
    out_ptr,
    starts,
    x_strides,
    filter_strides,
    group_step,
    out_strides,
    sizes,
    filters,
    multiple,
    first,
    step,
    apart,
    R,
    UNROLLED: tl.constexpr,
    S: tl.constexpr,
    FLIPPED: tl.constexpr,
    STEP: tl.constexpr,
    APART: tl.constexpr,
    ADJACENT: tl.constexpr,
    ACTIVATION: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    BLOCK: tl.constexpr,
    PLANES: tl.constexpr,
    BLOCKS_FIRST: tl.constexpr,
):
    height, width, out_height, out_width = sizes
    GROUPS: tl.constexpr = ROWS * COLUMNS
    down, across = tl.cdiv(out_height, ROWS), tl.cdiv(out_width, ADJACENT * COLUMNS)
    number, block = tl.program_id(0), tl.program_id(1)
    if BLOCKS_FIRST:
        blocks = tl.cdiv(filters, BLOCK)
        number, block = number // blocks, number % blocks
    tile_row, tile_column = number // across, number % across
    n = (tile_row // down).to(tl.int64)
    # Warps have rows of their own, or lanes have pixels of a row.
    group = tl.arange(0, GROUPS)[:, None]
    row, place = (group // COLUMNS, group % COLUMNS) if PLANES else (group % ROWS, group // ROWS)
    p = tile_row % down * ROWS + row
    q = (tile_column * COLUMNS + place) * ADJACENT
    x_ptr, filters_ptr, out_ptr = x_ptr + starts[0], filters_ptr + starts[1], out_ptr + starts[2]
    column = block * BLOCK + tl.arange(0, BLOCK)[None, :]
    exists = (p < out_height) & (column < filters)
    top, left = p * step[0] + first[0], q * STEP + first[1]
    channel = column // multiple
    origin = x_ptr + n * x_strides[0] + channel.to(tl.int64) * x_strides[3]
    origin += top.to(tl.int64) * x_strides[1] + left.to(tl.int64) * x_strides[2]
    weights = filters_ptr + channel * group_step + column % multiple * filter_strides[0]
    totals: Any = ()
    for _ in tl.static_range(ADJACENT):
        totals += (widen(tl.zeros((GROUPS, BLOCK), x_ptr.dtype.element_ty)),)
    image = origin, x_strides, top, left, exists, height, width, apart[0]
    options = S, FLIPPED, STEP, APART, ADJACENT
    inside = column < filters
    if UNROLLED is not None:
        for r in tl.static_range(UNROLLED):
            row = filter_row(weights + r * filter_strides[1], filter_strides[2], inside, S)
            totals = add_row(totals, row, r, *image, *options)
    else:
        # The filters of a row of the window are loaded an iteration early.
        following = filter_row(weights, filter_strides[2], inside & (R > 0), S)
        for r in range(R):
            row = following
            weights += filter_strides[1]
            following = filter_row(weights, filter_strides[2], inside & (r + 1 < R), S)
            totals = add_row(totals, row, r, *image, *options)
    at = n * out_strides[0] + p * out_strides[1] + column.to(tl.int64) * out_strides[3]
    for j in tl.static_range(ADJACENT):
        total = totals[j]
        if bias_ptr is not None:
            total += tl.load(bias_ptr + column, mask=column < filters, other=0.0)
        if ACTIVATION is not None:
            total = ACTIVATION(total)
        out = out_ptr + at + (q + j) * out_strides[2]
        tl.store(out, total, mask=exists & (q + j < out_width))


def depthwise(
    call: Call,
    x: Image,
    filters: Image,
    bias: Any,
    out: Image,
    windows: Windows,
    filter_step: int,
    activation: Any,
) -> None:
    """Write the convolution of each channel of `x` to `out`; see `convolve` for the arguments."""
    batches, p, q, count = out.shape
    pixels = PixelTile.of(x, windows, p, q)
    # Pixels that no window has, as some of an image's gradient, have no elements.
    window = windows.count[0] if windows.count[1] else 0, max(1, windows.count[1])
    # Gradients flip filters. Their rows are loaded upwards, by a step that may be a constant.
    flipped = filters.strides[2] < 0
    if flipped:
        filters = filters.phase((0, window[1] - 1), (1, -1), filters.shape[1:3])
    if fit(x, out, windows):
        depthwise_rows(call, x, filters, bias, out, windows, filter_step, flipped, activation)
        return
    tiles, blocks = batches * pixels.count(p, q), tile.cdiv(count, pixels.block)
    # Narrow blocks of the same pixels run one after the other, and share lines of the cache. A grid
    # with tiles along its second axis takes .3 to .9 us longer (H200, 2026-11-30).
    blocks_first = blocks > 1 and pixels.unrolled
    launch(depthwise_kernel, (tiles * blocks, 1) if blocks_first else (tiles, blocks))(
        *(x.value, filters.value, bias, out.value, (x.start, filters.start, out.start)),
        *(x.strides, filters.strides, filter_step, out.strides, (*x.shape[1:3], p, q)),
        *(count, filters.shape[0], windows.first, windows.step, windows.apart),
        R=window[0],
        UNROLLED=window[0] if pixels.unrolled else None,
        S=window[1],
        FLIPPED=flipped,
        STEP=windows.step[1],
        APART=windows.apart[1],
        ADJACENT=pixels.adjacent,
        ACTIVATION=activation,
        ROWS=pixels.rows,
        COLUMNS=pixels.columns,
        BLOCK=pixels.block,
        PLANES=pixels.planes,
        BLOCKS_FIRST=blocks_first,
        **pixels.options(call.backend),
    )
