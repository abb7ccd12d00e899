"""Layer normalization of the rows of an array, forward and backward (Ba et al., arXiv:1607.06450).

    y = n * weight + bias        n = (x - mean) * rstd        rstd = 1 / sqrt(variance + eps)
    dx = (g - mean(g) - n * mean(g * n)) * rstd        g = dy * weight; means are over the row
    dweight = sum over rows of dy * n        dbias = sum over rows of dy

A program holds its row in registers. The backward pass computes mean and rstd anew: it must read x
anyway, so storing them would only add traffic. Its programs each take every `PARTS`-th row, keep
their sums for dweight and dbias in registers, and a second kernel adds up the sums of all programs.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import tile
import tile.language as tl
from tile.errors import ArgumentValueError
from tile.ops.core.autograd import differentiable
from tile.ops.core.call import Call, accumulator
from tile.ops.core.call_plans import launch, planned
from tile.ops.core.column_sums import column_sums
from tile.ops.core.device_functions import widen
from tile.ops.core.reference import Array, wide
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
def normalized(x, inside, length, eps):
    """Return (x - mean) / sqrt(variance + eps), 0 where not `inside`, and 1 / sqrt(...)."""
    centered = tl.where(inside, x - tl.sum(x, axis=0) / length, 0.0)
    rstd = 1.0 / tl.sqrt(tl.sum(centered * centered, axis=0) / length + eps)
    return centered * rstd, rstd


@tile.jit
def layer_norm_kernel(
    x_ptr,
    weight_ptr,
    bias_ptr,
    y_ptr,
    x_stride,
    y_stride,
    length,
    EPS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64)
    column = tl.arange(0, BLOCK)
    inside = column < length
    x = widen(tl.load(x_ptr + row * x_stride + column, mask=inside, other=0.0))
    weight = tl.load(weight_ptr + column, mask=inside, other=0.0)
    bias = tl.load(bias_ptr + column, mask=inside, other=0.0)
    normal, _ = normalized(x, inside, length, EPS)
    tl.store(y_ptr + row * y_stride + column, normal * weight + bias, mask=inside)


@tile.jit
def layer_norm_backward_kernel(
    dy_ptr,
    x_ptr,
    weight_ptr,
    dx_ptr,
    dweight_parts_ptr,
    dbias_parts_ptr,
    dy_stride,
    x_stride,
    dx_stride,
    rows,
    length,
    EPS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    part = tl.program_id(0).to(tl.int64)
    column = tl.arange(0, BLOCK)
    inside = column < length
    weight = tl.load(weight_ptr + column, mask=inside, other=0.0)
    dweight = tl.zeros((BLOCK,), dweight_parts_ptr.dtype.element_ty)
    dbias = tl.zeros((BLOCK,), dbias_parts_ptr.dtype.element_ty)
    for row in range(part, rows, tl.num_programs(0)):
        x = widen(tl.load(x_ptr + row * x_stride + column, mask=inside, other=0.0))
        dy = widen(tl.load(dy_ptr + row * dy_stride + column, mask=inside, other=0.0))
        normal, rstd = normalized(x, inside, length, EPS)
        direct = dy * weight
        # x contributes through the mean and the variance of its row, too.
        by_mean = tl.sum(direct, axis=0) / length
        by_variance = tl.sum(direct * normal, axis=0) / length
        dx = (direct - by_mean - normal * by_variance) * rstd
        tl.store(dx_ptr + row * dx_stride + column, dx, mask=inside)
        dweight += dy * normal
        dbias += dy
    tl.store(dweight_parts_ptr + part * length + column, dweight, mask=inside)
    tl.store(dbias_parts_ptr + part * length + column, dbias, mask=inside)


def require_block(op: str, length: int) -> int:
    """Return the block for rows of `length`; raise `ArgumentValueError` for rows too long."""
    if length > LONGEST:
        raise ArgumentValueError(
            f"{op}: the rows of `x` have {length} elements; a program holds at most {LONGEST}"
        )
    return tile.next_power_of_2(length)


def _gradients(step: Any) -> dict[str, Any]:
    x, weight = step.arguments["x"], step.arguments["weight"]
    results = layer_norm_backward(step.grads[0], x, weight, **step.options("eps"))
    return dict(zip(("x", "weight", "bias"), results, strict=True))


@differentiable(_gradients)
@planned()
def layer_norm(x: Any, weight: Any, bias: Any, eps: float = 1e-5, *, out: Any = None) -> Any:
    """Return the layer normalization over the last axis of `x`, in its type.

    weight, bias: one element for each of a row, of any float type. eps: added to the variance.
    """
    call = Call("layer_norm")
    source = call.array("x", x)
    length = source.shape[-1]
    for name, vector in (("weight", weight), ("bias", bias)):
        call.array(name, vector, rank=1, shape=(length,)).contiguous()
    result = call.output("out", out, source.shape, source.dtype, in_place=("x",))
    eps = call.number("eps", eps, low=0)
    block = require_block("layer_norm", length)
    rows, y = source.rows(), result.rows()
    if result.size:
        launch(layer_norm_kernel, (rows.count,))(
            *(x, weight, bias, result.value, rows.stride, y.stride, length),
            EPS=eps,
            BLOCK=block,
            **TABLE.select(call.backend, length),
        )
    return result.value


@planned()
def layer_norm_backward(dy: Any, x: Any, weight: Any, eps: float = 1e-5) -> tuple[Any, Any, Any]:
    """Return the gradients of x, weight and bias from that of the result."""
    call = Call("layer_norm_backward")
    source = call.array("x", x)
    gradient = call.array("dy", dy, dtypes=(source.dtype,), shape=source.shape)
    length = source.shape[-1]
    weights = call.array("weight", weight, rank=1, shape=(length,)).contiguous()
    eps = call.number("eps", eps, low=0)
    block = require_block("layer_norm_backward", length)
    rows, dy_rows = source.rows(), gradient.rows()
    dx = call.new(source.shape, source.dtype)
    dweight, dbias = (call.new((length,), weights.dtype) for _ in range(2))
    parts = [
        call.new((min(PARTS, rows.count), length), accumulator(source.dtype)) for _ in range(2)
    ]
    if length == 0:
        return dx.value, dweight.value, dbias.value
    if rows.count:
        launch(layer_norm_backward_kernel, (parts[0].shape[0],))(
            *(dy, x, weight, dx.value, parts[0].value, parts[1].value),
            *(dy_rows.stride, rows.stride, length, rows.count, length),
            EPS=eps,
            BLOCK=block,
            **TABLE.select(call.backend, length),
        )
    column_sums(parts[0], dweight)
    column_sums(parts[1], dbias)
    return dx.value, dweight.value, dbias.value


def _statistics(x: Array, eps: float) -> tuple[Array, Array]:
    rstd = 1 / np.sqrt(x.var(axis=-1, keepdims=True) + eps)
    return (x - x.mean(axis=-1, keepdims=True)) * rstd, rstd


def layer_norm_reference(x: Array, weight: Array, bias: Array, eps: float = 1e-5) -> Array:
    """Return the result in float64."""
    x, weight, bias = wide(x, weight, bias)
    return _statistics(x, eps)[0] * weight + bias


def layer_norm_backward_reference(
    dy: Array, x: Array, weight: Array, eps: float = 1e-5
) -> tuple[Array, Array, Array]:
    """Return the gradients in float64."""
    dy, x, weight = wide(dy, x, weight)
    normal, rstd = _statistics(x, eps)
    direct = dy * weight
    through = direct.mean(axis=-1, keepdims=True)
    through = through + normal * (direct * normal).mean(axis=-1, keepdims=True)
    rows = tuple(range(x.ndim - 1))
    return (direct - through) * rstd, (dy * normal).sum(axis=rows), dy.sum(axis=rows)
