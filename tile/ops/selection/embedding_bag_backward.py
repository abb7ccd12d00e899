"""The gradient of the table whose rows `embedding_bag` adds up.

    dweight[v] = sum over i with indices[i] = v of scales[i] * dy[bag of i]

Bags that share an index add to one row: the sums are atomic, in float32 or float64, so their order
and the last bits may differ between runs on a GPU. A second kernel converts them to the type of the
gradient.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import tile
import tile.language as tl
from tile.errors import ArgumentValueError
from tile.ops.core.call import Call, accumulator
from tile.ops.core.call_plans import launch, planned
from tile.ops.core.contiguous import clear, convert
from tile.ops.core.device_functions import widen
from tile.ops.core.reference import Array
from tile.ops.selection.bags import BLOCK, MODES, bags_of, index_count


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
    bags = bags_of(call, indices, starts, mode, scales, gradient, count)
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
    clear(sums)
    if bags:
        block = min(BLOCK, tile.next_power_of_2(length))
        launch(embedding_bag_backward_kernel, (bags, tile.cdiv(length, block)))(
            *(dy, indices, starts, scales, sums.value, index_count(call), count, length),
            MODE=mode,
            BLOCK=block,
        )
    if sums is not result:
        convert(sums, result)
    return result.value


def embedding_bag_backward_reference(
    dy: Array, indices: Array, starts: Array, rows: int, mode: str, scales: Array | None
) -> Array:
    """Return the gradient in float64."""
    counts = np.diff(starts)
    shares = dy / (np.maximum(counts, 1)[:, None] if mode == "mean" else 1)
    by_index = np.repeat(shares, counts, axis=0)
    by_index = by_index if scales is None else by_index * scales[:, None]
    result = np.zeros((rows, dy.shape[1]))
    np.add.at(result, indices, by_index)
    return result
