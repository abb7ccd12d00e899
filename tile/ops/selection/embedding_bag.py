"""Sums, means or maxima of bags of rows of a table.

    y[b] = sum over i from starts[b] to starts[b + 1] - 1 of scales[i] * weight[indices[i]]

A mean divides by the size of the bag; the result of an empty bag is 0. A program has a bag and a
block of columns, and adds up rows that are never stored, several of them at a time: their loads do
not wait for each other.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

import tile
import tile.language as tl
from tile.ops.core.autograd import differentiable
from tile.ops.core.call import Call
from tile.ops.core.call_plans import launch, planned
from tile.ops.core.device_functions import widen
from tile.ops.core.reference import Array
from tile.ops.selection.bags import BLOCK, bags_of, index_count
from tile.ops.selection.embedding_bag_backward import embedding_bag_backward

LOADED = 4096  # elements that an iteration loads, where its rows are not too many or too few
LEAST_ITEMS, MOST_ITEMS = 8, 32


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
    count = bags_of(call, indices, starts, mode, scales, table, rows.count)
    result = call.output("out", out, (count, rows.length), table.dtype).contiguous()
    if result.size:
        block = min(BLOCK, tile.next_power_of_2(rows.length))
        launch(embedding_bag_kernel, (count, tile.cdiv(rows.length, block)))(
            *(weight, indices, starts, scales, result.value),
            *(rows.stride, index_count(call), rows.count, rows.length),
            MODE=mode,
            ITEMS=max(LEAST_ITEMS, min(MOST_ITEMS, LOADED // block)),
            BLOCK=block,
        )
    return result.value


def embedding_bag_reference(
    indices: Array, starts: Array, weight: Array, mode: str, scales: Array | None
) -> Array:
    """Return the result in float64."""
    rows = weight[indices]
    rows = rows if scales is None else rows * scales[:, None]
    out = np.zeros((len(starts) - 1, weight.shape[1]))
    for bag, (start, end) in enumerate(itertools.pairwise(starts)):
        if start < end:
            out[bag] = getattr(rows[start:end], mode)(axis=0)
    return out
