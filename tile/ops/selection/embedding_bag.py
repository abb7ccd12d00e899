"""Sums, means or maxima of bags of rows of a table, and the gradient of the table.

    y[b] = sum over i from starts[b] to starts[b + 1] - 1 of scales[i] * weight[indices[i]]
    dweight[v] = sum over i with indices[i] = v of scales[i] * dy[bag of i]

A mean divides by the size of the bag; the result of an empty bag is 0. A program has a bag and a
block of columns, and adds up rows that are never stored, several of them at a time: their loads do
not wait for each other. In the gradient, bags that share an index add to one row: the sums are
atomic, as in `embedding_backward`.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

import tile
import tile.language as tl
from tile.errors import ArgumentValueError
from tile.ops.core.autograd import differentiable
from tile.ops.core.call import INDICES, Call, Operand, accumulator
from tile.ops.core.call_plans import launch, planned
from tile.ops.core.device_functions import widen
from tile.ops.core.reference import Array, wide
from tile.ops.selection.embedding import convert_kernel

BLOCK = 256  # columns of a program at most
LOADED = 4096  # elements that an iteration loads, where its rows are not too many or too few
LEAST_ITEMS, MOST_ITEMS = 8, 32
CONVERTED = 1024
MODES = ("sum", "mean", "max")


@tile.jit
def greater(a, b):
    return tl.maximum(a, b, propagate_nan=tl.PropagateNan.ALL)


@tile.jit
def embedding_bag_kernel(
    weight_ptr,
    indices_ptr,
    starts_ptr,
    scales_ptr,
    y_ptr,
    stride,
    count,
    rows,
    length,
    MODE: tl.constexpr,
    ITEMS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    bag = tl.program_id(0).to(tl.int64)
    column = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = column < length
    start, end = tl.load(starts_ptr + bag), tl.load(starts_ptr + bag + 1)
    tl.device_assert((start >= 0) & (start <= end) & (end <= count), "starts are indices")
    nothing = -float("inf") if MODE == "max" else 0.0
    total = widen(tl.full((ITEMS, BLOCK), nothing, weight_ptr.dtype.element_ty))
    for first in range(start, end, ITEMS):
        item = first + tl.arange(0, ITEMS)
        exists = item < end
        index = tl.load(indices_ptr + item, mask=exists, other=0).to(tl.int64)
        tl.device_assert((index >= 0) & (index < rows), "indices are rows of weight")
        at = index[:, None] * stride + column[None, :]
        loaded = exists[:, None] & inside[None, :]
        row = widen(tl.load(weight_ptr + at, mask=loaded, other=nothing))
        if scales_ptr is not None:
            row *= widen(tl.load(scales_ptr + item, mask=exists, other=0.0))[:, None]
        total = greater(total, row) if MODE == "max" else total + row
    if MODE == "max":
        result = tl.where(start < end, tl.reduce(total, 0, greater), 0.0)
    else:
        result = tl.sum(total, axis=0)
    if MODE == "mean":
        result = result / tl.maximum(end - start, 1)
    tl.store(y_ptr + bag * length + column, result, mask=inside)


@tile.jit
def embedding_bag_backward_kernel(
    dy_ptr,
    indices_ptr,
    starts_ptr,
    scales_ptr,
    sums_ptr,
    count,
    rows,
    length,
    MODE: tl.constexpr,
    BLOCK: tl.constexpr,
):
    bag = tl.program_id(0).to(tl.int64)
    column = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = column < length
    start, end = tl.load(starts_ptr + bag), tl.load(starts_ptr + bag + 1)
    tl.device_assert((start >= 0) & (start <= end) & (end <= count), "starts are indices")
    dy = widen(tl.load(dy_ptr + bag * length + column, mask=inside, other=0.0))
    if MODE == "mean":
        dy = dy / tl.maximum(end - start, 1)
    for i in range(start, end):
        index = tl.load(indices_ptr + i).to(tl.int64)
        tl.device_assert((index >= 0) & (index < rows), "indices are rows of the gradient")
        row = dy
        if scales_ptr is not None:
            row = dy * widen(tl.load(scales_ptr + i))
        tl.atomic_add(sums_ptr + index * length + column, row, mask=inside, sem="relaxed")


def _gradients(step: Any) -> dict[str, Any]:
    arguments, grad, gradients = step.arguments, step.grads[0], {}
    indices, starts, weight = (arguments[name] for name in ("indices", "starts", "weight"))
    if "weight" in step.needed:
        options = step.options("mode", "scales")
        rows = weight.shape[0]
        gradients["weight"] = embedding_bag_backward(grad, indices, starts, rows, **options)
    if "scales" in step.needed:
        by_index = grad.repeat_interleave(starts.diff(), 0)
        gradients["scales"] = (by_index * weight[indices]).sum(-1)
    return gradients


@differentiable(_gradients, without={"mode": ("max",)})
@planned()
def embedding_bag(
    indices: Any,
    starts: Any,
    weight: Any,
    mode: str = "sum",
    scales: Any = None,
    *,
    out: Any = None,
) -> Any:
    """Return the sum, mean or maximum of the rows of each bag, bags x length, in `weight`'s type.

    indices: int32 or int64, from 0 to the number of rows - 1. starts: of their type, for each bag
    the position of its first index, and at the end the number of indices. weight: rows x length, of
    any float type; its rows are contiguous. mode: "sum", "mean" or "max". scales: for "sum", a
    number for each index, of the type of `weight`.
    """
    call = Call("embedding_bag")
    table = call.array("weight", weight, rank=2)
    rows = table.rows()
    count = _bags(call, indices, starts, mode, scales, table, rows.count)
    result = call.output("out", out, (count, rows.length), table.dtype).contiguous()
    if result.size:
        block = min(BLOCK, tile.next_power_of_2(rows.length))
        launch(embedding_bag_kernel, (count, tile.cdiv(rows.length, block)))(
            *(weight, indices, starts, scales, result.value),
            *(rows.stride, _index_count(call), rows.count, rows.length),
            MODE=mode,
            ITEMS=max(LEAST_ITEMS, min(MOST_ITEMS, LOADED // block)),
            BLOCK=block,
        )
    return result.value


@planned()
def embedding_bag_backward(
    dy: Any,
    indices: Any,
    starts: Any,
    rows: int,
    mode: str = "sum",
    scales: Any = None,
    *,
    out: Any = None,
) -> Any:
    """Return the gradient of a table of `rows` rows from `dy`, that of the sums or means.

    dy: bags x length, contiguous. The other arguments are those of `embedding_bag`.
    """
    call = Call("embedding_bag_backward")
    gradient = call.array("dy", dy, rank=2).contiguous()
    count = call.integer("rows", rows, low=0)
    call.choice("mode", mode, MODES[:2])
    bags = _bags(call, indices, starts, mode, scales, gradient, count)
    if bags != gradient.shape[0]:
        raise ArgumentValueError(
            f"embedding_bag_backward: `dy` has {gradient.shape[0]} rows, and `starts` {bags} bags"
        )
    length = gradient.shape[1]
    result = call.output("out", out, (count, length), gradient.dtype).contiguous()
    if not result.size:
        return result.value
    kind = accumulator(gradient.dtype)
    sums = result if result.dtype == kind else call.new(result.shape, kind)
    grid = (tile.cdiv(result.size, CONVERTED),)
    launch(convert_kernel, grid)(sums.value, sums.value, result.size, CLEAR=True, BLOCK=CONVERTED)
    if bags:
        block = min(BLOCK, tile.next_power_of_2(length))
        launch(embedding_bag_backward_kernel, (bags, tile.cdiv(length, block)))(
            *(dy, indices, starts, scales, sums.value, _index_count(call), count, length),
            MODE=mode,
            BLOCK=block,
        )
    if sums is not result:
        launch(convert_kernel, grid)(
            sums.value, result.value, result.size, CLEAR=False, BLOCK=CONVERTED
        )
    return result.value


def _index_count(call: Call) -> int:
    return next(operand.size for operand in call.operands if operand.name == "indices")


def _bags(
    call: Call, indices: Any, starts: Any, mode: str, scales: Any, like: Operand, rows: int
) -> int:
    """Return the number of bags, or raise `ArgumentError`."""
    call.choice("mode", mode, MODES)
    chosen = call.array("indices", indices, dtypes=INDICES, rank=1).contiguous().within(0, rows)
    first = call.array("starts", starts, dtypes=(chosen.dtype,), rank=1).contiguous()
    if not first.size:
        raise ArgumentValueError(f"{call.op}: `starts` has no elements; the last one is the end")
    if scales is not None:
        if mode != "sum":
            raise ArgumentValueError(f"{call.op}: `scales` are for the mode 'sum', not {mode!r}")
        shape = (chosen.size,)
        call.array("scales", scales, dtypes=(like.dtype,), rank=1, shape=shape).contiguous()
    steps = first.host
    if steps is not None:
        ends = steps[0] == 0 and steps[-1] == chosen.size
        if not ends or (np.diff(steps) < 0).any():
            raise ArgumentValueError(
                f"{call.op}: `starts` is {steps.tolist()}; it must start with 0, not decrease, and "
                f"end with the number of indices, {chosen.size}"
            )
    return first.size - 1


def embedding_bag_reference(
    indices: Array,
    starts: Array,
    weight: Array,
    mode: str = "sum",
    scales: Array | None = None,
) -> Array:
    """Return the result in float64."""
    rows = wide(weight)[0][indices]
    rows = rows if scales is None else rows * wide(scales)[0][:, None]
    out = np.zeros((len(starts) - 1, weight.shape[1]))
    for bag, (start, end) in enumerate(itertools.pairwise(starts)):
        if start < end:
            out[bag] = getattr(rows[start:end], mode)(axis=0)
    return out


def embedding_bag_backward_reference(
    dy: Array,
    indices: Array,
    starts: Array,
    rows: int,
    mode: str = "sum",
    scales: Array | None = None,
) -> Array:
    """Return the gradient in float64."""
    counts = np.diff(starts)
    shares = wide(dy)[0] / (np.maximum(counts, 1)[:, None] if mode == "mean" else 1)
    by_index = np.repeat(shares, counts, axis=0)
    by_index = by_index if scales is None else by_index * wide(scales)[0][:, None]
    result = np.zeros((rows, dy.shape[1]))
    np.add.at(result, indices, by_index)
    return result
