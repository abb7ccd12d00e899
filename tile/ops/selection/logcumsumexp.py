"""Logarithms of the running sums of the exponentials of rows.

    y[i] = log(exp(x[0]) + ... + exp(x[i]))

A program goes over its row in blocks and scans pairs (m, s) that stand for s * exp(m), where m is a
maximum, so that nothing overflows.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import tile
import tile.language as tl
from tile.ops.core.autograd import differentiable_by
from tile.ops.core.call import Call
from tile.ops.core.call_plans import launch, planned
from tile.ops.core.device_functions import widen
from tile.ops.core.reference import Array
from tile.ops.core.row_tiles import parts_of, row_tile, rows_of
from tile.ops.rowwise.running_sums import part_sums
from tile.ops.selection.logcumsumexp_backward import logcumsumexp_backward

BLOCK = 512  # elements of an iteration
SHARED_BLOCK = 2048  # over a part of a row


@tile.jit
def added(m, s, other_m, other_s):
    """Return the sum of s * exp(m) and the other one as such a pair."""
    # One exponential, of the lesser maximum; equal infinities have no difference.
    share = tl.exp(tl.where(m == other_m, 0.0, -tl.abs(m - other_m)))
    total = tl.where(other_m > m, s * share + other_s, s + other_s * share)
    return tl.maximum(m, other_m), total


@tile.jit
def logcumsumexp_kernel(
    x_ptr, y_ptr, x_stride, y_stride, rows, length, ROWS: tl.constexpr, BLOCK: tl.constexpr
):
    row, exists = rows_of(rows, ROWS)
    x_ptr += row * x_stride
    kind: tl.constexpr = widen(tl.zeros((1,), x_ptr.dtype.element_ty)).dtype
    most, total = tl.full((ROWS, 1), -float("inf"), kind), tl.zeros((ROWS, 1), kind)
    for start in range(0, length, BLOCK):
        column = start + tl.arange(0, BLOCK)[None, :]
        inside = exists & (column < length)
        x = widen(tl.load(x_ptr + column, mask=inside, other=-float("inf")))
        ones = tl.full((ROWS, BLOCK), 1.0, kind)
        m, s = tl.associative_scan((x, ones), 1, added)
        m, s = added(most, total, m, s)
        y = (m + tl.log(s)).to(y_ptr.dtype.element_ty)
        tl.store(y_ptr + row * y_stride + column, y, mask=inside)
        block_m, block_s = tl.reduce((x, ones), 1, added, keep_dims=True)
        most, total = added(most, total, block_m, block_s)


@tile.jit
def shared_logcumsumexp_kernel(
    x_ptr,
    most_ptr,
    total_ptr,
    y_ptr,
    x_stride,
    y_stride,
    length,
    span,
    PARTS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Store the results of a part of a row, from the maxima and sums of the parts before it."""
    part, row = tl.program_id(0), tl.program_id(1).to(tl.int64)
    lane = tl.arange(0, PARTS)
    at = row * tl.num_programs(0) + lane
    before = tl.load(most_ptr + at, mask=lane < part, other=-float("inf"))
    sums = tl.load(total_ptr + at, mask=lane < part, other=0.0)
    most, total = tl.reduce((before, sums), 0, added)
    for start in range(part * span, min(length, (part + 1) * span), BLOCK):
        column = start + tl.arange(0, BLOCK)
        inside = column < length
        x = widen(tl.load(x_ptr + row * x_stride + column, mask=inside, other=-float("inf")))
        ones = tl.full((BLOCK,), 1.0, x.dtype)
        m, s = tl.associative_scan((x, ones), 0, added)
        m, s = added(most, total, m, s)
        y = (m + tl.log(s)).to(y_ptr.dtype.element_ty)
        tl.store(y_ptr + row * y_stride + column, y, mask=inside)
        block_m, block_s = tl.reduce((x, ones), 0, added)
        most, total = added(most, total, block_m, block_s)


@differentiable_by("x", results="y", backward=logcumsumexp_backward)
@planned()
def logcumsumexp(x: Any, *, out: Any = None) -> Any:
    """Return the logarithms of the running sums of exp(x) along the last axis, in the type of `x`.

    x: a float type. `out` may be `x` itself.
    """
    call = Call("logcumsumexp")
    source = call.array("x", x)
    result = call.output("out", out, source.shape, source.dtype, in_place=("x",))
    rows, y = source.rows(), result.rows()
    parts, span = parts_of(rows)
    if parts > 1:
        most, total = part_sums(call, x, rows, parts, span)
        launch(shared_logcumsumexp_kernel, (parts, rows.count))(
            *(x, most.value, total.value, result.value, rows.stride, y.stride, rows.length, span),
            PARTS=tile.next_power_of_2(parts),
            BLOCK=SHARED_BLOCK,
        )
    elif result.size:
        shape = row_tile(call.backend, rows, BLOCK)
        launch(logcumsumexp_kernel, (tile.cdiv(rows.count, shape["ROWS"]),))(
            *(x, result.value, rows.stride, y.stride, rows.count, rows.length), **shape
        )
    return result.value


def logcumsumexp_reference(x: Array) -> Array:
    """Return the result in float64."""
    return np.logaddexp.accumulate(x, axis=-1)
