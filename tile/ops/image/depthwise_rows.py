"""Depthwise convolution by rows of images: for windows that move by a pixel, channels last.

    out[n, p, q, k] = sum over r, s of x[n, p + first + r, q + first + s, k] * filters[k, r, s]

A lane has some channels of a strip of adjacent pixels of the result, and goes down the image. It
loads and converts each element of a row of x once for all windows of the strip, and keeps the sums
of the rows of the result that are not complete. Loads are some rows early. The lanes of a program
lie along the channels of one strip after the other, so that none is idle. Their filters are
adjacent in memory: they are loaded as they lie there, and distributed to lanes.
"""

from __future__ import annotations

from typing import Any

import tile
import tile.language as tl
from tile.ops.core.call import Call
from tile.ops.core.call_plans import launch
from tile.ops.core.device_functions import widen
from tile.ops.image.depthwise_strips import Strips
from tile.ops.image.depthwise_sums import load_row, store_rows
from tile.ops.image.images import Image
from tile.ops.image.windows import Windows

MOST_DENSE = 64  # elements of a filter that are loaded with those of other channels


@tile.jit(do_not_specialize=["parts", "rows"])
def depthwise_rows_kernel(
    x_ptr,
    filters_ptr,
    bias_ptr,
    out_ptr,
    starts,
    x_strides,
    filter_strides,
    filter_step,
    out_strides,
    sizes,
    parts,
    rows,
    first,
    R: tl.constexpr,
    S: tl.constexpr,
    FLIPPED: tl.constexpr,
    DENSE: tl.constexpr,
    WINDOW: tl.constexpr,
    STRIP: tl.constexpr,
    AHEAD: tl.constexpr,
    CHANNELS: tl.constexpr,
    STEP: tl.constexpr,
    OUT_STEP: tl.constexpr,
    ACTIVATION: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Store `rows` rows of some strips; `parts` of these are an image's height.

    DENSE: the elements of a filter, if all filters are adjacent; WINDOW: which of them are used.
    """
    height, width, out_height, out_width = sizes
    WIDE: tl.constexpr = STRIP + S - 1
    strips = tl.cdiv(out_width, STRIP)
    blocks = tl.cdiv(strips * CHANNELS, BLOCK)
    number = tl.program_id(0)
    block, place = number % blocks, number // blocks
    p, n = place % parts * rows, (place // parts).to(tl.int64)
    lane = block * BLOCK + tl.arange(0, BLOCK)
    strip, channel = lane // CHANNELS, lane % CHANNELS
    q = strip * STRIP
    top, left = p + first[0], q + first[1]
    steps = min(rows, out_height - p) + R - 1
    exists = strip < strips
    of_x: Any = ()
    for j in tl.static_range(WIDE):
        of_x += (exists & (left + j >= 0) & (left + j < width),)
    of_out: Any = ()
    for j in tl.static_range(STRIP):
        of_out += (exists & (q + j < out_width),)
    x = x_ptr + starts[0] + n * x_strides[0] + (left.to(tl.int64) * STEP + channel)
    x += tl.cast(min(max(top, 0), height - 1), tl.int64) * x_strides[1]
    out = out_ptr + starts[2] + n * out_strides[0] + p.to(tl.int64) * out_strides[1]
    out += q.to(tl.int64) * OUT_STEP + channel
    down = x_strides[1]
    ahead: Any = ()
    for i in tl.static_range(AHEAD):
        ahead += (load_row(x, of_x, STEP, True, WIDE),)
        x += tl.where((top + i >= 0) & (top + i + 1 < min(top + steps, height)), down, 0)
    weights: Any = ()
    if DENSE is None:
        filters = filters_ptr + starts[1] + channel * filter_step
        for i in tl.static_range(R * S):
            s = S - 1 - i % S if FLIPPED else i % S
            at = filters + i // S * filter_strides[1] + s * filter_strides[2]
            weights += (widen(tl.load(at, mask=exists, other=0.0)),)
    else:
        COUNT: tl.constexpr = 1 << (BLOCK * DENSE - 1).bit_length()
        element = tl.arange(0, COUNT)
        at = (block * BLOCK % CHANNELS * DENSE + element) % (CHANNELS * DENSE)
        filters = tl.load(filters_ptr + at, mask=element < BLOCK * DENSE, other=0.0)
        of_lane = tl.arange(0, BLOCK) * DENSE
        for i in tl.static_range(R * S):
            weights += (widen(tl.gather(filters, of_lane + WINDOW[i], 0)),)
    if bias_ptr is None:
        initial = tl.zeros_like(weights[0])
    else:
        initial = widen(tl.load(bias_ptr + channel, mask=exists, other=0.0))
    arguments = (
        *(x, ahead, of_x, out, of_out, weights, initial, (down, out_strides[1]), top, steps),
        *(height, R, S, STRIP, AHEAD, STEP, OUT_STEP, ACTIVATION),
    )
    # Strips inside of the image need no masks.
    least = block * BLOCK // CHANNELS * STRIP
    end = (block * BLOCK + BLOCK - 1) // CHANNELS * STRIP + STRIP
    if (least + first[1] >= 0) & (end + first[1] + S - 1 <= width) & (end <= out_width):
        store_rows(*arguments, False)
    else:
        store_rows(*arguments, True)


def depthwise_rows(
    call: Call,
    x: Image,
    filters: Image,
    bias: Any,
    out: Image,
    windows: Windows,
    filter_step: int,
    flipped: bool,
    activation: Any,
) -> None:
    """Write the convolution of each channel of `x` to `out`; see `depthwise` for the arguments."""
    (r, s), (_, down, right, _) = windows.count, filters.strides
    window = tuple(
        filters.start + i * down + (s - 1 - j if flipped else j) * right
        for i in range(r)
        for j in range(s)
    )
    dense = min(window) >= 0 and max(window) < filter_step <= MOST_DENSE
    strips = Strips.of(call.backend, out.shape, windows, x.operand.dtype.itemsize)
    launch(depthwise_rows_kernel, (strips.programs,), dependent=True)(
        *(x.value, filters.value, bias, out.value, (x.start, filters.start, out.start)),
        *(x.strides, filters.strides, filter_step, out.strides, (*x.shape[1:3], *out.shape[1:3])),
        *(strips.parts, strips.rows, windows.first),
        R=r,
        S=s,
        FLIPPED=flipped,
        DENSE=filter_step if dense else None,
        WINDOW=window if dense else None,
        CHANNELS=out.shape[3],
        STEP=x.strides[2],
        OUT_STEP=out.strides[2],
        ACTIVATION=activation,
        **strips.options(call.backend),
    )
