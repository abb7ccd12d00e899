"""The gradients of layer and RMS normalization.

The backward pass computes mean and rstd anew, unless it is given them: it must read x anyway, so
storing them would only add traffic. Its programs each take every `PARTS`-th row and keep their sums
for dweight and dbias in registers; a second kernel adds up the sums of all programs.
"""

from __future__ import annotations

import itertools
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
from tile.ops.rowwise.few_rows_backward import few_rows_backward
from tile.ops.rowwise.row_norms import ELEMENTS, LONGEST, require_block

# By the elements of a tile: 16 for each thread. H200, 2026-11-29.
WARPS = Table(
    {(ANY,): {}},
    {
        "nvptx": {
            (2048,): {"num_warps": 4},
            (4096,): {"num_warps": 8},
            (16384,): {"num_warps": 16},
            (ANY,): {"num_warps": 32},
        }
    },
)
FEW = 264  # rows that programs share, if statistics are given
# Programs of the backward pass, by the elements of a tile: as many as an H200 runs at a time.
PROGRAMS = Table({(4096,): {"programs": 264}, (ANY,): {"programs": 132}}, {})
# Elements of a tile of layer norm whose sums are exchanged one after the other: at once, registers
# spill. 4096 x 4096 takes 38.5 us, 46.5 at once, but 4096 x 8192 108 and 65 (H200, 2026-11-30).
APART = 4096


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
    TOGETHER: tl.constexpr,
    ROWS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    part = tl.program_id(0)
    column = tl.arange(0, BLOCK)[None, :]
    weight = tl.load(weight_ptr + column, mask=column < length, other=0.0)
    dweight = tl.zeros((ROWS, BLOCK), dweight_parts_ptr.dtype.element_ty)
    dbias = tl.zeros((ROWS, BLOCK), dweight_parts_ptr.dtype.element_ty)
    step = tl.num_programs(0) * ROWS
    # The next rows are loaded while sums of these are waited for.
    for start in tl.range(part * ROWS, rows, step, num_stages=2):
        row = start.to(tl.int64) + tl.arange(0, ROWS)[:, None]
        exists = row < rows
        inside = exists & (column < length)
        x = widen(tl.load(x_ptr + row * x_stride + column, mask=inside, other=0.0))
        dy = widen(tl.load(dy_ptr + row * dy_stride + column, mask=inside, other=0.0))
        if CENTERED:
            if mean_ptr is not None:
                x -= tl.load(mean_ptr + row, mask=exists, other=0.0)
            else:
                x = tl.where(inside, x - tl.sum(x, axis=1, keep_dims=True) / length, 0.0)
        direct = dy * weight
        if TOGETHER:  # sums that do not depend on each other are exchanged at once
            by_x = tl.sum(direct * x, axis=1, keep_dims=True)
            if CENTERED:
                by_one = tl.sum(direct, axis=1, keep_dims=True) / length
        if rstd_ptr is not None:
            rstd = tl.load(rstd_ptr + row, mask=exists, other=0.0)
        else:
            rstd = 1.0 / tl.sqrt(tl.sum(x * x, axis=1, keep_dims=True) / length + EPS)
        normal = x * rstd
        if TOGETHER:
            by_normal = by_x * rstd / length
        else:
            by_normal = tl.sum(direct * normal, axis=1, keep_dims=True) / length
            if CENTERED:
                by_one = tl.sum(direct, axis=1, keep_dims=True) / length
        # x contributes through the variance of its row, too, and through its mean.
        if CENTERED:
            direct -= by_one
            dbias += dy
        dx = direct - normal * by_normal
        tl.store(dx_ptr + row * dx_stride + column, dx * rstd, mask=inside)
        dweight += dy * normal
    at = part.to(tl.int64) * length + column
    tl.store(dweight_parts_ptr + at, tl.sum(dweight, 0, keep_dims=True), mask=column < length)
    if CENTERED:
        tl.store(dbias_parts_ptr + at, tl.sum(dbias, 0, keep_dims=True), mask=column < length)


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
    tiles = row_tile(call.backend, rows, LONGEST, ELEMENTS, WARPS)
    most = int(PROGRAMS.select(call.backend, tiles["ROWS"] * tiles["BLOCK"])["programs"])
    programs = min(most, tile.cdiv(rows.count, tiles["ROWS"]))
    parts = [call.new((programs, length), kind) for _ in range(count)]
    if rows.count and length:
        launch(row_norm_backward_kernel, (programs,), dependent=True)(
            *(dy, x, weight, statistics.get("mean"), statistics["rstd"]),
            *(dx.value, parts[0].value, parts[1].value if centered else None),
            *(dy_rows.stride, rows.stride, length, rows.count, length),
            CENTERED=centered,
            EPS=eps,
            TOGETHER=not centered or tiles["ROWS"] * tiles["BLOCK"] > APART,
            **tiles,
        )
    if length:
        column_sums(*itertools.chain.from_iterable(zip(parts, sums, strict=True)))
    return (dx.value, *(each.value for each in sums))
