"""The greatest elements of rows, and rows in order, with the indices of elements.

    topk: the k greatest elements, in descending order        sort: all elements of a row

Elements are sorted together with their indices: as one integer, whose high half orders like the
number and whose low half is the index, so that equal elements stay in order. It has 32 bits for
numbers and indices of 16, and 64 for others. The bits of a nonnegative float order like integers;
those of a negative one do with all but the sign flipped. For a descending order the whole high half
is flipped. NaN is the greatest. `topk` goes over a row in blocks, and keeps the k greatest of those
so far and the next.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import tile
import tile.language as tl
from tile.errors import ArgumentValueError
from tile.ops.core.call import BF16, F16, F32, I32, I64, Call
from tile.ops.core.call_plans import launch, planned
from tile.ops.core.reference import Array

LONGEST = 16384  # elements of a row that is sorted, and of k
MOST_NARROW = 2**16  # elements of a row whose indices have 16 bits
BLOCK = 1024  # elements of an iteration of topk, or as many as k
KEYS = (F16, BF16, F32, I32)  # types whose order 32 bits hold


@tile.jit
def sort_keys(x, index, inside, DESCENDING: tl.constexpr, NARROW: tl.constexpr):
    """Return keys that ascend in the order of `x`, then of `index`; outside, the greatest."""
    if x.dtype == tl.int32:
        bits = x
    else:
        # Both zeros are equal, and all NaN are greater than infinity.
        number = x if NARROW else x.to(tl.float32)
        GREATEST: tl.constexpr = 0x7FFF if NARROW else 0x7FFFFFFF
        bits = number.to(tl.int16 if NARROW else tl.int32, bitcast=True).to(tl.int32)
        bits = tl.where(number == 0, 0, bits)
        bits = tl.where(bits < 0, bits ^ GREATEST, bits)
        bits = tl.where(number != number, GREATEST, bits)
    if DESCENDING:
        bits = ~bits
    if NARROW:
        return tl.where(inside, (bits << 16) | index, 0x7FFFFFFF)
    key = (bits.to(tl.int64) << 32) | index.to(tl.int64)
    return tl.where(inside, key, 0x7FFFFFFFFFFFFFFF)


@tile.jit
def index_of(key, NARROW: tl.constexpr):
    """Return the index of a key."""
    return key & (0xFFFF if NARROW else 0xFFFFFFFF)


@tile.jit
def topk_kernel(
    x_ptr,
    values_ptr,
    indices_ptr,
    stride,
    length,
    k,
    NARROW: tl.constexpr,
    K: tl.constexpr,
    BLOCK: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64)
    column = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * stride + column, mask=column < length, other=0)
    best = tl.topk(sort_keys(x, column, column < length, True, NARROW), K, descending=False)
    for start in range(BLOCK, length, BLOCK):
        at = start + column
        x = tl.load(x_ptr + row * stride + at, mask=at < length, other=0)
        new = tl.topk(sort_keys(x, at, at < length, True, NARROW), K, descending=False)
        best = tl.topk(tl.join(best, new).reshape(2 * K), K, descending=False)
    rank = tl.arange(0, K)
    index = index_of(best, NARROW)
    value = tl.load(x_ptr + row * stride + index, mask=rank < k)
    tl.store(values_ptr + row * k + rank, value, mask=rank < k)
    tl.store(indices_ptr + row * k + rank, index, mask=rank < k)


@tile.jit
def sort_kernel(
    x_ptr,
    values_ptr,
    indices_ptr,
    stride,
    length,
    DESCENDING: tl.constexpr,
    NARROW: tl.constexpr,
    BLOCK: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64)
    column = tl.arange(0, BLOCK)
    inside = column < length
    x = tl.load(x_ptr + row * stride + column, mask=inside, other=0)
    index = index_of(tl.sort(sort_keys(x, column, inside, DESCENDING, NARROW)), NARROW)
    value = tl.load(x_ptr + row * stride + index, mask=inside)
    tl.store(values_ptr + row * length + column, value, mask=inside)
    tl.store(indices_ptr + row * length + column, index, mask=inside)


@planned()
def topk(x: Any, k: int) -> tuple[Any, Any]:
    """Return the `k` greatest elements of each row of `x`, in descending order, and their indices.

    x: float16, bfloat16, float32 or int32, any number of axes. k: up to the length of a row, and to
    16384. The indices, along the last axis, are int64; of equal elements the first come first.
    """
    call = Call("topk")
    source = call.array("x", x, dtypes=KEYS)
    rows = source.rows()
    k = call.integer("k", k, low=0, high=min(LONGEST, rows.length))
    shape = (*source.shape[:-1], k)
    values, indices = call.new(shape, source.dtype), call.new(shape, I64)
    if values.size:
        block = tile.next_power_of_2(k)
        launch(topk_kernel, (rows.count,))(
            *(x, values.value, indices.value, rows.stride, rows.length, k),
            NARROW=source.dtype.itemsize == 2 and rows.length <= MOST_NARROW,
            K=block,
            BLOCK=max(block, min(BLOCK, tile.next_power_of_2(rows.length))),
        )
    return values.value, indices.value


@planned()
def sort(x: Any, descending: bool = False) -> tuple[Any, Any]:
    """Return the elements of each row of `x` in order, and their indices; the sort is stable.

    x: float16, bfloat16, float32 or int32, any number of axes, with rows of up to 16384 elements.
    The indices, along the last axis, are int64.
    """
    call = Call("sort")
    source = call.array("x", x, dtypes=KEYS)
    rows = source.rows()
    if rows.length > LONGEST:
        raise ArgumentValueError(
            f"sort: the rows of `x` have {rows.length} elements; a program sorts at most {LONGEST}"
        )
    values, indices = call.new(source.shape, source.dtype), call.new(source.shape, I64)
    if values.size:
        launch(sort_kernel, (rows.count,))(
            *(x, values.value, indices.value, rows.stride, rows.length),
            DESCENDING=bool(descending),
            NARROW=source.dtype.itemsize == 2,
            BLOCK=tile.next_power_of_2(rows.length),
        )
    return values.value, indices.value


def _order(x: Array, descending: bool) -> Array:
    """Return the indices of a stable sort of each row, NaN as the greatest."""
    number = x.astype(np.float64)
    missing = np.isnan(number)
    number = np.where(missing, 0.0, number)
    result: Array = np.lexsort((-number, ~missing) if descending else (number, missing), axis=-1)
    return result


def topk_reference(x: Array, k: int) -> tuple[Array, Array]:
    """Return the values in float64, and the indices."""
    indices = _order(x, descending=True)[..., :k]
    return np.take_along_axis(x, indices, axis=-1).astype(np.float64), indices


def sort_reference(x: Array, descending: bool) -> tuple[Array, Array]:
    """Return the values in float64, and the indices."""
    indices = _order(x, descending)
    return np.take_along_axis(x, indices, axis=-1).astype(np.float64), indices
