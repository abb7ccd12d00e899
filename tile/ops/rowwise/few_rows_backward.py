"""The gradients of layer and RMS normalization of few rows, of which programs share each.

Programs add up parts of the rows first: sums of g and g * n, where g = dy * weight. Others then
have some columns of all rows, whose dx they store, and whose sums dweight and dbias are. They read
dy and x a second time, from the L2 cache.
"""

from __future__ import annotations

from typing import Any

import tile
import tile.language as tl
from tile.ops.core.call import Call, Operand
from tile.ops.core.call_plans import launch
from tile.ops.core.device_functions import widen
from tile.ops.core.operand import Rows

PART = 2048  # elements of a row that a program adds up
COLUMNS = 64  # of a program at least
ELEMENTS = 2048  # of a program's tile of columns
PROGRAMS = 264  # that share the columns: two for each multiprocessor of an H200


@tile.jit
def direct_and_normal(dy_ptr, x_ptr, weight, mean_ptr, rstd_ptr, row, dy_at, x_at, exists, inside):
    """Return g, n, dy and rstd."""
    dy = widen(tl.load(dy_ptr + dy_at, mask=inside, other=0.0))
    x = widen(tl.load(x_ptr + x_at, mask=inside, other=0.0))
    rstd = tl.load(rstd_ptr + row, mask=exists, other=0.0)
    if mean_ptr is not None:
        x = tl.where(inside, x - tl.load(mean_ptr + row, mask=exists, other=0.0), 0.0)
    return dy * weight, x * rstd, dy, rstd


@tile.jit
def row_parts_kernel(
    dy_ptr,
    x_ptr,
    weight_ptr,
    mean_ptr,
    rstd_ptr,
    sums_ptr,
    dy_stride,
    x_stride,
    length,
    BLOCK: tl.constexpr,
):
    """Store the sums of g * n and of g of a part of a row."""
    part, row = tl.program_id(0), tl.program_id(1).to(tl.int64)
    column = part * BLOCK + tl.arange(0, BLOCK)
    inside = column < length
    weight = tl.load(weight_ptr + column, mask=inside, other=0.0)
    direct, normal, _, _ = direct_and_normal(
        dy_ptr,
        x_ptr,
        weight,
        mean_ptr,
        rstd_ptr,
        row,
        row * dy_stride + column,
        row * x_stride + column,
        True,
        inside,
    )
    at = sums_ptr + 2 * (row * tl.num_programs(0) + part)
    tl.store(at, tl.sum(direct * normal, axis=0))
    tl.store(at + 1, tl.sum(direct, axis=0))


@tile.jit
def columns_backward_kernel(
    dy_ptr,
    x_ptr,
    weight_ptr,
    mean_ptr,
    rstd_ptr,
    sums_ptr,
    dx_ptr,
    dweight_ptr,
    dbias_ptr,
    dy_stride,
    x_stride,
    dx_stride,
    rows,
    length,
    parts,
    PARTS: tl.constexpr,
    ROWS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    column = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)[None, :]
    part = tl.arange(0, PARTS)[None, :]
    weight = tl.load(weight_ptr + column, mask=column < length, other=0.0)
    dweight = tl.zeros((ROWS, BLOCK), sums_ptr.dtype.element_ty)
    dbias = dweight
    for start in range(0, rows, ROWS):
        row = start + tl.arange(0, ROWS)[:, None].to(tl.int64)
        exists = row < rows
        inside = exists & (column < length)
        direct, normal, dy, rstd = direct_and_normal(
            dy_ptr,
            x_ptr,
            weight,
            mean_ptr,
            rstd_ptr,
            row,
            row * dy_stride + column,
            row * x_stride + column,
            exists,
            inside,
        )
        at = sums_ptr + 2 * (row * parts + part)
        by_normal = tl.load(at, mask=exists & (part < parts), other=0.0)
        dx = direct - normal * (tl.sum(by_normal, axis=1, keep_dims=True) / length)
        if mean_ptr is not None:
            sums = tl.load(at + 1, mask=exists & (part < parts), other=0.0)
            dx -= tl.sum(sums, axis=1, keep_dims=True) / length
            dbias += dy
        tl.store(dx_ptr + row * dx_stride + column, dx * rstd, mask=inside)
        dweight += dy * normal
    tl.store(dweight_ptr + column, tl.sum(dweight, 0, keep_dims=True), mask=column < length)
    if mean_ptr is not None:
        tl.store(dbias_ptr + column, tl.sum(dbias, 0, keep_dims=True), mask=column < length)


def few_rows_backward(
    call: Call,
    arrays: tuple[Any, ...],
    rows: Rows,
    dy_stride: int,
    dx: Operand,
    kind: Any,
    sums: list[Operand],
) -> None:
    """Write the gradients of x, and of the weight and the bias, which are `sums`.

    arrays: dy, x, weight, mean or None, and rstd.
    """
    part = min(PART, tile.next_power_of_2(rows.length))
    parts = tile.cdiv(rows.length, part)
    partial = call.new((rows.count, parts, 2), kind).value
    launch(row_parts_kernel, (parts, rows.count), dependent=True)(
        *(*arrays, partial, dy_stride, rows.stride, rows.length),
        BLOCK=part,
    )
    block = max(COLUMNS, tile.next_power_of_2(tile.cdiv(rows.length, PROGRAMS)))
    block = min(block, ELEMENTS)
    launch(columns_backward_kernel, (tile.cdiv(rows.length, block),), dependent=True)(
        *(*arrays, partial, dx.value, *([each.value for each in sums] + [None])[:2]),
        *(dy_stride, rows.stride, rows.length, rows.count, rows.length, parts),
        PARTS=tile.next_power_of_2(parts),
        ROWS=min(ELEMENTS // block, tile.next_power_of_2(rows.count)),
        BLOCK=block,
    )
