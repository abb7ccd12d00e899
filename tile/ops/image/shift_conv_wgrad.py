"""The gradient of the filters of a shift convolution: a matmul over pixels, shifted by channel.

    dfilters[k, c] = sum over n, h, w of dy[n, h, w, k] * x[n, h + shift_h[c], w + shift_w[c], c]

Pixels outside the image are 0. The right operand of the matmul is loaded from shifted addresses.
There are few filters and channels and many pixels, so programs share the pixels of a tile, as in
splits.py.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import tile
import tile.language as tl
from tile.errors import ArgumentValueError
from tile.ops.core.call import Call, accumulator
from tile.ops.core.call_plans import launch, planned
from tile.ops.core.reference import Array
from tile.ops.image.shift_arguments import check_shifts, shifted
from tile.ops.linear.configurations import tiles_of
from tile.ops.linear.matmul_tiles import tile_position
from tile.ops.linear.splits import add_contiguous_splits, check_splits, splits_of


@tile.jit
def shift_conv_wgrad_kernel(
    dy_ptr,
    x_ptr,
    shift_h_ptr,
    shift_w_ptr,
    parts_ptr,
    height,
    width,
    pixels,
    filters,
    channels,
    span,
    RUN: tl.constexpr,
    PRECISION: tl.constexpr,
    SUMS: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    GROUP: tl.constexpr,
):
    tile_row, tile_column = tile_position(filters, channels, BLOCK_M, BLOCK_N, GROUP)
    split = tl.program_id(1)
    row = tile_row * BLOCK_M + tl.arange(0, BLOCK_M)[:, None]
    channel = tile_column * BLOCK_N + tl.arange(0, BLOCK_N)
    down = tl.load(shift_h_ptr + channel, mask=channel < channels, other=0)
    right = tl.load(shift_w_ptr + channel, mask=channel < channels, other=0)
    if RUN > 1:  # so that a thread loads a run of channels at once
        down, right = tl.max_constancy(down, RUN), tl.max_constancy(right, RUN)
    down, right, channel = down[None, :], right[None, :], channel[None, :]
    moved = (down * width + right) * channels + channel
    end = min(pixels, (split + 1) * span)
    total = tl.zeros((BLOCK_M, BLOCK_N), dtype=SUMS)
    for start in range(split * span, end, BLOCK_K):
        pixel = start + tl.arange(0, BLOCK_K)
        at = pixel.to(tl.int64)[None, :] * filters + row
        dy = tl.load(dy_ptr + at, mask=(row < filters) & (pixel < end)[None, :], other=0.0)
        h, w = (pixel // width % height)[:, None], (pixel % width)[:, None]
        inside = (h + down >= 0) & (h + down < height) & (w + right >= 0) & (w + right < width)
        inside = inside & (pixel < end)[:, None] & (channel < channels)
        x_tile = x_ptr + pixel.to(tl.int64)[:, None] * channels + moved
        x = tl.load(x_tile, mask=inside, other=0.0)
        total = tl.dot(dy, x, total, input_precision=PRECISION, out_dtype=SUMS)
    at = (tl.cast(split, tl.int64) * filters + row) * channels + channel
    inside = (row < filters) & (channel < channels)
    tl.store(parts_ptr + at, total.to(parts_ptr.dtype.element_ty), mask=inside)


@planned()
def shift_conv_wgrad(
    dy: Any,
    x: Any,
    shift_h: Any,
    shift_w: Any,
    run: int = 1,
    *,
    precision: str = "ieee",
    splits: int | None = None,
) -> Any:
    """Return the gradient of the filters of `shift_conv` from `dy`, that of the result.

    dy: batch x height x width x filters, contiguous, of the type of `x`. splits: parts of the
    pixels, as in `matmul`. The other arguments are those of `shift_conv`.
    """
    call = Call("shift_conv_wgrad")
    gradient = call.array("dy", dy, rank=4).contiguous()
    image = call.array("x", x, dtypes=(gradient.dtype,), rank=4).contiguous()
    (*extents, count), channels = gradient.shape, image.shape[3]
    if [*image.shape[:3]] != extents:
        raise ArgumentValueError(
            f"shift_conv_wgrad: `dy` has shape {gradient.shape} and `x` {image.shape}; all extents "
            "but the last must be equal"
        )
    batches, height, width = extents
    check_shifts(call, shift_h, shift_w, (height, width), channels, run, precision)
    check_splits(call, splits)
    result = call.new((count, channels), gradient.dtype)
    if result.size:
        pixels, sums = batches * height * width, accumulator(gradient.dtype)
        config = tiles_of(call.backend, gradient.dtype, count, channels, pixels, precision)
        tiles = tile.cdiv(count, config["BLOCK_M"]) * tile.cdiv(channels, config["BLOCK_N"])
        steps = tile.cdiv(pixels, config["BLOCK_K"])
        splits = splits_of(call, splits, tiles, steps)
        parts = call.new((splits, count, channels), sums) if splits > 1 else result
        launch(shift_conv_wgrad_kernel, (tiles, splits))(
            *(dy, x, shift_h, shift_w, parts.value, height, width, pixels, count, channels),
            tile.cdiv(steps, splits) * config["BLOCK_K"],
            RUN=run,
            PRECISION=precision,
            SUMS=getattr(tl, sums.name),
            **config,
        )
        if parts is not result:
            add_contiguous_splits(call, parts, result)
    return result.value


def shift_conv_wgrad_reference(dy: Array, x: Array, shift_h: Array, shift_w: Array) -> Array:
    """Return the gradient in float64."""
    result: Array = np.einsum("nhwk,nhwc->kc", dy, shifted(x, shift_h, shift_w))
    return result
