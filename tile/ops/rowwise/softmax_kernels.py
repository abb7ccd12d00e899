"""The kernels of softmax and its logarithm.

The limit is memory: a row is read once and written once. Short rows stay in registers between both,
and programs hold parts of longer ones (part_softmax.py). Rows of more than `LONGEST` elements that
are no whole vectors are read twice: the first pass keeps a running maximum and a running sum
(running_sums.py); the second computes the results. Where there are few long rows, several programs
share each: they store the maximum and the sum of their parts, from which a second kernel starts.
"""

from __future__ import annotations

from typing import Any

import tile
import tile.language as tl
from tile.ops.core.call import Call
from tile.ops.core.call_plans import launch
from tile.ops.core.device_functions import widen
from tile.ops.core.row_tiles import PART, parts_of, row_tile, rows_of
from tile.ops.core.row_vectors import vector_of, vectors_of
from tile.ops.core.tables import ANY, Table
from tile.ops.rowwise.part_softmax import PARTS, part_softmax_kernel
from tile.ops.rowwise.row_parts import UNALIGNED, row_parts
from tile.ops.rowwise.running_sums import (
    PART_WARPS,
    part_sums,
    running_sum,
    sum_of_parts,
    with_block,
)

LONGEST = 16384  # elements of a row in registers: 64 for each of 8 warps' 256 threads
# Elements of 16 bits of a row, of which a tile of a power of two takes longer: 16384 x 2056 48 us
# and 34, x 2560 50 and 41, 8192 x 5000 46 and 41. H200, 2026-12-01.
PADDED = 6144
# Of longer rows, by their length and the bytes of an element. H200, 2026-11-29.
LONG_TILES = Table(
    {(ANY, ANY): {"BLOCK": 4096}},
    {
        "nvptx": {
            (32768, ANY): {"BLOCK": 4096, "num_warps": 8},
            (65536, 2): {"BLOCK": 8192, "num_warps": 16},
            (ANY, ANY): {"BLOCK": 16384, "num_warps": 32},
        }
    },
)


@tile.jit
def softmax_kernel(
    x_ptr,
    y_ptr,
    x_stride,
    y_stride,
    rows,
    length,
    LOG: tl.constexpr,
    ROWS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    row, exists = rows_of(rows, ROWS)
    column = tl.arange(0, BLOCK)[None, :]
    inside = exists & (column < length)
    # Elements past the end of a row do not change its maximum, and exp makes them 0.
    x = widen(tl.load(x_ptr + row * x_stride + column, mask=inside, other=-float("inf")))
    # A row of -inf alone has no softmax: -inf - -inf is NaN, as in NumPy and torch.
    x -= tl.max(x, axis=1, keep_dims=True)
    powers = tl.exp(x)
    total = tl.sum(powers, axis=1, keep_dims=True)
    y = x - tl.log(total) if LOG else powers / total
    tl.store(y_ptr + row * y_stride + column, y, mask=inside)


@tile.jit
def store_block(x_ptr, y_ptr, column, inside, most, share, LOG: tl.constexpr):
    # A row of -inf alone has no softmax: -inf - -inf is NaN, as in NumPy and torch.
    x = widen(tl.load(x_ptr + column, mask=inside)) - most
    tl.store(y_ptr + column, x + share if LOG else tl.exp(x) * share, mask=inside)


@tile.jit
def store_softmax(x_ptr, y_ptr, start, end, most, total, LOG: tl.constexpr, BLOCK: tl.constexpr):
    share = -tl.log(total) if LOG else 1.0 / total
    for at in range(start, end, BLOCK):
        column = at + tl.arange(0, BLOCK)
        store_block(x_ptr, y_ptr, column, column < end, most, share, LOG)


@tile.jit
def long_softmax_kernel(
    x_ptr,
    y_ptr,
    x_stride,
    y_stride,
    length,
    LOG: tl.constexpr,
    VECTOR: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Store the softmax of a row; VECTOR is 1 or both strides are equal."""
    row = tl.program_id(0).to(tl.int64)
    first, count, place, inside = vectors_of(row, x_stride, length, VECTOR)
    x_ptr += first
    y_ptr += first if VECTOR > 1 else row * y_stride
    most, total = running_sum(x_ptr, 0, count, BLOCK)
    if VECTOR > 1:
        rest = widen(tl.load(x_ptr + place, mask=inside, other=-float("inf")))
        most, total = with_block(most, total, rest)
    store_softmax(x_ptr, y_ptr, 0, count, most, total, LOG, BLOCK)
    if VECTOR > 1:
        share = -tl.log(total) if LOG else 1.0 / total
        store_block(x_ptr, y_ptr, place, inside, most, share, LOG)


@tile.jit
def shared_softmax_kernel(
    x_ptr,
    y_ptr,
    most_ptr,
    total_ptr,
    x_stride,
    y_stride,
    length,
    span,
    LOG: tl.constexpr,
    PARTS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    part, row = tl.program_id(0), tl.program_id(1).to(tl.int64)
    most, total = sum_of_parts(most_ptr, total_ptr, row, tl.num_programs(0), PARTS)
    start, end = part * span, min(length, (part + 1) * span)
    x_ptr += row * x_stride
    store_softmax(x_ptr, y_ptr + row * y_stride, start, end, most, total, LOG, BLOCK)


def softmax_rows(op: str, x: Any, out: Any, log: bool) -> Any:
    """Return the softmax of the rows of `x`, or its logarithm."""
    call = Call(op)
    source = call.array("x", x)
    result = call.output("out", out, source.shape, source.dtype, in_place=("x",))
    rows, y = source.rows(), result.rows()
    strides = (rows.stride, y.stride)
    if not result.size:
        return result.value
    parts, span = parts_of(rows)
    tiles = PARTS.select(call.backend, rows.length, source.dtype.itemsize)
    row_tiles: dict[str, Any] = {}
    if parts == 1:
        unaligned = tiles or UNALIGNED.select(call.backend, rows.length, source.dtype.itemsize)
        if source.dtype.itemsize == 2 and rows.length <= PADDED:
            tiles = unaligned
        row_tiles = row_parts(call, source, tiles, *strides, unaligned=unaligned)
    if row_tiles:
        launch(part_softmax_kernel, (rows.count * row_tiles["SIZE"],), dependent=True)(
            *(x, result.value, *strides, rows.length), LOG=log, **row_tiles
        )
    elif rows.length <= LONGEST:
        shape = row_tile(call.backend, rows, LONGEST)
        launch(softmax_kernel, (tile.cdiv(rows.count, shape["ROWS"]),), dependent=True)(
            *(x, result.value, *strides, rows.count, rows.length), LOG=log, **shape
        )
    elif parts == 1:
        launch(long_softmax_kernel, (rows.count,), dependent=True)(
            *(x, result.value, *strides, rows.length),
            LOG=log,
            VECTOR=vector_of(source.dtype, *strides),
            **LONG_TILES.select(call.backend, rows.length, source.dtype.itemsize),
        )
    else:
        most, total = part_sums(call, x, rows, parts, span)
        launch(shared_softmax_kernel, (parts, rows.count), dependent=True)(
            *(x, result.value, most.value, total.value, *strides, rows.length, span),
            LOG=log,
            PARTS=tile.next_power_of_2(parts),
            BLOCK=PART,
            num_warps=PART_WARPS,
        )
    return result.value
