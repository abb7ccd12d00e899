"""The greatest elements of long rows: the k-th one is searched digit by digit.

Elements are integers with their indices, of which the least is that of the greatest element
(order_keys.py), so no two are equal. A program holds a row, or a part of one, in registers, finds
the k least integers (least_keys.py) and stores them in the order of their indices. Those of all
parts of a row are searched again; in the end k are sorted.
"""

from __future__ import annotations

from typing import Any

import tile
import tile.language as tl
from tile.ops.core.call import I32, I64, Call
from tile.ops.core.call_plans import launch
from tile.ops.core.operand import Rows
from tile.ops.core.row_tiles import PROGRAMS, row_tile, rows_of
from tile.ops.selection.least_keys import are_least
from tile.ops.selection.order_keys import WARPS, greatest_key, index_of, sort_keys

# Elements of a program: of rows, and of keys or rows of which many are selected. H200, 64 of 64 x
# 100,000 float32, 2026-11-30: parts of 4096 take 39.7 us, of 2048 38.8, of 8192 54.7 and of 16384
# 59.7; 1000 take 79.6, 96.8, 83.9 and 84.8. 4000 of 512 x 10,000 138, by parts of 8192 187.
LEAST_BLOCK, ROW_BLOCK, MOST_BLOCK = 2048, 4096, 16384
MANY = 1024
VECTOR = tl.constexpr(8)  # elements that a part begins at a multiple of
FEW = 8  # elements that are taken one after the other
SORTED = 4096  # elements of a program that sorts what is selected


@tile.jit
def start_of(part, length, parts):
    """Return the first element of a part: they have about as many vectors, and so k elements."""
    vectors = tl.cdiv(length, VECTOR)
    return (part * (vectors // parts) + min(part, vectors % parts)) * VECTOR


@tile.jit
def select_kernel(
    x_ptr,
    keys_ptr,
    stride,
    length,
    parts,
    k,
    FIRST: tl.constexpr,
    FEW: tl.constexpr,
    WIDTH: tl.constexpr,
    NARROW: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Store the keys of the k greatest elements of a part of a row; x is keys unless FIRST.

    FEW: take one after the other, which is faster for small k.
    """
    program = tl.program_id(0)
    row, part = (program // parts).to(tl.int64), program % parts
    start, end = start_of(part, length, parts), min(length, start_of(part + 1, length, parts))
    column = start + tl.arange(0, BLOCK)
    inside = column < end
    GREATEST: tl.constexpr = greatest_key(WIDTH, NARROW)
    if FIRST:
        x = tl.load(x_ptr + row * stride + column, mask=inside, other=0)
        keys = sort_keys(x, column, inside, True, NARROW)
    else:
        keys = tl.load(x_ptr + row * stride + column, mask=inside, other=GREATEST)
    keys_ptr += program.to(tl.int64) * k
    if FEW:
        for rank in range(k):
            least = tl.min(keys, axis=0)
            tl.store(keys_ptr + rank, least)
            keys = tl.where(keys == least, GREATEST, keys)
    else:
        selected = are_least(keys, k, WIDTH, NARROW)
        place = tl.cumsum(selected.to(tl.int32), axis=0) - 1
        tl.store(keys_ptr + place, keys, mask=selected)


@tile.jit
def sort_selected_kernel(
    x_ptr,
    keys_ptr,
    values_ptr,
    indices_ptr,
    stride,
    rows,
    k,
    NARROW: tl.constexpr,
    ROWS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    row, exists = rows_of(rows, ROWS)
    rank = tl.arange(0, BLOCK)[None, :]
    inside = exists & (rank < k)
    greatest: tl.constexpr = greatest_key(x_ptr.dtype.element_ty.primitive_bitwidth, NARROW)
    keys = tl.load(keys_ptr + row * k + rank, mask=inside, other=greatest)
    index = index_of(tl.sort(keys), NARROW)
    value = tl.load(x_ptr + row * stride + index, mask=inside)
    tl.store(values_ptr + row * k + rank, value, mask=inside)
    tl.store(indices_ptr + row * k + rank, index, mask=inside)


def launch_select(
    call: Call, x: Any, values: Any, indices: Any, rows: Rows, k: int, width: int, narrow: bool
) -> None:
    """Write the k greatest elements of each row in descending order, and their indices.

    width: bytes of an element. narrow: keys have 32 bits.
    """
    least = max(LEAST_BLOCK, 2 * tile.next_power_of_2(k + 2 * VECTOR.value))
    source, stride, length, first = x, rows.stride, rows.length, True
    while first or length > k:
        most = ROW_BLOCK if k <= (MANY if first else FEW) else MOST_BLOCK
        block = min(max(most, least), tile.next_power_of_2(length))
        while block > least and rows.count * tile.cdiv(length, block) < PROGRAMS and first:
            block //= 2
        parts = tile.cdiv(length, block)
        keys = call.new((rows.count, parts * k), I32 if narrow else I64).value
        launch(select_kernel, (rows.count * parts,), dependent=parts > 1)(
            *(source, keys, stride, length, parts, k),
            FIRST=first,
            FEW=k <= FEW,
            WIDTH=8 * width,
            NARROW=narrow,
            BLOCK=block,
            **WARPS.select(call.backend, block),
        )
        source, stride, length, first = keys, parts * k, parts * k, False
    shape = row_tile(call.backend, Rows(rows.count, k, k), SORTED, SORTED)
    launch(sort_selected_kernel, (tile.cdiv(rows.count, shape["ROWS"]),))(
        *(x, source, values, indices, rows.stride, rows.count, k), NARROW=narrow, **shape
    )
