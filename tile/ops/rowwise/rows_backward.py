"""Gradients of rows that need one sum over the row: of softmax and its logarithm.

dx[i] = GRADIENT(dy[i], y[i], sum over j of TERM(dy[j], y[j]))
"""

from __future__ import annotations

from typing import Any

import tile
import tile.language as tl
from tile.ops.core.call import Call
from tile.ops.core.call_plans import launch
from tile.ops.core.device_functions import widen
from tile.ops.core.row_tiles import row_tile, rows_of
from tile.ops.core.row_vectors import vector_of, vectors_of
from tile.ops.core.tables import ANY, Table
from tile.ops.rowwise.part_rows_backward import PARTS, part_rows_backward_kernel
from tile.ops.rowwise.row_parts import UNALIGNED, row_parts

LONGEST = 8192  # elements of a row in registers
# Of longer rows, by their length and the bytes of an element, at most: elements of an iteration.
# H200, 2026-11-30.
BLOCKS = Table(
    {
        (16384, ANY): {"BLOCK": 8192},
        (ANY, 2): {"BLOCK": 16384},
        (ANY, ANY): {"BLOCK": 8192},
    },
    {
        "nvptx": {
            (16384, 2): {"BLOCK": 8192},
            (24576, 2): {"BLOCK": 16384, "num_warps": 16},
            (ANY, 2): {"BLOCK": 32768, "num_warps": 32},
            (ANY, 4): {"BLOCK": 16384, "num_warps": 32},
            (ANY, ANY): {"BLOCK": 8192},
        }
    },
)


@tile.jit
def rows_backward_kernel(
    dy_ptr,
    y_ptr,
    dx_ptr,
    dy_stride,
    y_stride,
    dx_stride,
    rows,
    length,
    TERM: tl.constexpr,
    GRADIENT: tl.constexpr,
    ROWS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    row, exists = rows_of(rows, ROWS)
    column = tl.arange(0, BLOCK)[None, :]
    inside = exists & (column < length)
    y = widen(tl.load(y_ptr + row * y_stride + column, mask=inside, other=0.0))
    dy = widen(tl.load(dy_ptr + row * dy_stride + column, mask=inside, other=0.0))
    total = tl.sum(TERM(dy, y), axis=1, keep_dims=True)
    tl.store(dx_ptr + row * dx_stride + column, GRADIENT(dy, y, total), mask=inside)


@tile.jit
def long_rows_backward_kernel(
    dy_ptr,
    y_ptr,
    dx_ptr,
    dy_stride,
    y_stride,
    dx_stride,
    rows,
    length,
    TERM: tl.constexpr,
    GRADIENT: tl.constexpr,
    VECTOR: tl.constexpr,
    ROWS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Go over a row twice; VECTOR is 1 or all strides are equal."""
    row = tl.program_id(0).to(tl.int64)
    first, count, place, inside = vectors_of(row, dy_stride, length, VECTOR)
    dy_ptr += first
    y_ptr += first if VECTOR > 1 else row * y_stride
    dx_ptr += first if VECTOR > 1 else row * dx_stride
    terms = terms_of(dy_ptr, y_ptr, tl.arange(0, BLOCK), count, TERM)
    for start in range(BLOCK, count, BLOCK):
        terms += terms_of(dy_ptr, y_ptr, start + tl.arange(0, BLOCK), count, TERM)
    total = tl.sum(terms, axis=0)
    if VECTOR > 1:
        dy = widen(tl.load(dy_ptr + place, mask=inside, other=0.0))
        y = widen(tl.load(y_ptr + place, mask=inside, other=0.0))
        total += tl.sum(TERM(dy, y), axis=0)
        tl.store(dx_ptr + place, GRADIENT(dy, y, total), mask=inside)
    for start in range(0, count, BLOCK):
        column = start + tl.arange(0, BLOCK)
        dy = widen(tl.load(dy_ptr + column, mask=column < count, other=0.0))
        y = widen(tl.load(y_ptr + column, mask=column < count, other=0.0))
        tl.store(dx_ptr + column, GRADIENT(dy, y, total), mask=column < count)


@tile.jit
def terms_of(dy_ptr, y_ptr, column, count, TERM: tl.constexpr):
    dy = widen(tl.load(dy_ptr + column, mask=column < count, other=0.0))
    return TERM(dy, widen(tl.load(y_ptr + column, mask=column < count, other=0.0)))


def rows_backward(op: str, dy: Any, y: Any, out: Any, term: Any, gradient: Any) -> Any:
    """Return the gradient of rows from `dy`, that of the results, and `y`, these."""
    call = Call(op)
    grads = call.array("dy", dy)
    results = call.array("y", y, dtypes=(grads.dtype,), shape=grads.shape)
    result = call.output("out", out, grads.shape, grads.dtype, in_place=("dy",))
    rows = grads.rows()
    strides = rows.stride, results.rows().stride, result.rows().stride
    size = rows.length, grads.dtype.itemsize
    tiles = PARTS.select(call.backend, *size)
    unaligned = tiles or UNALIGNED.select(call.backend, *size)
    parts = row_parts(call, grads, tiles, *strides, unaligned=unaligned) if result.size else {}
    if parts:
        launch(part_rows_backward_kernel, (rows.count * parts["SIZE"],), dependent=True)(
            *(dy, y, result.value, *strides, rows.length), TERM=term, GRADIENT=gradient, **parts
        )
    elif result.size:
        shape = row_tile(call.backend, rows, LONGEST)
        kernel: Any = rows_backward_kernel
        if rows.length > LONGEST:
            shape |= BLOCKS.select(call.backend, rows.length, grads.dtype.itemsize)
            kernel, shape["VECTOR"] = long_rows_backward_kernel, vector_of(grads.dtype, *strides)
        launch(kernel, (tile.cdiv(rows.count, shape["ROWS"]),), dependent=True)(
            *(dy, y, result.value, *strides, rows.count, rows.length),
            TERM=term,
            GRADIENT=gradient,
            **shape,
        )
    return result.value
