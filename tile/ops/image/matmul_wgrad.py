"""The gradient of filters as a matmul whose operands are never stored: a form of conv2d_wgrad.py.

Rows of the matmul are filters, columns are (r, s, c), and the inner axis is the pixels of dy, which
programs share: each stores the sums of a part, and a second kernel adds up the parts in a fixed
order (splits.py). TMA copies the pixels where it can (im2col_wgrad.py).
"""

from __future__ import annotations

import tile
import tile.language as tl
from tile.ops.core.call import F64, Call, Operand, accumulator
from tile.ops.core.call_plans import launch
from tile.ops.core.tables import ANY, Table
from tile.ops.image.convolution_tables import WIDEST
from tile.ops.image.im2col_wgrad import im2col_wgrad_configuration, im2col_wgrad_kernel
from tile.ops.image.im2col_windows import upper_corner
from tile.ops.image.images import Image
from tile.ops.image.windows import Windows
from tile.ops.linear.configurations import PORTABLE, tiles
from tile.ops.linear.matmul_tiles import tile_position
from tile.ops.linear.splits import add_contiguous_splits, splits_of

# By filters, the window's elements and pixels, whose axis is split. H200, float16, 3 x 3 of 64 to
# 512 channels, 2026-11-23.
TABLE = Table(
    PORTABLE,
    {
        "nvptx": {
            (64, ANY, ANY): tiles(64, 128, 64),
            (ANY, 64, ANY): tiles(128, 64, 64),
            (ANY, ANY, ANY): tiles(128, 128, 64, warps=8),
        }
    },
)


@tile.jit
def conv2d_wgrad_kernel(
    dy_ptr,
    x_ptr,
    parts_ptr,
    dy_strides,
    x_strides,
    sizes,
    pixels,
    filters,
    first,
    step,
    apart,
    span,
    S: tl.constexpr,
    WINDOW: tl.constexpr,
    CHANNELS: tl.constexpr,
    CHANNELS_LAST: tl.constexpr,
    PRECISION: tl.constexpr,
    SUMS: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    GROUP: tl.constexpr,
):
    COLUMNS: tl.constexpr = WINDOW * CHANNELS
    tile_row, tile_column = tile_position(filters, COLUMNS, BLOCK_M, BLOCK_N, GROUP)
    group, split = tl.program_id(1).to(tl.int64), tl.program_id(2)
    height, width, out_height, out_width = sizes
    row = tile_row * BLOCK_M + tl.arange(0, BLOCK_M)[:, None]
    column = tile_column * BLOCK_N + tl.arange(0, BLOCK_N)[None, :]
    if CHANNELS_LAST:
        position, channel = column // CHANNELS, column % CHANNELS
    else:
        position, channel = column % WINDOW, column // WINDOW
    down, right = position // S * apart[0] + first[0], position % S * apart[1] + first[1]
    dy_rows = dy_ptr + (group * filters + row) * dy_strides[3]
    # The address of an element is that of its pixel plus that of its column.
    x_columns = x_ptr + (group * CHANNELS + channel) * x_strides[3]
    x_columns += down.to(tl.int64) * x_strides[1] + right.to(tl.int64) * x_strides[2]
    end = min(pixels, (split + 1) * span)
    total = tl.zeros((BLOCK_M, BLOCK_N), dtype=SUMS)
    for k in range(split * span, end, BLOCK_K):
        pixel = k + tl.arange(0, BLOCK_K)
        n = (pixel // (out_height * out_width)).to(tl.int64)
        p, q = pixel // out_width % out_height, pixel % out_width
        dy_at = n * dy_strides[0] + p * dy_strides[1] + q * dy_strides[2]
        dy_inside = (row < filters) & (pixel < end)[None, :]
        dy = tl.load(dy_rows + dy_at[None, :], mask=dy_inside, other=0.0)
        h, w = (p * step[0])[:, None] + down, (q * step[1])[:, None] + right
        inside = (h >= 0) & (h < height) & (w >= 0) & (w < width) & (column < COLUMNS)
        at = n * x_strides[0] + (p * step[0]).to(tl.int64) * x_strides[1]
        at += (q * step[1]).to(tl.int64) * x_strides[2]
        x = tl.load(x_columns + at[:, None], mask=inside & (pixel < end)[:, None], other=0.0)
        total = tl.dot(dy, x, total, input_precision=PRECISION, out_dtype=SUMS)
    part = split.to(tl.int64) * tl.num_programs(1) + group
    at = (part * filters + row) * COLUMNS + column
    inside = (row < filters) & (column < COLUMNS)
    tl.store(parts_ptr + at, total.to(parts_ptr.dtype.element_ty), mask=inside)


def wgrad_by_matmul(
    call: Call,
    dy: Image,
    x: Image,
    result: Operand,
    windows: Windows,
    groups: int,
    splits: int | None,
    precision: str,
    last: bool,
) -> None:
    """Write the gradient of filters; last: channels are the last axis of all arrays."""
    batches, p, q, count = dy.shape
    filters, channels = count // groups, x.shape[3] // groups
    window, pixels = windows.count[0] * windows.count[1], batches * p * q
    table = WIDEST if result.dtype == F64 else TABLE
    im2col = im2col_wgrad_configuration(call, dy, x, windows, groups) if last else None
    config = im2col or table.select(call.backend, filters, window * channels, pixels)
    if im2col and groups > 1:  # a tile has the filters of several groups
        tiles = tile.cdiv(count, config["BLOCK_M"]) * window
    else:
        tiles = tile.cdiv(filters, config["BLOCK_M"]) * groups
        tiles *= tile.cdiv(window * channels, config["BLOCK_N"])
    steps = tile.cdiv(pixels, config["BLOCK_K"])
    splits = splits_of(call, splits, tile.cdiv(tiles, config.get("RESIDENT", 1)), steps)
    sums = accumulator(result.dtype)
    parts = call.new((splits, count, window * channels), sums) if splits > 1 else result
    span = tile.cdiv(steps, splits) * config["BLOCK_K"]
    shared = {"S": windows.count[1], "WINDOW": window, "CHANNELS": channels, **config}
    shared.pop("RESIDENT", None)
    if im2col:
        launch(im2col_wgrad_kernel, (tiles, splits))(
            *(dy.value, x.value, parts.value, dy.strides[2], x.strides),
            *((*x.shape[:3], pixels), count, span),
            LOWER=windows.first,
            UPPER=upper_corner(windows, x, dy),
            STEPS=(1, *windows.step, 1),
            APART=windows.apart,
            **shared | {"CHANNELS": x.shape[3]},
            GROUPS=(filters, channels) if groups > 1 else None,
        )
    else:
        launch(conv2d_wgrad_kernel, (tiles // groups, groups, splits))(
            *(dy.value, x.value, parts.value, dy.strides, x.strides, (*x.shape[1:3], p, q)),
            *(pixels, filters, windows.first, windows.step, windows.apart, span),
            CHANNELS_LAST=last,
            PRECISION=precision,
            SUMS=getattr(tl, sums.name),
            **shared,
        )
    if parts is not result:
        add_contiguous_splits(call, parts, result)
