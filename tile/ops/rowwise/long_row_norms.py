"""The kernel of layer and RMS normalization of long rows, which a program reads twice.

The first time each lane adds up the distances d of its elements to its first one, f, and their
squares, so that large means lose no digits (Chan et al., 1983). Of a lane with n elements

    m = f + sum(d) / n        the sum of squares to m is sum(d * d) - sum(d)**2 / n

The second time the row is in the cache.
"""

from __future__ import annotations

from typing import Any

import tile
import tile.language as tl
from tile.ops.core.device_functions import widen
from tile.ops.core.operand import Operand
from tile.ops.core.tables import ANY, Table

# Of rows that are read twice: BYTES or elements of a block, and warps; an empty entry leaves rows
# to registers. By CENTERED, whether the length is no power of two, the length, and the bytes of a
# row. H200, 2026-11-30, us in registers and so: RMS norm of 4096 x 20000, bfloat16, 110 and 89, of
# 2048 x 32768, float16, 77 and 73; layer norm 142 and 98, 91 and 88, of 8192 x 12288 123 and 114.
BLOCKS = Table(
    {(ANY, ANY, ANY, ANY): {}},
    {
        "nvptx": {
            (ANY, ANY, 8192, ANY): {},
            (ANY, 0, ANY, 32768): {},
            (0, ANY, ANY, 40960): {"BYTES": 8192, "num_warps": 16},
            (0, ANY, ANY, ANY): {"BYTES": 16384, "num_warps": 32},
            (ANY, ANY, ANY, ANY): {"BLOCK": 4096, "num_warps": 8},
        }
    },
)


def blocks_of(backend: str, x: Operand, *, centered: bool) -> dict[str, Any]:
    """Return the options of a program that reads rows of `x` twice; {} if it should not."""
    length, size = x.shape[-1], x.dtype.itemsize
    is_padded = length != tile.next_power_of_2(length)
    config = dict(BLOCKS.select(backend, int(centered), int(is_padded), length, length * size))
    if "BYTES" in config:
        config["BLOCK"] = config.pop("BYTES") // size
    return config


@tile.jit
def long_row_norm_kernel(
    x_ptr,
    weight_ptr,
    bias_ptr,
    y_ptr,
    mean_ptr,
    rstd_ptr,
    x_stride,
    y_stride,
    length,
    CENTERED: tl.constexpr,
    EPS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64)
    x_ptr += row * x_stride
    y_ptr += row * y_stride
    lane = tl.arange(0, BLOCK)
    first = widen(tl.load(x_ptr + lane, mask=lane < length, other=0.0))
    sums = tl.zeros_like(first)
    squares = sums if CENTERED else first * first
    for start in range(BLOCK, length, BLOCK):
        inside = start + lane < length
        x = widen(tl.load(x_ptr + (start + lane), mask=inside, other=0.0))
        if CENTERED:
            x = tl.where(inside, x - first, 0.0)
            sums += x
        squares += x * x
    mean = 0.0
    if CENTERED:
        count = tl.maximum(tl.cdiv(length - lane, BLOCK), 1).to(first.dtype)
        mean = tl.sum(tl.where(lane < length, count * first + sums, 0.0), axis=0) / length
        apart = tl.where(lane < length, first - mean + sums / count, 0.0)
        squares += count * apart * apart - sums * sums / count
    variance = tl.sum(squares, axis=0) / length
    if CENTERED:  # which errors may make less than 0
        variance = tl.maximum(variance, 0.0, propagate_nan=tl.PropagateNan.ALL)
    rstd = 1.0 / tl.sqrt(variance + EPS)
    for start in range(0, length, BLOCK):
        column = start + lane
        inside = column < length
        x = widen(tl.load(x_ptr + column, mask=inside, other=0.0))
        if CENTERED:
            x -= mean
        y = x * rstd * tl.load(weight_ptr + column, mask=inside, other=0.0)
        if bias_ptr is not None:
            y += tl.load(bias_ptr + column, mask=inside, other=0.0)
        tl.store(y_ptr + column, y, mask=inside)
    if mean_ptr is not None:
        tl.store(mean_ptr + row, mean)
    if rstd_ptr is not None:
        tl.store(rstd_ptr + row, rstd)
