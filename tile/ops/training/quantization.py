"""Rows as 8-bit numbers with a scale each, and back.

    scale = max |x[i]| / limit        q[i] = nearest(x[i] / scale)        x[i] = q[i] * scale

The limit is the greatest number of the type: 127 for int8, 448 for float8_e4m3fn. A row of zeros
has the scale 0 and quantizes to zeros. A program reads its row twice: for the maximum, and for the
quotients, when it is still in the cache. Integers are rounded to nearest, ties to even.
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
from tile.ops.core.tables import ANY, Table

F8 = np.dtype(ml_dtypes.float8_e4m3fn)
LIMITS = {"int8": (I8, 127.0), "float8_e4m3fn": (F8, 448.0)}
BLOCK = 4096  # elements of a program of `dequantize`
# Of `quantize`, by the elements of a row: those of an iteration. H200, float16, 2026-11-29.
TABLE = Table(
    {
        (4096,): {"BLOCK": 4096, "num_warps": 4},
        (16384,): {"BLOCK": 4096, "num_warps": 8},
        (ANY,): {"BLOCK": 8192, "num_warps": 16},
    },
    {},
)


@tile.jit
def quantize_kernel(
    x_ptr, q_ptr, scale_ptr, stride, length, LIMIT: tl.constexpr, BLOCK: tl.constexpr
):
    row = tl.program_id(0).to(tl.int64)
    lane = tl.arange(0, BLOCK)
    most = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, length, BLOCK):
        column = start + lane
        x = tl.load(x_ptr + row * stride + column, mask=column < length, other=0.0)
        most = tl.maximum(most, tl.abs(x.to(tl.float32)))
    # Exact divisions: numbers of 16 bits are often halfway between two integers.
    scale = tl.div_rn(tl.max(most, axis=0), LIMIT)
    inverse = tl.where(scale > 0, tl.div_rn(1.0, scale), 0.0)
    tl.store(scale_ptr + row, scale)
    for start in range(0, length, BLOCK):
        column = start + lane
        x = tl.load(x_ptr + row * stride + column, mask=column < length, other=0.0)
        q = tl.clamp(x.to(tl.float32) * inverse, -LIMIT, LIMIT)
        if q_ptr.dtype.element_ty == tl.int8:
            q = libdevice.rint(q)
        tl.store(q_ptr + row * length + column, q.to(q_ptr.dtype.element_ty), mask=column < length)


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
    if rows.count:
        config = TABLE.select(call.backend, rows.length)
        block = min(config["BLOCK"], tile.next_power_of_2(rows.length))
        launch(quantize_kernel, (rows.count,), dependent=True)(
            *(x, result.value, scale.value, rows.stride, rows.length),
            LIMIT=limit,
            **{**config, "BLOCK": block},
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
