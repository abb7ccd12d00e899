"""The gradient of the filters of a convolution whose groups have one channel, without a matmul.

    dfilters[k, r, s] = sum over n, p, q of dy[n, p, q, k] * x[n, p * stride - padding + r, ..., c]

A program has a block of filters at all positions of the window, or at those of one row if it is
great. It adds up its part of the pixels by groups of adjacent ones (depthwise.py): an element of dy
is loaded once, and one of x for all pixels of a group.
"""

from __future__ import annotations

from typing import Any

import tile
import tile.language as tl
from tile.ops.core.call import Call, Operand, accumulator
from tile.ops.core.call_plans import launch
from tile.ops.core.device_functions import widen
from tile.ops.image.depthwise_rows_wgrad import depthwise_rows_wgrad
from tile.ops.image.depthwise_tiles import groups_of
from tile.ops.image.images import Image
from tile.ops.image.pixels import ELEMENTS, pixel_position
from tile.ops.image.windows import Windows
from tile.ops.linear.splits import add_contiguous_splits, splits_of

MOST_POSITIONS = 12  # of a window, whose sums a program holds in registers
RESIDENT = 3  # programs that a multiprocessor runs at a time


@tile.jit
def depthwise_wgrad_kernel(
    dy_ptr,
    x_ptr,
    parts_ptr,
    dy_strides,
    x_strides,
    sizes,
    groups,
    filters,
    multiple,
    first,
    step,
    apart,
    span,
    S: tl.constexpr,
    WINDOW: tl.constexpr,
    POSITIONS: tl.constexpr,
    STEP: tl.constexpr,
    APART: tl.constexpr,
    ADJACENT: tl.constexpr,
    GROUPS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    height, width, out_height, out_width = sizes
    ROWS: tl.constexpr = POSITIONS // S
    first_row, split = tl.program_id(1) * ROWS, tl.program_id(2)
    column = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)[None, :]
    end = min(groups, (split + 1) * span)
    dy_columns = dy_ptr + column.to(tl.int64) * dy_strides[3]
    x_columns = x_ptr + (column // multiple).to(tl.int64) * x_strides[3]
    totals: Any = ()
    for _ in tl.static_range(POSITIONS):
        totals += (widen(tl.zeros((GROUPS, BLOCK), x_ptr.dtype.element_ty)),)
    for k in range(split * span, end, GROUPS):
        group = k + tl.arange(0, GROUPS)[:, None]
        n, p, q = pixel_position(group, out_height, tl.cdiv(out_width, ADJACENT))
        q *= ADJACENT
        exists = (group < end) & (column < filters)
        dy_at = dy_columns + n * dy_strides[0] + p * dy_strides[1] + q * dy_strides[2]
        dy: Any = ()
        for j in tl.static_range(ADJACENT):
            inside = exists & (q + j < out_width)
            dy += (widen(tl.load(dy_at + j * dy_strides[2], mask=inside, other=0.0)),)
        left = q * STEP + first[1]
        at = x_columns + n * x_strides[0] + left.to(tl.int64) * x_strides[2]
        added: Any = ()
        for i in tl.static_range(POSITIONS):
            total = totals[i]
            h = p * step[0] + (first_row + i // S) * apart[0] + first[0]
            row = at + h.to(tl.int64) * x_strides[1]
            in_row = exists & (h >= 0) & (h < height)
            for j in tl.static_range(ADJACENT):
                right = j * STEP + i % S * APART
                inside = in_row & (left + right >= 0) & (left + right < width)
                x = widen(tl.load(row + right * x_strides[2], mask=inside, other=0.0))
                total += dy[j] * x
            added += (total,)
        totals = added
    at = (split.to(tl.int64) * filters + column) * WINDOW + first_row * S
    for i in tl.static_range(POSITIONS):
        sums = tl.sum(totals[i], axis=0, keep_dims=True)
        tl.store(parts_ptr + at + i, sums.to(parts_ptr.dtype.element_ty), mask=column < filters)


def goes_by_rows(dy: Image, x: Image, windows: Windows) -> bool:
    """Return True if depthwise_rows_wgrad.py has the kernel."""
    plain = windows.step == windows.apart == (1, 1) and dy.shape[3] == x.shape[3]
    few = 0 < windows.count[0] <= 3 and 0 < windows.count[1] <= 3
    return plain and few and dy.strides[3] == x.strides[3] == 1


def depthwise_wgrad(
    call: Call, dy: Image, x: Image, result: Operand, windows: Windows, splits: int | None
) -> None:
    """Write the gradient of filters, one for each channel of `dy`, to `result`."""
    batches, p, q, count = dy.shape
    r, s = windows.count
    if splits is None and goes_by_rows(dy, x, windows):
        depthwise_rows_wgrad(call, dy, x, result, windows)
        return
    adjacent, rows, block = groups_of(x, ELEMENTS, 128)
    positions = r * s if r * s <= MOST_POSITIONS else s
    groups = batches * p * tile.cdiv(q, adjacent)
    blocks, steps = tile.cdiv(count, block), tile.cdiv(groups, rows)
    programs = blocks * (r * s // positions)
    splits = splits_of(call, splits, tile.cdiv(programs, RESIDENT), steps)
    parts = call.new((splits, count, r * s), accumulator(result.dtype)) if splits > 1 else result
    launch(depthwise_wgrad_kernel, (blocks, r * s // positions, splits), dependent=True)(
        *(dy.value, x.value, parts.value, dy.strides, x.strides, (*x.shape[1:3], p, q)),
        *(groups, count, count // x.shape[3], windows.first, windows.step, windows.apart),
        tile.cdiv(steps, splits) * rows,
        S=s,
        WINDOW=r * s,
        POSITIONS=positions,
        STEP=windows.step[1],
        APART=windows.apart[1],
        ADJACENT=adjacent,
        GROUPS=rows,
        BLOCK=block,
    )
    if parts is not result:
        add_contiguous_splits(call, parts, result)
