"""The kernel of im2col_phases.py: a program writes a tile of the pixels of one phase."""

from __future__ import annotations

import tile
import tile.language as tl
from tile.ops.image.pixels import pixel_position
from tile.ops.linear.matmul_tiles import tile_position


@tile.jit
def phase_at(number, PHASES: tl.constexpr):
    """Return the entry `number` of a table."""
    first, count, start, move = PHASES[0]
    for i in tl.static_range(1, len(PHASES)):
        first = tl.where(number == i, PHASES[i][0], first)
        count = tl.where(number == i, PHASES[i][1], count)
        start = tl.where(number == i, PHASES[i][2], start)
        move = tl.where(number == i, PHASES[i][3], move)
    return first, count, start, move


@tile.jit
def im2col_phases_kernel(
    dy_ptr,
    filters_ptr,
    bias_ptr,
    dx_ptr,
    batches,
    height,
    width,
    rows,
    columns,
    dx_height,
    dx_width,
    channels,
    dy_strides,
    filters_start,
    filters_strides,
    dx_start,
    dx_strides,
    LOWER: tl.constexpr,
    UPPER: tl.constexpr,
    STEP: tl.constexpr,
    APART: tl.constexpr,
    FILTER_STEP: tl.constexpr,
    DOWN: tl.constexpr,
    RIGHT: tl.constexpr,
    DENSE: tl.constexpr,
    INNER: tl.constexpr,
    PRECISION: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    GROUP: tl.constexpr,
):
    """Write the pixels of a phase, of which there are at most rows x columns in an image.

    INNER: the channels of dy. DOWN, RIGHT: of each phase of an axis its first pixel, the number of
    elements of the filters, the last of these, and the distance of its windows to `LOWER`.
    """
    pixels = batches * rows * columns
    tile_row, tile_column = tile_position(pixels, channels, BLOCK_M, BLOCK_N, GROUP)
    top, down_count, down_start, down_move = phase_at(tl.program_id(1) // len(RIGHT), DOWN)
    left, right_count, right_start, right_move = phase_at(tl.program_id(1) % len(RIGHT), RIGHT)
    dy = tl.make_im2col_descriptor(
        dy_ptr,
        [batches, height, width, INNER],
        [dy_strides[0], dy_strides[1], dy_strides[2], 1],
        [BLOCK_M, BLOCK_K],
        LOWER,
        UPPER,
    )
    row, r_stride, s_stride = filters_strides
    if DENSE:
        filters = tl.make_tensor_descriptor(
            filters_ptr, [channels, row], [row, 1], [BLOCK_N, BLOCK_K]
        )
    else:
        filters = tl.make_tensor_descriptor(filters_ptr, [INNER, row], [row, 1], [BLOCK_K, BLOCK_N])
    filters_start += down_start * r_stride + right_start * s_stride
    first_pixel, first_channel = tile_row * BLOCK_M, tile_column * BLOCK_N
    total = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k in range(0, down_count * right_count * INNER, BLOCK_K):
        position, inner = k // INNER, k % INNER
        r, s = position // right_count, position % right_count
        a = dy.load([first_pixel, inner], [down_move + r * APART[0], right_move + s * APART[1]])
        at = filters_start - r * FILTER_STEP[0] * r_stride - s * FILTER_STEP[1] * s_stride
        if DENSE:
            b = filters.load([first_channel, at + inner]).T
        else:
            b = filters.load([inner, at + first_channel])
        total = tl.dot(a, b, total, input_precision=PRECISION)
    pixel = first_pixel + tl.arange(0, BLOCK_M)[:, None]
    channel = first_channel + tl.arange(0, BLOCK_N)[None, :]
    if bias_ptr is not None:
        total += tl.load(bias_ptr + channel, mask=channel < channels, other=0.0)
    n, h, w = pixel_position(pixel, rows, columns)
    h, w = top + h * STEP[0], left + w * STEP[1]
    at = n * dx_strides[0] + h.to(tl.int64) * dx_strides[1] + w.to(tl.int64) * dx_strides[2]
    inside = (pixel < pixels) & (h < dx_height) & (w < dx_width) & (channel < channels)
    dx = dx_ptr + dx_start + at + channel * dx_strides[3]
    tl.store(dx, total.to(dx_ptr.dtype.element_ty), mask=inside)
