"""Rows as 8-bit numbers with a scale each, and back.

    scale = max |x[i]| / limit        q[i] = nearest(x[i] / scale)        x[i] = q[i] * scale

The limit is the greatest number of the type: 127 for int8, 448 for float8_e4m3fn. A row of zeros
has the scale 0 and quantizes to zeros. A program holds its rows in registers, or reads a longer one
twice: for the maximum, and for the quotients, when it is still in the cache. Integers are rounded
to nearest, ties to even.
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

import tile
import tile.language as tl
from tile.language.extra import libdevice
from tile.ops.core.call import F32, I8, Call
from tile.ops.core.call_plans import launch, planned
from tile.ops.core.reference import Array, wide
from tile.ops.core.row_tiles import row_tile, rows_of
from tile.ops.core.tables import ANY, Table

F8 = np.dtype(ml_dtypes.float8_e4m3fn)
LIMITS = {"int8": (I8, 127.0), "float8_e4m3fn": (F8, 448.0)}
BLOCK = 4096  # elements of a program of `dequantize`
LONGEST = 8192  # elements of a row in registers
ELEMENTS = 2048  # of a tile of short rows
# By the elements of a tile. H200, float16, 2026-11-30.
WARPS = Table(
    {(ANY,): {}},
    {"nvptx": {(512,): {"num_warps": 1}, (4096,): {"num_warps": 4}, (ANY,): {"num_warps": 8}}},
)
# Of longer rows: the elements of an iteration. H200, float16, 2026-11-29.
TABLE = Table(
    {(16384,): {"BLOCK": 4096, "num_warps": 8}, (ANY,): {"BLOCK": 8192, "num_warps": 16}}, {}
)


@tile.jit
def scale_of(most, LIMIT: tl.constexpr):
    """Return the scale of rows whose greatest elements are `most`, and its reciprocal."""
    # Exact divisions: numbers of 16 bits are often halfway between two integers.
    scale = tl.div_rn(most, LIMIT)
    return scale, tl.where(scale > 0, tl.div_rn(1.0, scale), 0.0)


@tile.jit
def store_quotients(q_ptr, at, x, inverse, inside, LIMIT: tl.constexpr):
    q = tl.clamp(x * inverse, -LIMIT, LIMIT)
    if q_ptr.dtype.element_ty == tl.int8:
        q = libdevice.rint(q)
    tl.store(q_ptr + at, q.to(q_ptr.dtype.element_ty), mask=inside)


@tile.jit
def quantize_kernel(
    x_ptr,
    q_ptr,
    scale_ptr,
    stride,
    rows,
    length,
    LIMIT: tl.constexpr,
    ROWS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    row, exists = rows_of(rows, ROWS)
    column = tl.arange(0, BLOCK)[None, :]
    inside = exists & (column < length)
    x = tl.load(x_ptr + row * stride + column, mask=inside, other=0.0).to(tl.float32)
    scale, inverse = scale_of(tl.max(tl.abs(x), axis=1, keep_dims=True), LIMIT)
    tl.store(scale_ptr + row, scale, mask=exists)
    store_quotients(q_ptr, row * length + column, x, inverse, inside, LIMIT)


@tile.jit
def long_quantize_kernel(
    x_ptr, q_ptr, scale_ptr, stride, length, LIMIT: tl.constexpr, BLOCK: tl.constexpr
):
    row = tl.program_id(0).to(tl.int64)
    lane = tl.arange(0, BLOCK)
    most = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, length, BLOCK):
        column = start + lane
        x = tl.load(x_ptr + row * stride + column, mask=column < length, other=0.0)
        most = tl.maximum(most, tl.abs(x.to(tl.float32)))
    scale, inverse = scale_of(tl.max(most, axis=0), LIMIT)
    tl.store(scale_ptr + row, scale)
    for start in range(0, length, BLOCK):
        column = start + lane
        inside = column < length
        x = tl.load(x_ptr + row * stride + column, mask=inside, other=0.0).to(tl.float32)
        store_quotients(q_ptr, row * length + column, x, inverse, inside, LIMIT)


@tile.jit
def dequantize_kernel(q_ptr, scale_ptr, x_ptr, length, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    column = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    q = tl.load(q_ptr + row * length + column, mask=column < length, other=0)
    x = q.to(tl.float32) * tl.load(scale_ptr + row)
    tl.store(x_ptr + row * length + column, x, mask=column < length)


@planned()
def quantize(x: Any, dtype: str = "int8") -> tuple[Any, Any]:
    """Return the rows of `x` in 8 bits, and their scales, in float32.

    x: a float type, any number of axes; rows are along the last. dtype: "int8" or "float8_e4m3fn".
    """
    call = Call("quantize")
    source = call.array("x", x)
    rows = source.rows()
    kind, limit = LIMITS[call.choice("dtype", dtype, tuple(LIMITS))]
    result, scale = call.new(source.shape, kind), call.new(source.shape[:-1] or (1,), F32)
    arrays = x, result.value, scale.value, rows.stride
    if rows.count and rows.length <= LONGEST:
        shape = row_tile(call.backend, rows, LONGEST, ELEMENTS, WARPS)
        launch(quantize_kernel, (tile.cdiv(rows.count, shape["ROWS"]),), dependent=True)(
            *(*arrays, rows.count, rows.length), LIMIT=limit, **shape
        )
    elif rows.count:
        config = TABLE.select(call.backend, rows.length)
        launch(long_quantize_kernel, (rows.count,), dependent=True)(
            *(*arrays, rows.length), LIMIT=limit, **config
        )
    return result.value, scale.value


@planned()
def dequantize(q: Any, scale: Any, dtype: str = "float32", *, out: Any = None) -> Any:
    """Return the numbers `q` times the scale of their row, as floats.

    q, scale: results of `quantize`. dtype: "float16", "bfloat16", "float32" or "float64".
    """
    call = Call("dequantize")
    source = call.array("q", q, dtypes=(I8, F8)).contiguous()
    call.array("scale", scale, dtypes=(F32,), shape=source.shape[:-1] or (1,)).contiguous()
    kind = call.float_type("dtype", dtype)
    result = call.output("out", out, source.shape, kind).contiguous()
    if result.size:
        rows = source.rows()
        block = min(BLOCK, tile.next_power_of_2(rows.length))
        launch(dequantize_kernel, (rows.count, tile.cdiv(rows.length, block)), dependent=True)(
            q, scale, result.value, rows.length, BLOCK=block
        )
    return result.value


def quantize_reference(x: Array, dtype: str) -> tuple[Array, Array]:
    """Return the numbers and scales, by float32 operations, which decide how ties are rounded."""
    kind, limit = LIMITS[dtype]
    number = x.astype(np.float32)
    scale = np.abs(number).max(axis=-1, initial=0, keepdims=True) / np.float32(limit)
    inverse = np.divide(np.float32(1), scale, out=np.zeros_like(scale), where=scale > 0)
    q = np.clip(number * inverse, np.float32(-limit), np.float32(limit))
    rounded = np.rint(q) if kind == I8 else q
    return rounded.astype(kind), scale.reshape(x.shape[:-1] or (1,))


def dequantize_reference(q: Array, scale: Array) -> Array:
    """Return the numbers in float64."""
    q, scale = wide(q, scale)
    return q * scale.reshape(*q.shape[:-1], 1)
