"""The kernel of layer and RMS normalization of long rows, which a program reads twice.

The first time it adds up distances to a number near the mean, and their squares, so that large
means lose no digits. The second time the row is in the cache.
"""

from __future__ import annotations

from typing import Any

import tile
import tile.language as tl
from tile.ops.core.device_functions import widen
from tile.ops.core.operand import Operand
from tile.ops.core.tables import ANY, Table
from tile.ops.rowwise.row_sums import SAMPLE

# Of rows that are read twice: BYTES or elements of a block, and warps; an empty entry leaves rows
# to registers. By CENTERED, whether the length is no power of two, the length, and the bytes of a
# row. H200, 2026-11-30, us in registers and so: RMS norm of 4096 x 20000, bfloat16, 110 and 89, of
# 2048 x 32768, float16, 77 and 73, of 8192 x 8192 65.0 and 64.2, of 8192 x 16384 129.1 and 126.7;
# layer norm 142 and 98, 91 and 88, of 8192 x 12288 123 and 114, of 8192 x 16384 132.6 and 129.4.
BLOCKS = Table(
    {(ANY, ANY, ANY, ANY): {}},
    {
        "nvptx": {
            (ANY, ANY, 4096, ANY): {},
            (0, 0, 8192, 16384): {"BLOCK": 4096, "COUNT": 2, "num_warps": 8},
            (ANY, ANY, 8192, ANY): {},
            (ANY, 0, 16384, 32768): {"BLOCK": 4096, "COUNT": 4, "num_warps": 16},
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
    # Of other rows, by the mean of a block 2560 x 50257 takes 304 us, by that of a sample 317.
    is_sampled = centered and size == 2 and "COUNT" in config
    return {"COUNT": 0, "SAMPLE": SAMPLE if is_sampled else 0, **config} if config else {}


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
    COUNT: tl.constexpr,
    SAMPLE: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """COUNT: the blocks of a row that has no other elements, to unroll loops over them; or 0.

    SAMPLE: elements whose mean is near enough to that of the row (row_sums.py), or 0.
    """
    if COUNT:
        length = COUNT * BLOCK
    row = tl.program_id(0).to(tl.int64)
    x_ptr += row * x_stride
    y_ptr += row * y_stride
    lane = tl.arange(0, BLOCK)
    mean = 0.0
    if CENTERED:
        NEAR: tl.constexpr = SAMPLE if SAMPLE else BLOCK
        near = tl.arange(0, NEAR)
        first = widen(tl.load(x_ptr + near, mask=near < length, other=0.0))
        mean = tl.sum(first, axis=0) / min(length, NEAR)
    sums = widen(tl.zeros((BLOCK,), x_ptr.dtype.element_ty))
    squares = sums
    for start in range(0, length, BLOCK):
        inside = start + lane < length
        x = widen(tl.load(x_ptr + (start + lane), mask=inside, other=0.0))
        if CENTERED:
            x = tl.where(inside, x - mean, 0.0)
            sums += x
        squares += x * x
    variance = tl.sum(squares, axis=0) / length
    if CENTERED:
        apart = tl.sum(sums, axis=0) / length
        mean += apart
        # Errors of squares of distances may make it less than 0.
        variance = tl.maximum(variance - apart * apart, 0.0, propagate_nan=tl.PropagateNan.ALL)
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
