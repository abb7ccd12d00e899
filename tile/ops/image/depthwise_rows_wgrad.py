"""The gradient of filters of one channel, by rows of images: for windows without steps.

    dfilters[k, r, s] = sum over n, p, q of dy[n, p, q, k] * x[n, p + first + r, q + first + s, k]

A lane has some channels of a few adjacent pixels, and goes down the image. It keeps the last rows
of dy, one for each row of the window, so that it loads and converts each element of dy once, and
one of x once for all adjacent pixels and rows of the window. Loads are a row ahead.
"""

from __future__ import annotations

from typing import Any

import tile
import tile.language as tl
from tile.ops.core.call import Call, Operand, accumulator
from tile.ops.core.call_plans import launch
from tile.ops.core.device_functions import widen
from tile.ops.image.images import Image
from tile.ops.image.windows import Windows
from tile.ops.linear.splits import add_contiguous_splits

ADJACENT, STRIPS, BLOCK = 2, 4, 128  # pixels of a strip, strips and channels of a program
PROGRAMS = 528  # four on a multiprocessor of an H200, which run at a time
LEAST_ROWS = 8  # of a program, which loads some rows of x more


@tile.jit
def adjacent_pixels(ptr, step, exists, in_row, COUNT: tl.constexpr):
    """Return adjacent pixels of a row; exists: for each, its mask in any row."""
    pixels: Any = ()
    for j in tl.static_range(COUNT):
        pixels += (tl.load(ptr + j * step, mask=exists[j] & in_row, other=0.0),)
    return pixels


@tile.jit
def depthwise_rows_wgrad_kernel(
    dy_ptr,
    x_ptr,
    parts_ptr,
    dy_strides,
    x_strides,
    sizes,
    parts,
    rows,
    filters,
    first,
    R: tl.constexpr,
    S: tl.constexpr,
    ADJACENT: tl.constexpr,
    STRIPS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Store the sums of strips of `rows` rows; `parts` of these are an image's height."""
    batches, height, width, out_height, out_width = sizes
    WIDE: tl.constexpr = ADJACENT + S - 1
    across = tl.cdiv(out_width, ADJACENT)
    strip = tl.program_id(1) * STRIPS + tl.arange(0, STRIPS)[:, None]
    column = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)[None, :]
    n, q = strip // (across * parts), strip % across * ADJACENT
    p = strip // across % parts * rows
    end = tl.minimum(p + rows, out_height)
    h, left = p + first[0], q + first[1]
    exists = (n < batches) & (column < filters)
    dy_at = dy_ptr + n.to(tl.int64) * dy_strides[0] + p.to(tl.int64) * dy_strides[1]
    dy_at += q.to(tl.int64) * dy_strides[2] + column
    x_at = x_ptr + n.to(tl.int64) * x_strides[0] + h.to(tl.int64) * x_strides[1]
    x_at += left.to(tl.int64) * x_strides[2] + column
    of_dy: Any = ()
    for j in tl.static_range(ADJACENT):
        of_dy += (exists & (q + j < out_width),)
    of_x: Any = ()
    for j in tl.static_range(WIDE):
        of_x += (exists & (left + j >= 0) & (left + j < width),)
    totals: Any = ()
    for _ in tl.static_range(R * S):
        totals += (widen(tl.zeros((STRIPS, BLOCK), x_ptr.dtype.element_ty)),)
    dys: Any = ()  # the last rows of dy, the newest one first
    for _ in tl.static_range((R - 1) * ADJACENT):
        dys += (widen(tl.zeros((STRIPS, BLOCK), x_ptr.dtype.element_ty)),)
    new_dy = adjacent_pixels(dy_at, dy_strides[2], of_dy, p < end, ADJACENT)
    new_x = adjacent_pixels(x_at, x_strides[2], of_x, (h >= 0) & (h < height), WIDE)
    for start in range(0, rows + R - 1, R):  # without moves of rows between registers
        for i in tl.static_range(R):
            row: Any = ()
            for j in tl.static_range(ADJACENT):
                row += (widen(new_dy[j]),)
            dys = row + dys
            pixels: Any = ()
            for j in tl.static_range(WIDE):
                pixels += (widen(new_x[j]),)
            below = start + i + 1
            next_dy = dy_at + tl.cast(below, tl.int64) * dy_strides[1]
            next_x = x_at + tl.cast(below, tl.int64) * x_strides[1]
            new_dy = adjacent_pixels(next_dy, dy_strides[2], of_dy, p + below < end, ADJACENT)
            in_row = (h + below >= 0) & (h + below < height) & (below < rows + R - 1)
            new_x = adjacent_pixels(next_x, x_strides[2], of_x, in_row, WIDE)
            added: Any = ()
            for k in tl.static_range(R * S):
                total = totals[k]
                for j in tl.static_range(ADJACENT):
                    total += dys[k // S * ADJACENT + j] * pixels[j + k % S]
                added += (total,)
            totals = added
            dys = dys[: (R - 1) * ADJACENT]
    at = (tl.program_id(1).to(tl.int64) * filters + column) * (R * S)
    for k in tl.static_range(R * S):
        sums = tl.sum(totals[k], axis=0, keep_dims=True)
        tl.store(parts_ptr + at + k, sums, mask=column < filters)


def depthwise_rows_wgrad(
    call: Call, dy: Image, x: Image, result: Operand, windows: Windows
) -> None:
    """Write the gradient of filters, one for each channel of `x`, to `result`."""
    batches, p, q, count = dy.shape
    r, s = windows.count
    blocks, strips = tile.cdiv(count, BLOCK), batches * tile.cdiv(q, ADJACENT)
    parts = PROGRAMS // max(1, tile.cdiv(strips, STRIPS) * blocks)
    rows = tile.cdiv(p, max(1, min(parts, p // LEAST_ROWS)))
    parts = tile.cdiv(p, rows)
    splits = tile.cdiv(strips * parts, STRIPS)
    sums = call.new((splits, count, r * s), accumulator(result.dtype))
    launch(depthwise_rows_wgrad_kernel, (blocks, splits), dependent=True)(
        *(dy.value, x.value, sums.value, dy.strides, x.strides),
        *((batches, *x.shape[1:3], p, q), parts, rows, count, windows.first),
        R=r,
        S=s,
        ADJACENT=ADJACENT,
        STRIPS=STRIPS,
        BLOCK=BLOCK,
    )
    add_contiguous_splits(call, sums, result)
