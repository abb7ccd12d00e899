"""The gradient of the filters of a convolution whose groups have one channel, without a matmul.

    dfilters[k, r, s] = sum over n, p, q of dy[n, p, q, k] * x[n, p * stride - padding + r, ..., c]

A program has a block of filters at one position of the window, and adds up its part of the pixels.
"""

from __future__ import annotations

import tile
import tile.language as tl
from tile.ops.core.call import Call, Operand, accumulator
from tile.ops.core.call_plans import launch
from tile.ops.core.device_functions import widen
from tile.ops.image.depthwise import tile_of
from tile.ops.image.images import Image
from tile.ops.image.windows import Windows
from tile.ops.linear.splits import add_contiguous_splits, splits_of


@tile.jit
def depthwise_wgrad_kernel(
    dy_ptr,
    x_ptr,
    parts_ptr,
    dy_strides,
    x_strides,
    sizes,
    pixels,
    filters,
    multiple,
    first,
    step,
    apart,
    span,
    S: tl.constexpr,
    WINDOW: tl.constexpr,
    PIXELS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    height, width, out_height, out_width = sizes
    position, split = tl.program_id(1), tl.program_id(2)
    column = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)[None, :]
    down, right = position // S * apart[0] + first[0], position % S * apart[1] + first[1]
    dy_columns = dy_ptr + column.to(tl.int64) * dy_strides[3]
    x_columns = x_ptr + (column // multiple).to(tl.int64) * x_strides[3]
    x_columns += tl.cast(down, tl.int64) * x_strides[1] + tl.cast(right, tl.int64) * x_strides[2]
    total = widen(tl.zeros((PIXELS, BLOCK), x_ptr.dtype.element_ty))
    for k in range(split * span, min(pixels, (split + 1) * span), PIXELS):
        pixel = k + tl.arange(0, PIXELS)[:, None]
        n = (pixel // (out_height * out_width)).to(tl.int64)
        p, q = pixel // out_width % out_height, pixel % out_width
        h, w = p * step[0] + down, q * step[1] + right
        inside = (h >= 0) & (h < height) & (w >= 0) & (w < width) & (column < filters)
        inside = inside & (pixel < min(pixels, (split + 1) * span))
        dy_at = n * dy_strides[0] + p * dy_strides[1] + q * dy_strides[2]
        at = n * x_strides[0] + (p * step[0]).to(tl.int64) * x_strides[1]
        at += (q * step[1]).to(tl.int64) * x_strides[2]
        dy = widen(tl.load(dy_columns + dy_at, mask=inside, other=0.0))
        total += dy * widen(tl.load(x_columns + at, mask=inside, other=0.0))
    sums = tl.sum(total, axis=0, keep_dims=True)
    at = (split.to(tl.int64) * filters + column) * WINDOW + position
    tl.store(parts_ptr + at, sums.to(parts_ptr.dtype.element_ty), mask=column < filters)


def depthwise_wgrad(
    call: Call, dy: Image, x: Image, result: Operand, windows: Windows, splits: int | None
) -> None:
    """Write the gradient of filters, one for each channel of `dy`, to `result`."""
    batches, p, q, count = dy.shape
    window, pixels = windows.count[0] * windows.count[1], batches * p * q
    rows, block = tile_of(x)
    blocks = tile.cdiv(count, block)
    splits = splits_of(call, splits, tile.cdiv(blocks * window, 8), tile.cdiv(pixels, rows))
    parts = call.new((splits, count, window), accumulator(result.dtype)) if splits > 1 else result
    launch(depthwise_wgrad_kernel, (blocks, window, splits))(
        *(dy.value, x.value, parts.value, dy.strides, x.strides, (*x.shape[1:3], p, q)),
        *(pixels, count, count // x.shape[3], windows.first, windows.step, windows.apart),
        tile.cdiv(tile.cdiv(pixels, rows), splits) * rows,
        S=windows.count[1],
        WINDOW=window,
        PIXELS=rows,
        BLOCK=block,
    )
    if parts is not result:
        add_contiguous_splits(call, parts, result)
