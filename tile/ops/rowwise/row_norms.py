"""The kernels of layer and RMS normalization, which is that without the mean and the bias.

A program holds its row in registers. The backward pass computes mean and rstd anew, unless it is
given them: it must read x anyway, so storing them would only add traffic. Its programs each take
every `PARTS`-th row and keep their sums for dweight and dbias in registers; a second kernel adds up
the sums of all programs.
"""

from __future__ import annotations

from typing import Any

import tile
import tile.language as tl
from tile.errors import ArgumentValueError
from tile.ops.core.call import Call, accumulator
from tile.ops.core.call_plans import launch
from tile.ops.core.column_sums import column_sums
from tile.ops.core.device_functions import widen
from tile.ops.core.tables import ANY, Table

LONGEST = 65536  # elements of a row: 64 for each of 32 warps' 1024 threads
PARTS = 264  # programs of the backward pass: two for each multiprocessor of an H200
# By the length of rows. H200, float16, 4096 rows, 2026-11-21 (docs/results/gpu.md).
TABLE = Table(
    {(ANY,): {}},
    {
        "nvptx": {
            (1024,): {"num_warps": 4},
            (8192,): {"num_warps": 8},
            (16384,): {"num_warps": 16},
            (ANY,): {"num_warps": 32},
        }
    },
)


@tile.jit
def normalized(x, inside, length, CENTERED: tl.constexpr, EPS: tl.constexpr):
    """Return x, less its mean if `CENTERED`, times rstd; the mean and rstd.

    The first is 0 where not `inside`.
    """
    mean = 0.0
    if CENTERED:
        mean = tl.sum(x, axis=0) / length
        x = tl.where(inside, x - mean, 0.0)
    rstd = 1.0 / tl.sqrt(tl.sum(x * x, axis=0) / length + EPS)
    return x * rstd, mean, rstd


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
    length,
    CENTERED: tl.constexpr,
    EPS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64)
    column = tl.arange(0, BLOCK)
    inside = column < length
    x = widen(tl.load(x_ptr + row * x_stride + column, mask=inside, other=0.0))
    if not CENTERED:  # its latency is that of x
        weight = tl.load(weight_ptr + column, mask=inside, other=0.0)
    normal, mean, rstd = normalized(x, inside, length, CENTERED, EPS)
    if CENTERED:  # 64 registers instead of 76 for 16384 elements: two programs are resident
        weight = tl.load(weight_ptr + column, mask=inside, other=0.0)
    y = normal * weight
    if bias_ptr is not None:
        y += tl.load(bias_ptr + column, mask=inside, other=0.0)
    tl.store(y_ptr + row * y_stride + column, y, mask=inside)
    if mean_ptr is not None:
        tl.store(mean_ptr + row, mean)
    if rstd_ptr is not None:
        tl.store(rstd_ptr + row, rstd)


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
    BLOCK: tl.constexpr,
):
    part = tl.program_id(0).to(tl.int64)
    column = tl.arange(0, BLOCK)
    inside = column < length
    weight = tl.load(weight_ptr + column, mask=inside, other=0.0)
    dweight = tl.zeros((BLOCK,), dweight_parts_ptr.dtype.element_ty)
    dbias = tl.zeros((BLOCK,), dweight_parts_ptr.dtype.element_ty)
    for row in range(part, rows, tl.num_programs(0)):
        x = widen(tl.load(x_ptr + row * x_stride + column, mask=inside, other=0.0))
        dy = widen(tl.load(dy_ptr + row * dy_stride + column, mask=inside, other=0.0))
        if rstd_ptr is not None:
            rstd = tl.load(rstd_ptr + row)
            if CENTERED:
                x = tl.where(inside, x - tl.load(mean_ptr + row), 0.0)
            normal = x * rstd
        else:
            normal, _, rstd = normalized(x, inside, length, CENTERED, EPS)
        direct = dy * weight
        # x contributes through the variance of its row, too, and through its mean.
        dx = direct - normal * (tl.sum(direct * normal, axis=0) / length)
        if CENTERED:
            dx -= tl.sum(direct, axis=0) / length
            dbias += dy
        tl.store(dx_ptr + row * dx_stride + column, dx * rstd, mask=inside)
        dweight += dy * normal
    tl.store(dweight_parts_ptr + part * length + column, dweight, mask=inside)
    if CENTERED:
        tl.store(dbias_parts_ptr + part * length + column, dbias, mask=inside)


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

    With `statistics`, the mean, if centered, and rstd of the rows follow.
    """
    call = Call(op)
    source = call.array("x", x)
    length = source.shape[-1]
    call.vectors(length, **vectors)
    result = call.output("out", out, source.shape, source.dtype, in_place=("x",))
    eps = call.number("eps", eps, low=0)
    block = require_block(op, length)
    rows, y = source.rows(), result.rows()
    centered = "bias" in vectors
    mean = rstd = None
    if statistics:
        if not length:
            raise ArgumentValueError(f"{op}: `x` has shape {source.shape}; its rows have no mean")
        kind = accumulator(source.dtype)
        mean = call.new(source.shape[:-1], kind) if centered else None
        rstd = call.new(source.shape[:-1], kind)
    if result.size:
        launch(row_norm_kernel, (rows.count,))(
            *(x, vectors["weight"], vectors.get("bias"), result.value),
            *(mean and mean.value, rstd and rstd.value),
            *(rows.stride, y.stride, length),
            CENTERED=centered,
            EPS=eps,
            BLOCK=block,
            **TABLE.select(call.backend, length),
        )
    more = tuple(each.value for each in (mean, rstd) if each is not None)
    return (result.value, *more) if statistics else result.value


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
    block = require_block(op, length)
    rows, dy_rows = source.rows(), gradient.rows()
    dx = call.new(source.shape, source.dtype)
    centered = "mean" in statistics
    count = 2 if centered else 1
    sums = [call.new((length,), weights.dtype) for _ in range(count)]
    shape = (min(PARTS, rows.count), length)
    parts = [call.new(shape, kind) for _ in range(count)]
    if rows.count and length:
        launch(row_norm_backward_kernel, shape[:1])(
            *(dy, x, weight, statistics.get("mean"), statistics["rstd"]),
            *(dx.value, parts[0].value, parts[1].value if centered else None),
            *(dy_rows.stride, rows.stride, length, rows.count, length),
            CENTERED=centered,
            EPS=eps,
            BLOCK=block,
            **TABLE.select(call.backend, length),
        )
    if length:
        for part, total in zip(parts, sums, strict=True):
            column_sums(part, total)
    return (dx.value, *(each.value for each in sums))
