"""Rows of a table by index.

    y[i] = weight[indices[i]]

embedding_backward.py has the gradient of the table.
"""

from __future__ import annotations

from typing import Any

import tile
import tile.language as tl
from tile.ops.core.autograd import differentiable_by
from tile.ops.core.call import INDICES, Call
from tile.ops.core.call_plans import launch, planned
from tile.ops.core.reference import Array
from tile.ops.core.row_tiles import PROGRAMS
from tile.ops.selection.embedding_backward import embedding_backward

ELEMENTS = 2048  # that a program copies at most


@tile.jit
def embedding_kernel(
    weight_ptr,
    indices_ptr,
    y_ptr,
    stride,
    count,
    rows,
    length,
    ROWS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    i = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)[:, None]
    column = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)[None, :]
    index = tl.load(indices_ptr + i, mask=i < count, other=0).to(tl.int64)
    tl.device_assert((index >= 0) & (index < rows), "indices are rows of weight", mask=i < count)
    inside = (i < count) & (column < length)
    row = tl.load(weight_ptr + index * stride + column, mask=inside)
    tl.store(y_ptr + i * length + column, row, mask=inside)


@differentiable_by(
    "weight", backward=embedding_backward, rows=lambda step: step.arguments["weight"].shape[0]
)
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
        block = min(ELEMENTS, tile.next_power_of_2(rows.length))
        count = min(ELEMENTS // block, tile.next_power_of_2(max(1, wanted.size // PROGRAMS)))
        launch(
            embedding_kernel,
            (tile.cdiv(wanted.size, count), tile.cdiv(rows.length, block)),
            dependent=True,
        )(
            *(weight, indices, result.value, rows.stride, wanted.size, rows.count, rows.length),
            ROWS=count,
            BLOCK=block,
        )
    return result.value


def embedding_reference(indices: Array, weight: Array) -> Array:
    """Return the rows in float64."""
    result: Array = weight[indices]
    return result
