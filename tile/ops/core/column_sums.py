"""Sums of the columns of a matrix: the last step of sums that programs began.

Programs that each add up some rows store their sums as rows of a matrix. One program then adds up
a block of its columns in a fixed order, so results are the same in every run, as they would not be
with atomic additions. A block has all of a few columns, and as many rows as it can hold: each
iteration waits for memory once.
"""

from __future__ import annotations

import tile
import tile.language as tl
from tile.ops.core.call import Operand
from tile.ops.core.call_plans import launch

BLOCK = 8192  # elements: sums of 256 x 4096 parts are .5 us faster than by 4096 (H200, 2026-11-30)
WARP_ELEMENTS = 1024  # of a block for each warp, of which there are four at least
COLUMNS = 32  # of a block, at most: a line of float32 numbers


@tile.jit
def add_columns(
    parts_ptr, out_ptr, rows, columns, divisor, ROWS: tl.constexpr, COLUMNS: tl.constexpr
):
    column = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)[None, :]
    row = tl.arange(0, ROWS)[:, None]
    total = tl.zeros((ROWS, COLUMNS), parts_ptr.dtype.element_ty)
    for start in range(0, rows, ROWS):
        inside = (start + row < rows) & (column < columns)
        at = (start + row).to(tl.int64) * columns + column
        total += tl.load(parts_ptr + at, mask=inside, other=0.0)
    sums = tl.sum(total, axis=0, keep_dims=True) / divisor
    tl.store(out_ptr + column, sums, mask=column < columns)


@tile.jit
def column_sums_kernel(
    parts_ptr,
    out_ptr,
    other_parts_ptr,
    other_out_ptr,
    rows,
    columns,
    divisor,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    if other_parts_ptr is None:
        add_columns(parts_ptr, out_ptr, rows, columns, divisor, ROWS, COLUMNS)
    else:
        if tl.program_id(1) == 0:
            add_columns(parts_ptr, out_ptr, rows, columns, divisor, ROWS, COLUMNS)
        else:
            add_columns(other_parts_ptr, other_out_ptr, rows, columns, divisor, ROWS, COLUMNS)


def column_sums(
    parts: Operand,
    out: Operand,
    *others: Operand,
    divisor: int = 1,
) -> None:
    """Write the sums of the columns of `parts`, divided by `divisor`, to `out`, in its type.

    parts: a contiguous matrix of float32 or float64. others: a second one of the same shape and
    type, and its result.
    """
    rows, columns = parts.shape
    second = [other.value for other in others] or [None, None]
    width = min(COLUMNS, tile.next_power_of_2(columns))
    height = min(BLOCK // width, tile.next_power_of_2(rows))
    launch(column_sums_kernel, (tile.cdiv(columns, width), 2 if others else 1), dependent=True)(
        *(parts.value, out.value, *second, rows, columns, divisor),
        ROWS=height,
        COLUMNS=width,
        num_warps=max(4, height * width // WARP_ELEMENTS),
    )
