"""The kernel of layer and RMS normalization of long rows whose parts programs hold (row_parts.py).

Programs of a cluster exchange means and sums of squares of their parts (cluster_sums.py).
"""

from __future__ import annotations

from typing import Any

import tile
import tile.language as tl
from tile.ops.core.device_functions import widen
from tile.ops.rowwise.cluster_sums import moments_of_parts, of_cluster
from tile.ops.rowwise.row_parts import (
    added,
    less,
    load_tiles,
    part_of,
    sum_of_tiles,
    tile_of,
    widened,
    widened_again,
)
from tile.ops.rowwise.row_sums import add_2


@tile.jit
def part_norm_kernel(
    x_ptr,
    weight_ptr,
    bias_ptr,
    y_ptr,
    mean_ptr,
    rstd_ptr,
    x_stride,
    y_stride,
    length,
    CENTERED: tl.constexpr,
    EPS: tl.constexpr,
    SIZE: tl.constexpr,
    PART: tl.constexpr,
    COUNT: tl.constexpr,
    BLOCK: tl.constexpr,
    SAMPLE: tl.constexpr = 0,
    PACKED: tl.constexpr = False,
    SHIFT: tl.constexpr = 0,
):
    """SAMPLE: of a part, for one exchange of sums (row_sums.py), or 0.

    PACKED: registers hold elements of 16 bits as these. SHIFT: elements of a line, at which tiles
    begin, not at the row, which one program has; or 0.
    """
    NARROW: tl.constexpr = x_ptr.dtype.element_ty.primitive_bitwidth < 32
    row, start, count = part_of(length, SIZE, PART)
    x_ptr += row * x_stride + start
    y_ptr += row * y_stride + start
    # Earlier, 98 registers instead of 110 for 49 elements of float32, and RMS norm of 4608 x 33000,
    # float16, takes 153 us instead of 157; but of 50256, float32, 88 registers instead of 80.
    if CENTERED or PACKED:
        weight_ptr += start
    if bias_ptr is not None:
        bias_ptr += start
    begin: Any = None
    if SHIFT:
        begin = (row * x_stride % SHIFT).to(tl.int32)
        x_ptr -= begin
        y_ptr -= begin
    # Where the row takes registers, L1 is left to the weight and the bias.
    CACHE: tl.constexpr = ".cg" if PACKED and SIZE == 1 else ""
    x = load_tiles(x_ptr, count, COUNT, BLOCK, CACHE=CACHE, begin=begin)
    mean = 0.0
    if CENTERED:
        if SAMPLE:
            first = tl.load(x_ptr + (tl.arange(0, SAMPLE) + (begin if SHIFT else 0)))
            mean = tl.sum(widen(first), axis=0) * (1.0 / SAMPLE)
        else:
            mean = sum_of_tiles(widened(x)) / count
    distances = x[:0]
    squares = x[:0]
    for at in tl.static_range(COUNT):
        distances += (less(x[at], mean, 0.0, at, count, COUNT, BLOCK, begin),)
        squares += (distances[at] * distances[at],)
    apart = 0.0
    if CENTERED and SAMPLE:
        apart, square = tl.reduce((added(distances), added(squares)), 0, add_2)
        apart /= count
        square = tl.maximum(square - apart * apart * count, 0.0)
    else:
        square = sum_of_tiles(squares)
    if SIZE > 1:
        if CENTERED:
            further, square = moments_of_parts(mean + apart, square, length, SIZE, PART)
            apart += further
        else:
            (square,) = of_cluster((square,), SIZE)
    rstd = 1.0 / tl.sqrt(square / length + EPS)
    if PACKED:
        x = widened_again(x, rstd)
    if not (CENTERED or PACKED):
        weight_ptr += start
    for at in tl.static_range(COUNT):
        column, inside = tile_of(at, count, COUNT, BLOCK, begin)
        of_row = column - begin if SHIFT else column
        if NARROW:  # one instruction less, with an error that is far below that of the elements
            y = widen(x[at]) * rstd - (mean + apart) * rstd if CENTERED else widen(x[at]) * rstd
        else:
            y = (distances[at] - apart) * rstd
        # All programs read the weight and the bias, and x once.
        y *= tl.load(weight_ptr + of_row, mask=inside, eviction_policy="evict_last")
        if bias_ptr is not None:
            y += tl.load(bias_ptr + of_row, mask=inside, eviction_policy="evict_last")
        tl.store(y_ptr + column, y, mask=inside)
    if start == 0:
        if mean_ptr is not None:
            tl.store(mean_ptr + row, mean + apart)
        if rstd_ptr is not None:
            tl.store(rstd_ptr + row, rstd)
