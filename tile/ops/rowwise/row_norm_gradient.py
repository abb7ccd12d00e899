"""The kernel of the gradients of layer and RMS normalization.

A program, or the programs of a cluster, which have a part of each row, go over every n-th row.
"""

from __future__ import annotations

from typing import Any

import tile
import tile.language as tl
from tile.ops.core.device_functions import widen
from tile.ops.rowwise.row_sums import gradient_sums

# Elements of a tile at most for which dy * rstd is held: of 16384, layer norm spills 148 bytes for
# it, 4 without; 2048 x 20480 takes 165 us, 118 without (H200, float16, 2026-11-30).
HELD: tl.constexpr = tl.constexpr(8192)


@tile.jit
def row_norm_backward_kernel(
    dy_ptr,
    x_ptr,
    weight_ptr,
    mean_ptr,
    rstd_ptr,
    dx_ptr,
    dweight_parts_ptr,
    dbias_parts_ptr,
    dy_stride,
    x_stride,
    dx_stride,
    rows,
    length,
    CENTERED: tl.constexpr,
    EPS: tl.constexpr,
    SAMPLE: tl.constexpr,
    WHOLE: tl.constexpr,
    STAGES: tl.constexpr,
    DESCRIBED: tl.constexpr,
    ROWS: tl.constexpr,
    BLOCK: tl.constexpr,
    TILES: tl.constexpr = 1,
    SIZE: tl.constexpr = 1,
    SPAN: tl.constexpr = 0,
):
    """WHOLE: rows have SIZE * TILES * BLOCK elements. DESCRIBED: TMA may copy those.

    SAMPLE: of a row, for one exchange (row_sums.py), or 0. TILES: of a row, of which the last one
    may lack elements. SIZE: programs of a cluster, which shares its rows: each has SPAN elements,
    unless they are WHOLE.
    """
    part, begin = tl.program_id(0), 0
    if SIZE > 1:
        part, begin = part // SIZE, part % SIZE * (BLOCK if WHOLE else SPAN)
    column = begin + tl.arange(0, BLOCK)[None, :]
    in_last = BLOCK if WHOLE else SPAN if SIZE > 1 else length - (TILES - 1) * BLOCK
    in_row = tl.arange(0, BLOCK)[None, :] < in_last
    weights: Any = ()
    dweights: Any = ()
    dbiases: Any = ()
    for t in tl.static_range(TILES):
        mask = in_row | (t < TILES - 1)
        weights += (tl.load(weight_ptr + t * BLOCK + column, mask=mask, other=0.0),)
        dweights += (tl.zeros((ROWS, BLOCK), dweight_parts_ptr.dtype.element_ty),)
        dbiases += (tl.zeros((ROWS, BLOCK), dweight_parts_ptr.dtype.element_ty),)
    step = tl.num_programs(0) // SIZE * ROWS
    share = 1.0 / tl.full((1, 1), length, dweight_parts_ptr.dtype.element_ty)
    if DESCRIBED:
        shape, block = [rows, SIZE * TILES * BLOCK], [ROWS, BLOCK]
        x_rows = tl.make_tensor_descriptor(x_ptr, shape, [x_stride, 1], block)
        dy_rows = tl.make_tensor_descriptor(dy_ptr, shape, [dy_stride, 1], block)
    first = part.to(tl.int64) * ROWS + tl.arange(0, ROWS)[:, None]
    next_mean, next_rstd = statistic_of(mean_ptr, first, rows), statistic_of(rstd_ptr, first, rows)
    # The next rows are loaded while sums of these are waited for, and so are their statistics, if
    # threads copy rows: 2048 x 20480 takes 77 us, without 85. If TMA does, clusters are slower:
    # 4096 x 32768 205 us, and 196 (H200, float16, 2026-11-30).
    for start in tl.range(part * ROWS, rows, step, num_stages=STAGES):
        row = start.to(tl.int64) + tl.arange(0, ROWS)[:, None]
        exists = row < rows
        xs: Any = ()
        dys: Any = ()
        for t in tl.static_range(TILES):
            inside = exists & (in_row | (t < TILES - 1))
            if DESCRIBED:
                xs += (widen(x_rows.load([start, begin + t * BLOCK])),)
                dys += (widen(dy_rows.load([start, begin + t * BLOCK])),)
            else:
                x_tile, dy_tile = x_ptr + t * BLOCK + column, dy_ptr + t * BLOCK + column
                xs += (widen(tl.load(x_tile + row * x_stride, mask=inside, other=0.0)),)
                dys += (widen(tl.load(dy_tile + row * dy_stride, mask=inside, other=0.0)),)
        if DESCRIBED:
            mean, rstd = statistic_of(mean_ptr, row, rows), statistic_of(rstd_ptr, row, rows)
        else:
            mean, rstd, after = next_mean, next_rstd, row + step
            next_mean, next_rstd = (
                statistic_of(mean_ptr, after, rows),
                statistic_of(rstd_ptr, after, rows),
            )
        mean, rstd, by_x, by_one = gradient_sums(
            *(x_ptr, mean, rstd, xs, dys, weights, row, x_stride, exists, in_row),
            length,
            share,
            CENTERED,
            EPS,
            SAMPLE,
            WHOLE,
            SIZE,
        )
        # x contributes through the variance of its row, too, and through its mean.
        slope = -by_x * share * rstd * rstd
        for t in tl.static_range(TILES):
            x, dy = xs[t], dys[t]
            if CENTERED:
                x -= mean
            scaled = dy * rstd
            dw = scaled * x
            if CENTERED:
                dx = scaled * weights[t] + (x * (slope * rstd) - by_one * share * rstd)
                dbiases = (*dbiases[:t], dbiases[t] + dy, *dbiases[t + 1 :])
            else:
                dx = scaled * weights[t] + x * (slope * rstd)
            # One more instruction each: of float32 and float64, to round less (terms of rows of one
            # element cancel), and where registers spill else.
            is_long = BLOCK > HELD or x_ptr.dtype.element_ty.primitive_bitwidth > 16
            if dx.dtype == tl.float64 or (CENTERED and is_long):
                dx = (dy * weights[t] - by_one * share + x * slope) * rstd
                dw = dy * (x * rstd)
            dweights = (*dweights[:t], dweights[t] + dw, *dweights[t + 1 :])
            inside = exists & (in_row | (t < TILES - 1))
            tl.store(dx_ptr + t * BLOCK + row * dx_stride + column, dx, mask=inside)
    for t in tl.static_range(TILES):
        at = part.to(tl.int64) * length + t * BLOCK + column
        mask = in_row | (t < TILES - 1)
        store_part(dweight_parts_ptr + at, dweights[t], mask)
        if CENTERED:
            store_part(dbias_parts_ptr + at, dbiases[t], mask)


@tile.jit
def statistic_of(ptr, row, rows):
    """Return a statistic of rows, or None if it is to be computed."""
    return None if ptr is None else tl.load(ptr + row, mask=row < rows, other=0.0)


@tile.jit
def store_part(place, sums, mask):
    """Store sums of columns, which the next launch reads: 4096 x 4096 takes 1 us less, if cached.

    Without that priority, they are written to memory before the next call stores others there.
    """
    total = tl.sum(sums, 0, keep_dims=True)
    tl.store(place, total, mask=mask, eviction_policy="evict_last")
