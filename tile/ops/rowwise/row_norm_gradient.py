"""The kernel of the gradients of layer and RMS normalization.

A program, or the programs of a cluster, which have a part of each row, go over every n-th row.
"""

from __future__ import annotations

import tile
import tile.language as tl
from tile.ops.core.device_functions import widen
from tile.ops.rowwise.row_sums import gradient_sums


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
    SIZE: tl.constexpr = 1,
    SPAN: tl.constexpr = 0,
):
    """WHOLE: rows have SIZE * BLOCK elements. DESCRIBED: TMA may copy those.

    SAMPLE: of a row, for one exchange (row_sums.py), or 0. SIZE: programs of a cluster, which
    shares its rows: each has SPAN elements, unless they are WHOLE.
    """
    part, begin = tl.program_id(0), 0
    if SIZE > 1:
        part, begin = part // SIZE, part % SIZE * (BLOCK if WHOLE else SPAN)
    column = begin + tl.arange(0, BLOCK)[None, :]
    if SIZE > 1 and not WHOLE:
        in_row = tl.arange(0, BLOCK)[None, :] < SPAN
    else:
        in_row = column < (SIZE * BLOCK if WHOLE else length)
    weight = tl.load(weight_ptr + column, mask=in_row, other=0.0)
    dweight = tl.zeros((ROWS, BLOCK), dweight_parts_ptr.dtype.element_ty)
    dbias = tl.zeros((ROWS, BLOCK), dweight_parts_ptr.dtype.element_ty)
    step = tl.num_programs(0) // SIZE * ROWS
    share = 1.0 / tl.full((1, 1), length, dweight.dtype)
    if DESCRIBED:
        shape, block = [rows, SIZE * BLOCK], [ROWS, BLOCK]
        x_rows = tl.make_tensor_descriptor(x_ptr, shape, [x_stride, 1], block)
        dy_rows = tl.make_tensor_descriptor(dy_ptr, shape, [dy_stride, 1], block)
    # The next rows are loaded while sums of these are waited for.
    for start in tl.range(part * ROWS, rows, step, num_stages=STAGES):
        row = start.to(tl.int64) + tl.arange(0, ROWS)[:, None]
        exists = row < rows
        inside = exists & in_row
        if DESCRIBED:
            x, dy = widen(x_rows.load([start, begin])), widen(dy_rows.load([start, begin]))
        else:
            x = widen(tl.load(x_ptr + row * x_stride + column, mask=inside, other=0.0))
            dy = widen(tl.load(dy_ptr + row * dy_stride + column, mask=inside, other=0.0))
        direct = dy * weight
        distance, rstd, by_x, by_one = gradient_sums(
            *(x_ptr, mean_ptr, rstd_ptr, x, direct, row, x_stride, exists, inside),
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
        if CENTERED:
            dweight += dy * (distance * rstd)
            dbias += dy
            dx = (direct - by_one * share + distance * slope) * rstd
        else:
            scaled = dy * rstd
            dweight += scaled * x
            dx = scaled * weight + x * (slope * rstd)
        tl.store(dx_ptr + row * dx_stride + column, dx, mask=inside)
    at = part.to(tl.int64) * length + column
    tl.store(dweight_parts_ptr + at, tl.sum(dweight, 0, keep_dims=True), mask=in_row)
    if CENTERED:
        tl.store(dbias_parts_ptr + at, tl.sum(dbias, 0, keep_dims=True), mask=in_row)
