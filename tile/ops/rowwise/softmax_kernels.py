"""The kernels of softmax and its logarithm.

The limit is memory: a row is read once and written once. Up to `LONGEST` elements stay in registers
between both. A longer row is read twice: the first pass keeps a running maximum and a running sum,
which shrinks by exp(old maximum - new maximum) whenever the maximum grows (Milakov and Gimelshein,
arXiv:1805.02867); the second computes the results. Where there are few long rows, several programs
share each: they store the maximum and the sum of their parts, from which a second kernel starts.
"""

from __future__ import annotations

from typing import Any

import tile
import tile.language as tl
from tile.ops.core.call import Call, accumulator
from tile.ops.core.call_plans import launch
from tile.ops.core.device_functions import widen
from tile.ops.core.operand import Operand, Rows
from tile.ops.core.row_tiles import PART, parts_of, row_tile, rows_of
from tile.ops.core.row_vectors import vector_of, vectors_of
from tile.ops.core.tables import ANY, Table

LONGEST = 16384  # elements of a row in registers: 64 for each of 8 warps' 256 threads
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
PART_WARPS = 8


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
def running_sum(x_ptr, start, end, BLOCK: tl.constexpr):
    """Return the maximum of the elements from `start` to `end`, and the sum of exp(x - maximum)."""
    column = start + tl.arange(0, BLOCK)
    # A maximum and a sum for each lane.
    highest = widen(tl.load(x_ptr + column, mask=column < end, other=-float("inf")))
    total = tl.full((BLOCK,), 1.0, highest.dtype)
    for at in range(start + BLOCK, end, BLOCK):
        column = at + tl.arange(0, BLOCK)
        x = widen(tl.load(x_ptr + column, mask=column < end, other=-float("inf")))
        # Equal infinities have no difference.
        power = tl.exp(tl.where(x == highest, 0.0, -tl.abs(x - highest)))
        total = tl.where(x > highest, total * power + 1.0, total + power)
        highest = tl.maximum(highest, x)
    return merged_sum(highest, total)


@tile.jit
def sum_of_blocks(x_ptr, end, BLOCK: tl.constexpr):
    """Return what `running_sum` does, by a maximum of each block in place of each lane.

    That takes less instructions, and barriers, which cost less than these if a row is read once.
    """
    kind: tl.constexpr = widen(tl.zeros((1,), x_ptr.dtype.element_ty)).dtype
    most, total = tl.full((), -float("inf"), kind), tl.zeros((), kind)
    for at in range(0, end, BLOCK):
        column = at + tl.arange(0, BLOCK)
        x = widen(tl.load(x_ptr + column, mask=column < end, other=-float("inf")))
        most, total = with_block(most, total, x)
    return most, total


@tile.jit
def with_block(most, total, x):
    """Return a maximum and a sum of exp(x - maximum) with those of more elements."""
    higher = tl.maximum(most, tl.max(x, axis=0))
    origin = tl.where(higher == -float("inf"), 0.0, higher)  # -inf - -inf would be NaN
    return higher, total * tl.exp(most - origin) + tl.sum(tl.exp(x - origin), axis=0)


@tile.jit
def merged_sum(highest, total):
    """Return the maximum of several, and the sum of total * exp(highest - maximum)."""
    most = tl.max(highest, axis=0)
    origin = tl.where(most == -float("inf"), 0.0, most)  # -inf - -inf would be NaN
    return most, tl.sum(total * tl.exp(highest - origin), axis=0)


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
def part_sums_kernel(x_ptr, most_ptr, total_ptr, stride, length, span, BLOCK: tl.constexpr):
    part, row = tl.program_id(0), tl.program_id(1).to(tl.int64)
    end = min(length, (part + 1) * span)
    most, total = running_sum(x_ptr + row * stride, part * span, end, BLOCK)
    at = row * tl.num_programs(0) + part
    tl.store(most_ptr + at, most)
    tl.store(total_ptr + at, total)


@tile.jit
def sum_of_parts(most_ptr, total_ptr, row, parts, PARTS: tl.constexpr):
    """Return the maximum of a row and its sum from those of its parts."""
    lane = tl.arange(0, PARTS)
    most = tl.load(most_ptr + row * parts + lane, mask=lane < parts, other=-float("inf"))
    return merged_sum(most, tl.load(total_ptr + row * parts + lane, mask=lane < parts, other=0.0))


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
    if rows.length <= LONGEST:
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


def part_sums(call: Call, x: Any, rows: Rows, parts: int, span: int) -> tuple[Operand, Operand]:
    """Return the maxima of parts of rows, and the sums of exp(x - maximum), rows x parts."""
    kind = accumulator(call.operands[0].dtype)
    most, total = (call.new((rows.count, parts), kind) for _ in range(2))
    launch(part_sums_kernel, (parts, rows.count), dependent=True)(
        *(x, most.value, total.value, rows.stride, rows.length, span),
        BLOCK=PART,
        num_warps=PART_WARPS,
    )
    return most, total
