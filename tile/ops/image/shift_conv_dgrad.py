"""The gradient of the image of a shift convolution: a matmul, whose channels are then shifted back.

    g[n, h, w, c] = sum over k of dy[n, h, w, k] * filters[k, c]
    dx[n, h, w, c] = g[n, h - shift_h[c], w - shift_w[c], c]        0 where that is outside

The shift depends on the column of the matmul's result, so no operand can be loaded shifted. Stores
at shifted addresses from registers take an address for each element, which spills; a second kernel
that moves memory does not.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import tile
import tile.language as tl
from tile.ops.core.call import Call, accumulator
from tile.ops.core.call_plans import launch, planned
from tile.ops.core.reference import Array
from tile.ops.image.shift_arguments import check_shifts, shifted
from tile.ops.linear.configurations import tiles_of
from tile.ops.linear.matmul_tiles import store_tile, tile_position

PIXELS, CHANNELS = 32, 128  # of a program that shifts


@tile.jit
def shift_conv_dgrad_kernel(
    dy_ptr,
    filters_ptr,
    g_ptr,
    pixels,
    filters,
    channels,
    PRECISION: tl.constexpr,
    SUMS: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    GROUP: tl.constexpr,
):
    tile_row, tile_column = tile_position(pixels, channels, BLOCK_M, BLOCK_N, GROUP)
    pixel = tile_row * BLOCK_M + tl.arange(0, BLOCK_M)
    channel = tile_column * BLOCK_N + tl.arange(0, BLOCK_N)
    inner = tl.arange(0, BLOCK_K)
    dy_tile = dy_ptr + pixel.to(tl.int64)[:, None] * filters + inner[None, :]
    filters_tile = filters_ptr + inner.to(tl.int64)[:, None] * channels + channel[None, :]
    total = tl.zeros((BLOCK_M, BLOCK_N), dtype=SUMS)
    for start in range(0, filters, BLOCK_K):
        exists = inner < filters - start
        dy = tl.load(dy_tile, mask=(pixel < pixels)[:, None] & exists[None, :], other=0.0)
        inside = exists[:, None] & (channel < channels)[None, :]
        weights = tl.load(filters_tile, mask=inside, other=0.0)
        total = tl.dot(dy, weights, total, input_precision=PRECISION, out_dtype=SUMS)
        dy_tile += BLOCK_K
        filters_tile += BLOCK_K * channels
    store_tile(total, g_ptr, pixel, channel, pixels, channels, channels, 1)


@tile.jit
def shift_back_kernel(
    g_ptr,
    shift_h_ptr,
    shift_w_ptr,
    dx_ptr,
    height,
    width,
    pixels,
    channels,
    RUN: tl.constexpr,
    PIXELS: tl.constexpr,
    CHANNELS: tl.constexpr,
):
    pixel = (tl.program_id(0) * PIXELS + tl.arange(0, PIXELS))[:, None]
    channel = tl.program_id(1) * CHANNELS + tl.arange(0, CHANNELS)
    down = tl.load(shift_h_ptr + channel, mask=channel < channels, other=0)
    right = tl.load(shift_w_ptr + channel, mask=channel < channels, other=0)
    if RUN > 1:  # so that a thread moves a run of channels at once
        down, right = tl.max_constancy(down, RUN), tl.max_constancy(right, RUN)
    h, w = pixel // width % height - down[None, :], pixel % width - right[None, :]
    inside = (pixel < pixels) & (channel < channels)[None, :]
    stays = inside & (h >= 0) & (h < height) & (w >= 0) & (w < width)
    at = pixel.to(tl.int64) * channels + channel[None, :]
    moved = ((down * width + right) * channels)[None, :]
    g = tl.load(g_ptr + (at - moved), mask=stays, other=0.0)
    tl.store(dx_ptr + at, g, mask=inside)


@planned()
def shift_conv_dgrad(
    dy: Any,
    filters: Any,
    shift_h: Any,
    shift_w: Any,
    run: int = 1,
    *,
    precision: str = "ieee",
    out: Any = None,
) -> Any:
    """Return the gradient of the image of `shift_conv` from `dy`, that of the result.

    dy: batch x height x width x filters, contiguous, of the type of `filters`. The other arguments
    are those of `shift_conv`.
    """
    call = Call("shift_conv_dgrad")
    gradient = call.array("dy", dy, rank=4).contiguous()
    batches, height, width, count = gradient.shape
    weights = call.array("filters", filters, dtypes=(gradient.dtype,), rank=2)
    channels = weights.shape[1]
    call.array("filters", filters, rank=2, shape=(count, channels)).contiguous()
    check_shifts(call, shift_h, shift_w, (height, width), channels, run, precision)
    shape = (batches, height, width, channels)
    result = call.output("out", out, shape, gradient.dtype).contiguous()
    if result.size:
        pixels = batches * height * width
        config = tiles_of(call.backend, gradient.dtype, pixels, channels, count, precision)
        tiles = tile.cdiv(pixels, config["BLOCK_M"]) * tile.cdiv(channels, config["BLOCK_N"])
        g = call.new(shape, gradient.dtype)
        launch(shift_conv_dgrad_kernel, (tiles,))(
            *(dy, filters, g.value, pixels, count, channels),
            PRECISION=precision,
            SUMS=getattr(tl, accumulator(gradient.dtype).name),
            **config,
        )
        launch(shift_back_kernel, (tile.cdiv(pixels, PIXELS), tile.cdiv(channels, CHANNELS)))(
            *(g.value, shift_h, shift_w, result.value, height, width, pixels, channels),
            RUN=run,
            PIXELS=PIXELS,
            CHANNELS=CHANNELS,
        )
    return result.value


def shift_conv_dgrad_reference(dy: Array, filters: Array, shift_h: Array, shift_w: Array) -> Array:
    """Return the gradient in float64."""
    return shifted(dy @ filters, -np.asarray(shift_h), -np.asarray(shift_w))
