"""Blocks of a matrix as 8-bit numbers with a scale for each block.

    scale = max |x| / limit over the block        q = nearest(x / scale)

A block is 128 elements of a row, or of 128 rows. The limit is the greatest number of the type, as
in quantization.py; a block of zeros has the scale 0. A program reads a tile once, and holds it in
registers: the limit is memory.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import tile
import tile.language as tl
from tile.language.extra import libdevice
from tile.ops.core.call import F32, I8, Call
from tile.ops.core.call_plans import launch, planned
from tile.ops.core.reference import Array
from tile.ops.training.quantization import LIMITS

BLOCK = 128  # elements of a block along a row
ROWS = {1: 32, BLOCK: BLOCK}  # of a program, by those of a block


@tile.jit
def quantize_blocks_kernel(
    x_ptr,
    q_ptr,
    scale_ptr,
    stride,
    rows,
    length,
    blocks,
    LIMIT: tl.constexpr,
    WHOLE: tl.constexpr,
    ROWS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)[:, None]
    block = tl.program_id(1)
    column = block * BLOCK + tl.arange(0, BLOCK)[None, :]
    inside = (row < rows) & (column < length)
    x = tl.load(x_ptr + row * stride + column, mask=inside, other=0.0).to(tl.float32)
    most = tl.max(tl.abs(x), axis=1, keep_dims=True)
    if WHOLE:
        most = tl.max(most, axis=0, keep_dims=True)
    # Exact divisions: numbers of 16 bits are often halfway between two integers.
    scale = tl.div_rn(most, LIMIT)
    inverse = tl.where(scale > 0, tl.div_rn(1.0, scale), 0.0)
    if WHOLE:
        at = tl.program_id(0).to(tl.int64) * blocks + block + tl.zeros((1, 1), tl.int32)
        tl.store(scale_ptr + at, scale)
    else:
        tl.store(scale_ptr + row * blocks + block, scale, mask=row < rows)
    q = tl.clamp(x * inverse, -LIMIT, LIMIT)
    if q_ptr.dtype.element_ty == tl.int8:
        q = libdevice.rint(q)
    tl.store(q_ptr + row * length + column, q.to(q_ptr.dtype.element_ty), mask=inside)


@planned()
def quantize_blocks(x: Any, rows: int = 1, dtype: str = "float8_e4m3fn") -> tuple[Any, Any]:
    """Return the matrix `x` in 8 bits, and the scales of its blocks, in float32.

    x: a matrix of a float type, whose rows are contiguous. rows: 1 or 128, of a block, which has
    128 columns. dtype: "int8" or "float8_e4m3fn". The scales are those of `block_scaled_matmul`:
    rows / `rows` x columns / 128, rounded up.
    """
    call = Call("quantize_blocks")
    source = call.array("x", x, rank=2)
    call.choice("rows", rows, tuple(ROWS))
    lines = source.rows()
    kind, limit = LIMITS[call.choice("dtype", dtype, tuple(LIMITS))]
    blocks = tile.cdiv(lines.length, BLOCK)
    result = call.new(source.shape, kind)
    scale = call.new((tile.cdiv(lines.count, rows), blocks), F32)
    if result.size:
        launch(
            quantize_blocks_kernel, (tile.cdiv(lines.count, ROWS[rows]), blocks), dependent=True
        )(
            *(x, result.value, scale.value, lines.stride, lines.count, lines.length, blocks),
            LIMIT=limit,
            WHOLE=rows > 1,
            ROWS=ROWS[rows],
            BLOCK=BLOCK,
        )
    return result.value, scale.value


def quantize_blocks_reference(x: Array, rows: int, dtype: str) -> tuple[Array, Array]:
    """Return the numbers and scales, by float32 operations, which decide how ties are rounded."""
    kind, limit = LIMITS[dtype]
    m, n = x.shape
    counts = tile.cdiv(m, rows), tile.cdiv(n, BLOCK)
    padded = np.zeros((counts[0] * rows, counts[1] * BLOCK), np.float32)
    padded[:m, :n] = x
    blocks = padded.reshape(counts[0], rows, counts[1], BLOCK)
    scale = np.abs(blocks).max(axis=(1, 3), initial=0, keepdims=True) / np.float32(limit)
    inverse = np.divide(np.float32(1), scale, out=np.zeros_like(scale), where=scale > 0)
    q = np.clip(blocks * inverse, np.float32(-limit), np.float32(limit)).reshape(padded.shape)
    rounded = np.rint(q) if kind == I8 else q
    return rounded[:m, :n].astype(kind), scale[:, 0, :, 0]
