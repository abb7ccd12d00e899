"""Rows of a table by index, and the gradient of the table.

    y[i] = weight[indices[i]]        dweight[v] = sum over i with indices[i] = v of dy[i]

Both passes copy rows. In the gradient, programs that have the same index add to the same row: the
sums are atomic, in float32 or float64, so their order and the last bits may differ between runs on
a GPU. A second kernel converts them to the type of the gradient.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import tile
import tile.language as tl
from tile.ops.core.autograd import differentiable_by
from tile.ops.core.call import INDICES, Call, accumulator
from tile.ops.core.call_plans import launch, planned
from tile.ops.core.device_functions import widen
from tile.ops.core.reference import Array

BLOCK = 1024  # elements of a row that a program copies at most


@tile.jit
def embedding_kernel(weight_ptr, indices_ptr, y_ptr, stride, rows, length, BLOCK: tl.constexpr):
    i = tl.program_id(0).to(tl.int64)
    column = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    index = tl.load(indices_ptr + i).to(tl.int64)
    tl.device_assert((index >= 0) & (index < rows), "indices are rows of weight")
    inside = column < length
    row = tl.load(weight_ptr + index * stride + column, mask=inside)
    tl.store(y_ptr + i * length + column, row, mask=inside)


@tile.jit
def embedding_backward_kernel(dy_ptr, indices_ptr, sums_ptr, rows, length, BLOCK: tl.constexpr):
    i = tl.program_id(0).to(tl.int64)
    column = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    index = tl.load(indices_ptr + i).to(tl.int64)
    tl.device_assert((index >= 0) & (index < rows), "indices are rows of the gradient")
    inside = column < length
    dy = widen(tl.load(dy_ptr + i * length + column, mask=inside, other=0.0))
    tl.atomic_add(sums_ptr + index * length + column, dy, mask=inside, sem="relaxed")


@tile.jit
def convert_kernel(x_ptr, y_ptr, n, CLEAR: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    if CLEAR:
        tl.store(y_ptr + at, tl.zeros((BLOCK,), y_ptr.dtype.element_ty), mask=at < n)
    else:
        tl.store(y_ptr + at, tl.load(x_ptr + at, mask=at < n, other=0.0), mask=at < n)


@differentiable_by("weight", rows=lambda step: step.arguments["weight"].shape[0])
@planned()
def embedding(indices: Any, weight: Any, *, out: Any = None) -> Any:
    """Return the rows of `weight` that `indices` select, of the shape of `indices` and a row.

    indices: int32 or int64, contiguous, from 0 to the number of rows - 1. weight: rows x length, of
    any float type; its rows are contiguous.
    """
    call = Call("embedding")
    table = call.array("weight", weight, rank=2)
    rows = table.rows()
    wanted = call.array("indices", indices, dtypes=INDICES).contiguous().within(0, rows.count)
    result = call.output("out", out, (*wanted.shape, rows.length), table.dtype).contiguous()
    if result.size:
        block = min(BLOCK, tile.next_power_of_2(rows.length))
        launch(embedding_kernel, (wanted.size, tile.cdiv(rows.length, block)))(
            *(weight, indices, result.value, rows.stride, rows.count, rows.length), BLOCK=block
        )
    return result.value


@planned()
def embedding_backward(dy: Any, indices: Any, rows: int, *, out: Any = None) -> Any:
    """Return the gradient of a table of `rows` rows from `dy`, that of the rows that were read.

    dy: of the shape of `indices` and a row, contiguous.
    """
    call = Call("embedding_backward")
    gradient = call.array("dy", dy).contiguous()
    count = call.integer("rows", rows, low=0)
    length = gradient.shape[-1]
    wanted = call.array("indices", indices, dtypes=INDICES, shape=gradient.shape[:-1])
    wanted.contiguous().within(0, count)
    result = call.output("out", out, (count, length), gradient.dtype).contiguous()
    if not result.size:
        return result.value
    sums_type = accumulator(gradient.dtype)
    sums = result if result.dtype == sums_type else call.new(result.shape, sums_type)
    grid = (tile.cdiv(result.size, BLOCK),)
    launch(convert_kernel, grid)(sums.value, sums.value, result.size, CLEAR=True, BLOCK=BLOCK)
    if gradient.size:
        block = min(BLOCK, tile.next_power_of_2(length))
        launch(embedding_backward_kernel, (wanted.size, tile.cdiv(length, block)))(
            *(dy, indices, sums.value, count, length), BLOCK=block
        )
    if sums is not result:
        launch(convert_kernel, grid)(
            sums.value, result.value, result.size, CLEAR=False, BLOCK=BLOCK
        )
    return result.value


def embedding_reference(indices: Array, weight: Array) -> Array:
    """Return the rows in float64."""
    result: Array = weight[indices]
    return result


def embedding_backward_reference(dy: Array, indices: Array, rows: int) -> Array:
    """Return the gradient in float64."""
    result = np.zeros((rows, dy.shape[-1]))
    np.add.at(result, indices, dy)
    return result
