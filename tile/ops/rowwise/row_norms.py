"""The kernel of layer and RMS normalization, which is that without the mean and the bias.

A program holds its row in registers, or reads a long one twice (long_row_norms.py).
row_norms_backward.py has the gradients.
"""

from __future__ import annotations

from typing import Any

import tile
import tile.language as tl
from tile.errors import ArgumentValueError
from tile.ops.core.call import Call, accumulator
from tile.ops.core.call_plans import launch
from tile.ops.core.device_functions import widen
from tile.ops.core.row_tiles import row_tile, rows_of
from tile.ops.core.tables import ANY, Table
from tile.ops.rowwise.long_row_norms import blocks_of, long_row_norm_kernel
from tile.ops.rowwise.part_norm_tiles import PARTS
from tile.ops.rowwise.part_norms import part_norm_kernel
from tile.ops.rowwise.row_parts import row_parts
from tile.ops.rowwise.row_sums import SAMPLE, add_2, sample_mean, variance_of

LONGEST = 65536  # elements of a row: 64 for each of 32 warps' 1024 threads
ELEMENTS = 2048  # of a tile of short rows
# Of layer norm of rows of these lengths: 4096 x 1024 takes 6.2 us, by 2048 elements 6.9; 8192 x 512
# 5.9 and 6.5 (H200, float16, 2026-11-30).
SHORT = range(257, 1025)
SHORT_ELEMENTS = 4096
SHORT_WARPS = Table({(ANY,): {}}, {"nvptx": {(ANY,): {"num_warps": 4}}})
SAMPLED = 4097  # elements of rows of 16 bits at least: 8192 x 16384 takes 132 us, without 137
# By the elements of a tile. H200, float16, 4096 rows, 2026-11-29.
WARPS = Table(
    {(ANY,): {}},
    {
        "nvptx": {
            (2048,): {"num_warps": 4},
            (8192,): {"num_warps": 8},
            (16384,): {"num_warps": 16},
            (ANY,): {"num_warps": 32},
        }
    },
)


@tile.jit
def normalized(x, inside, length, CENTERED: tl.constexpr, EPS: tl.constexpr):
    """Return rows x, less their means if `CENTERED`, times rstd; the means and rstd.

    The first is 0 where not `inside`.
    """
    mean = 0.0
    if CENTERED:
        mean = tl.sum(x, axis=1, keep_dims=True) / length
        x = tl.where(inside, x - mean, 0.0)
    rstd = 1.0 / tl.sqrt(tl.sum(x * x, axis=1, keep_dims=True) / length + EPS)
    return x * rstd, mean, rstd


@tile.jit
def normalized_at_once(x, origin, length, EPS: tl.constexpr):
    """Return the same of rows without a mask, by one exchange: origin is near the mean."""
    share = 1.0 / tl.full((1, 1), length, x.dtype)
    x -= origin
    apart, square = tl.reduce((x, x * x), 1, add_2, keep_dims=True)
    apart *= share
    rstd = 1.0 / tl.sqrt(variance_of(square * share, apart) + EPS)
    return x * rstd - apart * rstd, origin + apart, rstd


@tile.jit
def row_norm_kernel(
    x_ptr,
    weight_ptr,
    bias_ptr,
    y_ptr,
    mean_ptr,
    rstd_ptr,
    x_stride,
    y_stride,
    rows,
    length,
    CENTERED: tl.constexpr,
    EPS: tl.constexpr,
    SAMPLE: tl.constexpr,
    ROWS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """SAMPLE: of rows of BLOCK elements, for one exchange of sums (row_sums.py), or 0."""
    row, exists = rows_of(rows, ROWS)
    column = tl.arange(0, BLOCK)[None, :]
    in_row = column < (BLOCK if SAMPLE else length)
    inside = exists & in_row
    x = widen(tl.load(x_ptr + row * x_stride + column, mask=inside, other=0.0))
    if not CENTERED:  # its latency is that of x
        weight = tl.load(weight_ptr + column, mask=in_row, other=0.0)
    if SAMPLE:
        origin = sample_mean(x_ptr, row, x_stride, exists, length, SAMPLE)
        normal, mean, rstd = normalized_at_once(x, origin, length, EPS)
    else:
        normal, mean, rstd = normalized(x, inside, length, CENTERED, EPS)
    # All programs read the weight and the bias, and x once: 8192 x 8192 takes 64.8 us, without that
    # priority 65.6 (layer norm, H200, 2026-11-30).
    if CENTERED:  # 64 registers instead of 76 for 16384 elements: two programs are resident
        weight = tl.load(weight_ptr + column, mask=in_row, other=0.0, eviction_policy="evict_last")
    y = normal * weight
    if bias_ptr is not None:
        y += tl.load(bias_ptr + column, mask=in_row, other=0.0, eviction_policy="evict_last")
    tl.store(y_ptr + row * y_stride + column, y, mask=inside)
    if mean_ptr is not None:
        tl.store(mean_ptr + row, mean, mask=exists)
    if rstd_ptr is not None:
        tl.store(rstd_ptr + row, rstd, mask=exists)


def require_block(op: str, length: int) -> int:
    """Return the block for rows of `length`; raise `ArgumentValueError` for rows too long."""
    if length > LONGEST:
        raise ArgumentValueError(
            f"{op}: the rows of `x` have {length} elements; a program holds at most {LONGEST}"
        )
    return tile.next_power_of_2(length)


def row_norm(
    op: str, x: Any, vectors: dict[str, Any], eps: float, statistics: bool, out: Any
) -> Any:
    """Return the normalization of the rows of `x`; `vectors` are weight, and bias if centered.

    With `statistics`, the mean, if centered, and rstd of the rows follow: NaN of no elements.
    """
    call = Call(op)
    source = call.array("x", x)
    length = source.shape[-1]
    call.vectors(length, **vectors)
    result = call.output("out", out, source.shape, source.dtype, in_place=("x",))
    eps = call.number("eps", eps, low=0)
    require_block(op, length)
    rows, y = source.rows(), result.rows()
    centered = "bias" in vectors
    mean = rstd = None
    if statistics:
        kind = accumulator(source.dtype)
        mean = call.new(source.shape[:-1], kind) if centered else None
        rstd = call.new(source.shape[:-1], kind)
    if result.size or (statistics and rows.count):
        arguments = (
            *(x, vectors["weight"], vectors.get("bias"), result.value),
            *(mean and mean.value, rstd and rstd.value, rows.stride, y.stride),
        )
        constants = {"CENTERED": centered, "EPS": eps}
        part = PARTS.select(call.backend, int(centered), length, source.dtype.itemsize)
        if parts := row_parts(call, source, part, rows.stride, y.stride):
            launch(part_norm_kernel, (rows.count * parts["SIZE"],), dependent=True)(
                *arguments, length, **constants, **parts
            )
        elif blocks := blocks_of(call.backend, source, centered=centered):
            launch(long_row_norm_kernel, (rows.count,), dependent=True)(
                *arguments, length, **constants, **blocks
            )
        else:
            is_short = centered and length in SHORT
            tiles = (SHORT_ELEMENTS, SHORT_WARPS) if is_short else (ELEMENTS, WARPS)
            shape = row_tile(call.backend, rows, LONGEST, *tiles)
            is_sampled = centered and source.dtype.itemsize == 2 and length >= SAMPLED
            constants["SAMPLE"] = SAMPLE if is_sampled and length == shape["BLOCK"] else 0
            launch(row_norm_kernel, (tile.cdiv(rows.count, shape["ROWS"]),), dependent=True)(
                *arguments, rows.count, length, **constants, **shape
            )
    more = tuple(each.value for each in (mean, rstd) if each is not None)
    return (result.value, *more) if statistics else result.value
