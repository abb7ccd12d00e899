"""The matmul of a convolution whose window has few elements, which one iteration takes.

Of an image of one channel, a window has 25 elements if it is 5 x 5: the time goes into loads of
single elements, one after the other, and into the result. So a program keeps the filters, has many
tiles of pixels, and loads those of the next tile while it stores the result of one, by TMA where
that can.
"""

from __future__ import annotations

import tile
import tile.language as tl
from tile.ops.core.call_plans import launch
from tile.ops.core.tables import ANY, Table
from tile.ops.image.convolution_matmul import Convolution
from tile.ops.image.im2col_configuration import stores_rows
from tile.ops.image.pixels import finished, pixel_position, store_pixels
from tile.ops.linear.configurations import PORTABLE, tiles

MOST_INNER = 32  # elements of a window

# By backend, bytes of an element, and whether TMA stores the tiles: programs with many tiles each,
# as many as are co-resident, and the tile. Seven convolutions on an H200, 2026-12-01
# (docs/notes/ops.md). Fused multiply-adds are faster with one tile a program.
PROGRAMS = {("nvptx", 2, True): 660, ("nvptx", 2, False): 396, ("nvptx", 4, False): 660}
ROWS = {2: 128, 4: 64}
TABLES = {
    size: Table(PORTABLE, {"nvptx": {(ANY, ANY, ANY): tiles(rows, 64, 32, stages=1)}})
    for size, rows in ROWS.items()
}


@tile.jit
def thin_conv2d_kernel(
    x_ptr,
    filters_ptr,
    bias_ptr,
    out_ptr,
    starts,
    x_strides,
    filter_strides,
    out_strides,
    sizes,
    pixels,
    filters,
    first,
    step,
    apart,
    S: tl.constexpr,
    CHANNELS: tl.constexpr,
    INNER: tl.constexpr,
    ORDER: tl.constexpr,
    ACTIVATION: tl.constexpr,
    PRECISION: tl.constexpr,
    SUMS: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    STORED: tl.constexpr,
):
    height, width, out_height, out_width, _ = sizes
    column = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)[None, :]
    inner = tl.arange(0, BLOCK_K)
    position, channel = inner // CHANNELS, inner % CHANNELS
    r, s = position // S, position % S
    at = r * filter_strides[1] + s * filter_strides[2] + channel * filter_strides[3]
    weights = filters_ptr + starts[1] + column.to(tl.int64) * filter_strides[0] + at[:, None]
    exists = inner < INNER
    b = tl.load(weights, mask=exists[:, None] & (column < filters), other=0.0)
    down, right = (r * apart[0])[None, :], (s * apart[1])[None, :]
    offset = down * x_strides[1] + right * x_strides[2] + channel[None, :] * x_strides[3]
    rows, columns = tl.cast(height, tl.uint32), tl.cast(width, tl.uint32)
    for number in tl.range(tl.program_id(0), tl.cdiv(pixels, BLOCK_M), tl.num_programs(0)):
        pixel = number * BLOCK_M + tl.arange(0, BLOCK_M)[:, None]
        n, p, q = pixel_position(pixel, out_height, out_width)
        # The pixel under the first element of the window, which may be in the padding.
        top, left = p * step[0] + first[0], q * step[1] + first[1]
        origin = x_ptr + starts[0] + n * x_strides[0] + top.to(tl.int64) * x_strides[1]
        origin += left.to(tl.int64) * x_strides[2]
        h, w = top + down, left + right
        # One comparison is for both edges: numbers below 0 are large ones without a sign.
        inside = (h.to(tl.uint32, bitcast=True) < rows) & (pixel < pixels)
        inside = inside & (w.to(tl.uint32, bitcast=True) < columns)
        a = tl.load(origin + offset, mask=inside & exists[None, :], other=0.0)
        total = tl.zeros((BLOCK_M, BLOCK_N), dtype=SUMS)
        total = tl.dot(a, b, total, input_precision=PRECISION, out_dtype=SUMS)
        if STORED:
            out = tl.make_tensor_descriptor(
                out_ptr, [pixels, filters], [out_strides[2], 1], [BLOCK_M, BLOCK_N]
            )
            result = finished(total, bias_ptr, column, filters, ACTIVATION)
            at = [number * BLOCK_M, tl.program_id(1) * BLOCK_N]
            out.store(at, result.to(out_ptr.dtype.element_ty))
        else:
            store_pixels(
                *(total, bias_ptr, out_ptr + starts[2], out_strides, sizes[2:]),
                *(pixel, column, pixels, filters, ORDER, ACTIVATION),
            )


def thin_convolution(conv: Convolution) -> bool:
    """Write a convolution of one group if its windows have few elements; return True then."""
    pixels, count, inner = conv.sizes
    size = conv.dtype.itemsize
    stored = size == 2 and stores_rows(conv)  # of wider accumulators, threads store faster
    programs = PROGRAMS.get((conv.call.backend, size, stored), 0)
    by_fma = size > 2 and conv.precision == "ieee"
    if not programs or by_fma or not 0 < inner <= MOST_INNER:
        return False
    config = dict(TABLES[size].select(conv.call.backend, pixels, count, inner))
    config.pop("GROUP")
    grid = (
        min(programs, tile.cdiv(pixels, config["BLOCK_M"])),
        tile.cdiv(count, config["BLOCK_N"]),
    )
    launch(thin_conv2d_kernel, grid)(
        *(*conv.arrays, conv.starts, *conv.addresses),
        SUMS=conv.sums,
        STORED=stored,
        **conv.constants,
        **config,
    )
    return True
