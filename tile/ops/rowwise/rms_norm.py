"""RMS normalization of the rows of an array, forward and backward (arXiv:1910.07467).

    y = n * weight        n = x * r        r = 1 / sqrt(mean(x * x) + eps)
    dx = (g - n * mean(g * n)) * r        g = dy * weight; means are over the row
    dweight = sum over rows of dy * n

It is layer normalization without the mean and the bias, and has the same structure
(layer_norm.py): a row in registers, sums over rows by a fixed number of programs.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import tile
import tile.language as tl
from tile.ops.core.autograd import differentiable
from tile.ops.core.call import Call, accumulator
from tile.ops.core.call_plans import launch, planned
from tile.ops.core.column_sums import column_sums
from tile.ops.core.device_functions import widen
from tile.ops.core.reference import Array, wide
from tile.ops.rowwise.layer_norm import PARTS, TABLE, require_block


@tile.jit
def rms_norm_kernel(
    x_ptr, weight_ptr, y_ptr, x_stride, y_stride, length, EPS: tl.constexpr, BLOCK: tl.constexpr
):
    row = tl.program_id(0).to(tl.int64)
    column = tl.arange(0, BLOCK)
    inside = column < length
    x = widen(tl.load(x_ptr + row * x_stride + column, mask=inside, other=0.0))
    weight = tl.load(weight_ptr + column, mask=inside, other=0.0)
    scale = 1.0 / tl.sqrt(tl.sum(x * x, axis=0) / length + EPS)
    tl.store(y_ptr + row * y_stride + column, x * scale * weight, mask=inside)


@tile.jit
def rms_norm_backward_kernel(
    dy_ptr,
    x_ptr,
    weight_ptr,
    dx_ptr,
    parts_ptr,
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
    dweight = tl.zeros((BLOCK,), parts_ptr.dtype.element_ty)
    for row in range(part, rows, tl.num_programs(0)):
        x = widen(tl.load(x_ptr + row * x_stride + column, mask=inside, other=0.0))
        dy = widen(tl.load(dy_ptr + row * dy_stride + column, mask=inside, other=0.0))
        scale = 1.0 / tl.sqrt(tl.sum(x * x, axis=0) / length + EPS)
        normal = x * scale
        direct = dy * weight
        dx = (direct - normal * (tl.sum(direct * normal, axis=0) / length)) * scale
        tl.store(dx_ptr + row * dx_stride + column, dx, mask=inside)
        dweight += dy * normal
    tl.store(parts_ptr + part * length + column, dweight, mask=inside)


def _gradients(step: Any) -> dict[str, Any]:
    x, weight = step.arguments["x"], step.arguments["weight"]
    results = rms_norm_backward(step.grads[0], x, weight, **step.options("eps"))
    return dict(zip(("x", "weight"), results, strict=True))


@differentiable(_gradients)
@planned()
def rms_norm(x: Any, weight: Any, eps: float = 1e-6, *, out: Any = None) -> Any:
    """Return the RMS normalization over the last axis of `x`, in its type.

    weight: one element for each of a row, of any float type. eps: added to the mean square.
    """
    call = Call("rms_norm")
    source = call.array("x", x)
    length = source.shape[-1]
    call.array("weight", weight, rank=1, shape=(length,)).contiguous()
    result = call.output("out", out, source.shape, source.dtype, in_place=("x",))
    eps = call.number("eps", eps, low=0)
    block = require_block("rms_norm", length)
    rows, y = source.rows(), result.rows()
    if result.size:
        launch(rms_norm_kernel, (rows.count,))(
            *(x, weight, result.value, rows.stride, y.stride, length),
            EPS=eps,
            BLOCK=block,
            **TABLE.select(call.backend, length),
        )
    return result.value


@planned()
def rms_norm_backward(dy: Any, x: Any, weight: Any, eps: float = 1e-6) -> tuple[Any, Any]:
    """Return the gradients of x and weight from that of the result."""
    call = Call("rms_norm_backward")
    source = call.array("x", x)
    gradient = call.array("dy", dy, dtypes=(source.dtype,), shape=source.shape)
    length = source.shape[-1]
    weights = call.array("weight", weight, rank=1, shape=(length,)).contiguous()
    eps = call.number("eps", eps, low=0)
    block = require_block("rms_norm_backward", length)
    rows, dy_rows = source.rows(), gradient.rows()
    dx = call.new(source.shape, source.dtype)
    dweight = call.new((length,), weights.dtype)
    parts = call.new((min(PARTS, rows.count), length), accumulator(source.dtype))
    if length == 0:
        return dx.value, dweight.value
    if rows.count:
        launch(rms_norm_backward_kernel, (parts.shape[0],))(
            *(dy, x, weight, dx.value, parts.value),
            *(dy_rows.stride, rows.stride, length, rows.count, length),
            EPS=eps,
            BLOCK=block,
            **TABLE.select(call.backend, length),
        )
    column_sums(parts, dweight)
    return dx.value, dweight.value


def rms_norm_reference(x: Array, weight: Array, eps: float = 1e-6) -> Array:
    """Return the result in float64."""
    x, weight = wide(x, weight)
    result: Array = x / np.sqrt((x * x).mean(axis=-1, keepdims=True) + eps) * weight
    return result


def rms_norm_backward_reference(
    dy: Array, x: Array, weight: Array, eps: float = 1e-6
) -> tuple[Array, Array]:
    """Return the gradients in float64."""
    dy, x, weight = wide(dy, x, weight)
    scale = 1 / np.sqrt((x * x).mean(axis=-1, keepdims=True) + eps)
    normal, direct = x * scale, dy * weight
    through = normal * (direct * normal).mean(axis=-1, keepdims=True)
    return (direct - through) * scale, (dy * normal).sum(axis=tuple(range(x.ndim - 1)))
