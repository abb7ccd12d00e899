"""Convolution of each channel with filters of its own: sums over the window, without a matmul.

    out[n, p, q, k] = sum over r, s of x[n, p * step + first + r * apart, ..., k / m]
                      * filters[k, r, s]

m is the number of filters of a channel. The limit is memory: a program has some pixels of the
result and a block of channels, and iterates over the window. Lanes lie along the axis of `x` that
is contiguous: channels, or pixels where the channels are planes.
"""

from __future__ import annotations

from typing import Any

import tile
import tile.language as tl
from tile.ops.core.call_plans import launch
from tile.ops.core.device_functions import widen
from tile.ops.image.images import Image
from tile.ops.image.windows import Windows

ELEMENTS = 1024  # of a program's tile
MOST_CHANNELS = 64
MOST_UNROLLED = 3  # positions of a window: their loads are issued one after the other


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
    pixels,
    filters,
    multiple,
    first,
    step,
    apart,
    R: tl.constexpr,
    S: tl.constexpr,
    ACTIVATION: tl.constexpr,
    PIXELS: tl.constexpr,
    BLOCK: tl.constexpr,
    UNROLLED: tl.constexpr,
):
    height, width, out_height, out_width = sizes
    x_ptr, filters_ptr, out_ptr = x_ptr + starts[0], filters_ptr + starts[1], out_ptr + starts[2]
    pixel = tl.program_id(0) * PIXELS + tl.arange(0, PIXELS)[:, None]
    column = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)[None, :]
    n = (pixel // (out_height * out_width)).to(tl.int64)
    p, q = pixel // out_width % out_height, pixel % out_width
    top, left = p * step[0] + first[0], q * step[1] + first[1]
    channel = column // multiple
    origin = x_ptr + n * x_strides[0] + channel.to(tl.int64) * x_strides[3]
    origin += top.to(tl.int64) * x_strides[1] + left.to(tl.int64) * x_strides[2]
    weights = filters_ptr + channel * group_step + column % multiple * filter_strides[0]
    exists = (pixel < pixels) & (column < filters)
    total = widen(tl.zeros((PIXELS, BLOCK), x_ptr.dtype.element_ty))
    for several in range(R * S // UNROLLED):
        for one in tl.static_range(UNROLLED):
            position = several * UNROLLED + one
            r, s = position // S, position % S
            down, right = r * apart[0], s * apart[1]
            h, w = top + down, left + right
            inside = exists & (h >= 0) & (h < height) & (w >= 0) & (w < width)
            # A scalar: the address of a pixel takes one addition.
            offset = (
                tl.cast(down, tl.int64) * x_strides[1] + tl.cast(right, tl.int64) * x_strides[2]
            )
            x = widen(tl.load(origin + offset, mask=inside, other=0.0))
            weight = weights + (r * filter_strides[1] + s * filter_strides[2])
            total += x * widen(tl.load(weight, mask=column < filters, other=0.0))
    if bias_ptr is not None:
        total += tl.load(bias_ptr + column, mask=column < filters, other=0.0)
    if ACTIVATION is not None:
        total = ACTIVATION(total)
    at = n * out_strides[0] + p * out_strides[1] + q * out_strides[2]
    tl.store(out_ptr + at + column.to(tl.int64) * out_strides[3], total, mask=exists)


def tile_of(image: Image) -> tuple[int, int]:
    """Return the pixels and the channels of a program's tile."""
    contiguous = image.strides[3] == 1
    block = min(MOST_CHANNELS, tile.next_power_of_2(image.shape[3])) if contiguous else 1
    return ELEMENTS // block, block


def depthwise_tile(image: Image) -> tuple[int, int]:
    """Return the pixels and the channels of a tile whose pixels share the loads of weights.

    H200, float16, 3 x 3, 32 x 256 channels of 56 x 56, 2026-11-23.
    """
    block = min(256, tile.next_power_of_2(image.shape[3]))
    return (4 * ELEMENTS // block, block) if image.strides[3] == 1 else (ELEMENTS // 2, 2)


def depthwise(
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
    pixels = batches * p * q
    rows, block = depthwise_tile(x)
    columns = max(1, windows.count[1])
    window = windows.count[0] * columns
    launch(depthwise_kernel, (tile.cdiv(pixels, rows), tile.cdiv(count, block)))(
        *(x.value, filters.value, bias, out.value, (x.start, filters.start, out.start)),
        *(x.strides, filters.strides, filter_step, out.strides, (*x.shape[1:3], p, q)),
        *(pixels, count, filters.shape[0], windows.first, windows.step, windows.apart),
        R=windows.count[0],
        S=columns,
        ACTIVATION=activation,
        PIXELS=rows,
        BLOCK=block,
        UNROLLED=next(n for n in (window, columns, 1) if n <= MOST_UNROLLED),
    )
