"""Running sums of the rows of an array.

    y[i] = x[0] + ... + x[i]        reverse: y[i] = x[i] + ... + x[n - 1]

A program goes over its row in blocks, scans each, and adds the sum of the blocks before. The
gradient of a running sum is the running sum of dy from the other end.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import tile
import tile.language as tl
from tile.ops.core.autograd import differentiable
from tile.ops.core.call import FLOATS, I32, I64, Call, accumulator
from tile.ops.core.call_plans import launch, planned
from tile.ops.core.device_functions import widen
from tile.ops.core.reference import Array
from tile.ops.core.row_tiles import PART, parts_of, row_tile, rows_of
from tile.ops.core.tables import Table

NUMBERS = (*FLOATS, I32, I64)  # types of running sums, and others
BLOCK = 2048  # elements of an iteration
SHARED = Table({(): {}}, {"nvptx": {(): {"num_warps": 8}}})


@tile.jit
def cumsum_kernel(
    x_ptr,
    y_ptr,
    x_stride,
    y_stride,
    rows,
    length,
    REVERSE: tl.constexpr,
    ROWS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    row, exists = rows_of(rows, ROWS)
    lane = tl.arange(0, BLOCK)[None, :]
    before = tl.zeros((ROWS, 1), widen_sum(tl.zeros((1,), x_ptr.dtype.element_ty)).dtype)
    # The next block is loaded while threads exchange sums of this one.
    for start in tl.range(0, length, BLOCK, num_stages=2):
        column = start + lane
        inside = exists & (column < length)
        if REVERSE:
            column = length - 1 - column
        x = widen_sum(tl.load(x_ptr + row * x_stride + column, mask=inside, other=0))
        y = before + tl.cumsum(x, axis=1)
        tl.store(y_ptr + row * y_stride + column, y.to(y_ptr.dtype.element_ty), mask=inside)
        before += tl.sum(x, axis=1, keep_dims=True)


@tile.jit
def part_sums_kernel(
    x_ptr, sums_ptr, stride, length, span, REVERSE: tl.constexpr, BLOCK: tl.constexpr
):
    """Store the sum of each part of a row."""
    part, row = tl.program_id(0), tl.program_id(1).to(tl.int64)
    total = tl.zeros((BLOCK,), sums_ptr.dtype.element_ty)
    end = min(length, (part + 1) * span)
    for start in range(part * span, end, BLOCK):
        column = start + tl.arange(0, BLOCK)
        inside = column < end
        if REVERSE:
            column = length - 1 - column
        total += widen_sum(tl.load(x_ptr + row * stride + column, mask=inside, other=0))
    tl.store(sums_ptr + row * tl.num_programs(0) + part, tl.sum(total, axis=0))


@tile.jit
def shared_cumsum_kernel(
    x_ptr,
    sums_ptr,
    y_ptr,
    x_stride,
    y_stride,
    length,
    span,
    REVERSE: tl.constexpr,
    PARTS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Store the running sums of a part of a row, the last parts first: caches may have those."""
    part, row = tl.num_programs(0) - 1 - tl.program_id(0), tl.program_id(1).to(tl.int64)
    lane = tl.arange(0, PARTS)
    sums = tl.load(sums_ptr + row * tl.num_programs(0) + lane, mask=lane < part, other=0)
    before = tl.sum(sums, axis=0)
    end = min(length, (part + 1) * span)
    for start in range(part * span, end, BLOCK):
        column = start + tl.arange(0, BLOCK)
        inside = column < end
        if REVERSE:
            column = length - 1 - column
        x = widen_sum(tl.load(x_ptr + row * x_stride + column, mask=inside, other=0))
        y = before + tl.cumsum(x, axis=0)
        tl.store(y_ptr + row * y_stride + column, y.to(y_ptr.dtype.element_ty), mask=inside)
        before += tl.sum(x, axis=0)


@tile.jit
def widen_sum(x):
    """Return `x` in the type of sums: integers stay as they are."""
    return widen(x) if x.dtype.is_floating() else x


def _gradients(step: Any) -> dict[str, Any]:
    return {"x": cumsum(step.grads[0], not step.arguments.get("reverse", False))}


@differentiable(_gradients)
@planned()
def cumsum(x: Any, reverse: bool = False, *, out: Any = None) -> Any:
    """Return the running sums along the last axis of `x`, in its type; integers wrap.

    x: a float type, int32 or int64. reverse: from the last element. The gradient is
    `cumsum(dy, reverse=not reverse)`. `out` may be `x` itself.
    """
    call = Call("cumsum")
    source = call.array("x", x, dtypes=NUMBERS)
    result = call.output("out", out, source.shape, source.dtype, in_place=("x",))
    rows, y = source.rows(), result.rows()
    parts, span = parts_of(rows)
    if parts > 1:
        kind = accumulator(source.dtype) if source.dtype in FLOATS else source.dtype
        sums = call.new((rows.count, parts), kind)
        launch(part_sums_kernel, (parts, rows.count), dependent=True)(
            *(x, sums.value, rows.stride, rows.length, span),
            REVERSE=bool(reverse),
            BLOCK=PART,
            **SHARED.select(call.backend),
        )
        launch(shared_cumsum_kernel, (parts, rows.count), dependent=True)(
            *(x, sums.value, result.value, rows.stride, y.stride, rows.length, span),
            REVERSE=bool(reverse),
            PARTS=tile.next_power_of_2(parts),
            BLOCK=PART,
            **SHARED.select(call.backend),
        )
    elif result.size:
        shape = row_tile(call.backend, rows, BLOCK)
        launch(cumsum_kernel, (tile.cdiv(rows.count, shape["ROWS"]),), dependent=True)(
            *(x, result.value, rows.stride, y.stride, rows.count, rows.length),
            REVERSE=bool(reverse),
            **shape,
        )
    return result.value


def cumsum_reference(x: Array, reverse: bool) -> Array:
    """Return the sums in float64, or in int64 for integers."""
    wide = x.astype(np.int64 if x.dtype.kind == "i" else np.float64)
    result: Array = np.flip(np.flip(wide, -1).cumsum(-1), -1) if reverse else wide.cumsum(-1)
    return result
