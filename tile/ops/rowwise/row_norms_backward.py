"""The gradients of layer and RMS normalization.

The backward pass computes mean and rstd anew, unless it is given them: it must read x anyway, so
storing them would only add traffic. Its programs each take every `PARTS`-th row and keep their sums
for dweight and dbias in registers; a second kernel adds up the sums of all programs.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

import tile
import tile.language as tl
from tile.errors import ArgumentValueError
from tile.ops.core.call import Call, accumulator
from tile.ops.core.call_plans import launch
from tile.ops.core.column_sums import column_sums
from tile.ops.core.device_functions import widen
from tile.ops.core.row_tiles import row_tile
from tile.ops.core.tables import ANY, Table
from tile.ops.rowwise.described_rows import described_rows
from tile.ops.rowwise.few_rows_backward import few_rows_backward
from tile.ops.rowwise.row_norms import LONGEST, require_block
from tile.ops.rowwise.row_sums import SAMPLE, gradient_sums

# Of a tile of short rows, if each program has FEWEST_TILES of those: the gradient of layer norm of
# 16384 x 2048 takes 55 us, by 2048 elements 67, but that of 1000 x 2048 9.6 and 8.3.
ELEMENTS = 4096
FEWEST_TILES = 4
# By the elements of a tile: 16 for each thread, but 32 of 16384. H200, 2026-11-30.
WARPS = Table(
    {(ANY,): {}},
    {
        "nvptx": {
            (2048,): {"num_warps": 4},
            (4096,): {"num_warps": 8, "maxnreg": 128},  # two programs on a multiprocessor
            (16384,): {"num_warps": 16},
            (ANY,): {"num_warps": 32},
        }
    },
)
# Elements of blocks of layer norm whose statistics are computed by a sample, if they have 16 bits:
# 8192 x 8192 107 us, without 114; of 8192 x 16384 240 and 217 (H200, 2026-11-30).
SAMPLED = 8192
# Rows of RMS norm that are loaded two iterations early, given rstd: 8192 x 16384 197 us, one 209.
# If rstd is computed, two are slower, 213 and 210 (H200, 2026-11-30).
DEEP = range(8193, 16385)
FEW = 264  # rows that programs share, if statistics are given
# Programs of the backward pass, by the elements of a tile: as many as an H200 runs at a time.
PROGRAMS = Table({(4096,): {"programs": 264}, (ANY,): {"programs": 132}}, {})


@tile.jit
def row_norm_backward_kernel(
    dy_ptr,
    x_ptr,
    weight_ptr,
    mean_ptr,
    rstd_ptr,
    dx_ptr,
    dweight_parts_ptr,
    dbias_parts_ptr,
    dy_stride,
    x_stride,
    dx_stride,
    rows,
    length,
    CENTERED: tl.constexpr,
    EPS: tl.constexpr,
    SAMPLE: tl.constexpr,
    WHOLE: tl.constexpr,
    STAGES: tl.constexpr,
    DESCRIBED: tl.constexpr,
    ROWS: tl.constexpr,
    BLOCK: tl.constexpr,
    SIZE: tl.constexpr = 1,
):
    """WHOLE: rows have SIZE * BLOCK elements. DESCRIBED: TMA may copy those.

    SAMPLE: of a row, for one exchange (row_sums.py), or 0. SIZE: programs of a cluster, which
    shares its rows.
    """
    part, begin = tl.program_id(0), 0
    if SIZE > 1:
        part, begin = part // SIZE, part % SIZE * BLOCK
    column = begin + tl.arange(0, BLOCK)[None, :]
    in_row = column < (SIZE * BLOCK if WHOLE else length)
    weight = tl.load(weight_ptr + column, mask=in_row, other=0.0)
    dweight = tl.zeros((ROWS, BLOCK), dweight_parts_ptr.dtype.element_ty)
    dbias = tl.zeros((ROWS, BLOCK), dweight_parts_ptr.dtype.element_ty)
    step = tl.num_programs(0) // SIZE * ROWS
    share = 1.0 / tl.full((1, 1), length, dweight.dtype)
    if DESCRIBED:
        shape, block = [rows, SIZE * BLOCK], [ROWS, BLOCK]
        x_rows = tl.make_tensor_descriptor(x_ptr, shape, [x_stride, 1], block)
        dy_rows = tl.make_tensor_descriptor(dy_ptr, shape, [dy_stride, 1], block)
    # The next rows are loaded while sums of these are waited for.
    for start in tl.range(part * ROWS, rows, step, num_stages=STAGES):
        row = start.to(tl.int64) + tl.arange(0, ROWS)[:, None]
        exists = row < rows
        inside = exists & in_row
        if DESCRIBED:
            x, dy = widen(x_rows.load([start, begin])), widen(dy_rows.load([start, begin]))
        else:
            x = widen(tl.load(x_ptr + row * x_stride + column, mask=inside, other=0.0))
            dy = widen(tl.load(dy_ptr + row * dy_stride + column, mask=inside, other=0.0))
        direct = dy * weight
        distance, rstd, by_x, by_one = gradient_sums(
            *(x_ptr, mean_ptr, rstd_ptr, x, direct, row, x_stride, exists, inside),
            length,
            share,
            CENTERED,
            EPS,
            SAMPLE,
            WHOLE,
            SIZE,
        )
        # x contributes through the variance of its row, too, and through its mean.
        slope = -by_x * share * rstd * rstd
        if CENTERED:
            dweight += dy * (distance * rstd)
            dbias += dy
            dx = (direct - by_one * share + distance * slope) * rstd
        else:
            scaled = dy * rstd
            dweight += scaled * x
            dx = scaled * weight + x * (slope * rstd)
        tl.store(dx_ptr + row * dx_stride + column, dx, mask=inside)
    at = part.to(tl.int64) * length + column
    tl.store(dweight_parts_ptr + at, tl.sum(dweight, 0, keep_dims=True), mask=in_row)
    if CENTERED:
        tl.store(dbias_parts_ptr + at, tl.sum(dbias, 0, keep_dims=True), mask=in_row)


def row_norm_backward(
    op: str, dy: Any, x: Any, weight: Any, eps: float, statistics: dict[str, Any]
) -> tuple[Any, ...]:
    """Return the gradients of x and weight, and of the bias if centered.

    statistics: rstd, and the mean if centered; None computes them anew.
    """
    call = Call(op)
    source = call.array("x", x)
    gradient = call.array("dy", dy, dtypes=(source.dtype,), shape=source.shape)
    length = source.shape[-1]
    (weights,) = call.vectors(length, weight=weight)
    eps = call.number("eps", eps, low=0)
    if len({value is None for value in statistics.values()}) > 1:
        raise ArgumentValueError(f"{op}: `mean` and `rstd` are given together")
    leading, kind = source.shape[:-1], accumulator(source.dtype)
    for name, value in statistics.items():
        if value is not None:
            shape, rank = leading, len(leading)
            call.array(name, value, dtypes=(kind,), rank=rank, shape=shape).contiguous()
    require_block(op, length)
    rows, dy_rows = source.rows(), gradient.rows()
    dx = call.new(source.shape, source.dtype)
    centered = "mean" in statistics
    count = 2 if centered else 1
    sums = [call.new((length,), weights.dtype) for _ in range(count)]
    if statistics["rstd"] is not None and 0 < rows.count <= FEW and length:
        arrays = (dy, x, weight, statistics.get("mean"), statistics["rstd"])
        few_rows_backward(call, arrays, rows, dy_rows.stride, dx, kind, sums)
        return (dx.value, *(each.value for each in sums))
    is_small = rows.count * length < FEWEST_TILES * FEW * ELEMENTS
    elements = ELEMENTS // 2 if is_small else ELEMENTS
    tiles = row_tile(call.backend, rows, LONGEST, elements, WARPS)
    is_whole, has_statistics = length == tiles["BLOCK"], statistics["rstd"] is not None
    described: Mapping[str, Any] = {}
    if is_whole:
        described = described_rows(
            call, source, gradient, centered=centered, has_statistics=has_statistics
        )
    size = int(described.get("SIZE", 1))
    if size > 1:
        shares = {"BLOCK": length // size, **WARPS.select(call.backend, length // size)}
        tiles = {"ROWS": 1, "SIZE": size, "num_ctas": size, **shares}
    count_tiles = tile.cdiv(rows.count, tiles["ROWS"])
    if described:
        programs = min(int(described["programs"]) // size, count_tiles)
    else:
        most = int(PROGRAMS.select(call.backend, tiles["ROWS"] * tiles["BLOCK"])["programs"])
        iterations = max(1, tile.cdiv(count_tiles, most))
        programs = tile.cdiv(count_tiles, iterations)  # no more than take as many
    parts = [call.new((programs, length), kind) for _ in range(count)]
    is_sampled = source.dtype.itemsize == 2 and ELEMENTS < tiles["BLOCK"] <= SAMPLED
    is_deep = has_statistics and not centered and length in DEEP
    if rows.count and length:
        launch(row_norm_backward_kernel, (programs * size,), dependent=True)(
            *(dy, x, weight, statistics.get("mean"), statistics["rstd"]),
            *(dx.value, parts[0].value, parts[1].value if centered else None),
            *(dy_rows.stride, rows.stride, length, rows.count, length),
            CENTERED=centered,
            EPS=eps,
            SAMPLE=SAMPLE if is_sampled else 0,
            WHOLE=is_whole,
            STAGES=described["STAGES"] if described else 3 if is_deep else 2,
            DESCRIBED=bool(described),
            tma="pointers+strips" if described else None,
            **tiles,
        )
    if length:
        column_sums(*itertools.chain.from_iterable(zip(parts, sums, strict=True)))
    return (dx.value, *(each.value for each in sums))
