"""The gradient of a table whose rows are selected by index.

    dweight[v] = sum over i with indices[i] = v of dy[i]

Numbers of rows of dy are sorted by their index, so that those of equal indices are a run. A program
adds up the runs of CHUNK of them, and stores the sum of a run that is whole. For runs of several
chunks, partial sums are added up by a second kernel. Sums have a fixed order, and each row of the
gradient is written once after it was cleared.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import tile
import tile.language as tl
from tile.ops.core.call import INDICES, Call, accumulator
from tile.ops.core.call_plans import launch, planned
from tile.ops.core.contiguous import clear
from tile.ops.core.device_functions import widen
from tile.ops.core.reference import Array
from tile.ops.selection.index_order import sorted_indices

CHUNK = 16  # rows of dy that a program adds up
BYTES = 512  # of a row that a program, of one warp, adds up: a vector for each thread
RUN_BLOCK = 128  # of a run of several chunks
HEADS = 32  # partial sums of a run that are added at a time


@tile.jit
def chunk_sums_kernel(
    dy_ptr,
    sorted_ptr,
    positions_ptr,
    y_ptr,
    partial_ptr,
    count,
    length,
    CHUNK: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Store the sums of runs; of runs of several chunks, partial sums.

    partial: for each chunk, that of a run that begins before it, and of one that ends behind it.
    """
    chunk = tl.program_id(0)
    start = chunk * CHUNK
    column = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = column < length
    rows: Any = ()
    indices: Any = ()
    for j in tl.static_range(CHUNK):  # all rows are loaded before one is added
        exists = start + j < count
        row = tl.load(positions_ptr + (start + j), mask=exists, other=0).to(tl.int64)
        rows += (tl.load(dy_ptr + (row * length + column), mask=inside & exists, other=0.0),)
        indices += (tl.load(sorted_ptr + (start + j), mask=exists, other=-1),)
    end = start + CHUNK
    indices += (tl.load(sorted_ptr + end, mask=end < count, other=-1),)
    before = tl.load(sorted_ptr + (start - 1), mask=start > 0, other=-1)
    earlier: Any = indices[0] == before  # the run begins before the chunk
    sums = widen(tl.zeros((BLOCK,), dy_ptr.dtype.element_ty))
    for j in tl.static_range(CHUNK):
        sums += widen(rows[j])
        index, exists = indices[j], start + j < count
        ends = index != indices[j + 1]
        whole = ends & ~earlier & exists
        tl.store(y_ptr + (index.to(tl.int64) * length + column), sums, mask=inside & whole)
        partial = exists & ~whole if j == CHUNK - 1 else exists & ends & earlier
        at = tl.where(earlier, 2 * chunk, 2 * chunk + 1).to(tl.int64) * length + column
        tl.store(partial_ptr + at, sums, mask=inside & partial)
        sums = tl.where(ends, 0.0, sums)
        earlier &= ~ends


@tile.jit
def run_sums_kernel(
    sorted_ptr,
    y_ptr,
    partial_ptr,
    count,
    length,
    chunks,
    CHUNK: tl.constexpr,
    HEADS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Add the partial sums of the run that begins in a chunk and ends behind it."""
    chunk = tl.program_id(0)
    end = (chunk + 1) * CHUNK
    index = tl.load(sorted_ptr + end - 1)
    before = tl.load(sorted_ptr + (chunk * CHUNK - 1), mask=chunk > 0, other=-1)
    after = tl.load(sorted_ptr + end, mask=end < count, other=-1)
    if (before != index) & (after == index):
        column = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)[None, :]
        inside = column < length
        at = (2 * chunk.to(tl.int64) + 1) * length + column
        total = tl.load(partial_ptr + at, mask=inside, other=0.0)
        first, more = chunk + 1, True
        while more:
            number = first + tl.arange(0, HEADS)[:, None]
            other = tl.load(sorted_ptr + number * CHUNK, mask=number < chunks, other=-1)
            equal = other == index
            at = 2 * number.to(tl.int64) * length + column
            heads = tl.load(partial_ptr + at, mask=equal & inside, other=0.0)
            total += tl.sum(heads, axis=0, keep_dims=True)
            first += HEADS
            more = tl.sum(equal.to(tl.int32)) == HEADS
        tl.store(y_ptr + index.to(tl.int64) * length + column, total, mask=inside)


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
    clear(result)
    if gradient.size:
        order = sorted_indices(call, wanted, count)
        block = min(BYTES // gradient.dtype.itemsize, tile.next_power_of_2(length))
        chunks, blocks = tile.cdiv(wanted.size, CHUNK), tile.cdiv(length, block)
        partial = call.new((chunks, 2, length), accumulator(gradient.dtype)).value
        launch(chunk_sums_kernel, (chunks, blocks), dependent=True)(
            *(dy, *order, result.value, partial, wanted.size, length),
            CHUNK=CHUNK,
            BLOCK=block,
            num_warps=1,
        )
        if chunks > 1:
            block = min(block, RUN_BLOCK)
            launch(run_sums_kernel, (chunks - 1, tile.cdiv(length, block)), dependent=True)(
                *(order[0], result.value, partial, wanted.size, length, chunks),
                CHUNK=CHUNK,
                HEADS=HEADS,
                BLOCK=block,
            )
    return result.value


def embedding_backward_reference(dy: Array, indices: Array, rows: int) -> Array:
    """Return the gradient in float64."""
    result = np.zeros((rows, dy.shape[-1]))
    np.add.at(result, indices, dy)
    return result
