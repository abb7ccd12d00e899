"""Losses of corresponding elements, averaged over all, forward and backward.

    mse_loss: (x - t)^2        smooth_l1_loss: d^2 / 2 where d = |x - t| < 1, else d - 1/2
    binary_cross_entropy: max(x, 0) - x t + log(1 + exp(-|x|)), of logits x and targets t

The forward pass is a sum: a fixed number of programs each add up every so many blocks, and one
program adds up their sums, in a fixed order. The gradient of a mean is the slope divided by the
number of elements, times the gradient of the loss, which a kernel reads from memory.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import tile
import tile.language as tl
from tile.errors import ArgumentValueError
from tile.ops.core.call import Call, accumulator
from tile.ops.core.call_plans import launch, planned
from tile.ops.core.column_sums import column_sums
from tile.ops.core.device_functions import widen
from tile.ops.core.reference import Array, wide

BLOCK = 1024
PROGRAMS = 1056  # of the sum: eight for each multiprocessor of an H200


@tile.jit
def squared(x, t):
    return (x - t) * (x - t)


@tile.jit
def squared_slope(x, t):
    return 2.0 * (x - t)


@tile.jit
def smooth_l1(x, t):
    d = tl.abs(x - t)
    return tl.where(d < 1.0, 0.5 * d * d, d - 0.5)


@tile.jit
def smooth_l1_slope(x, t):
    d = x - t
    return tl.where(tl.abs(d) < 1.0, d, tl.where(d < 0, -1.0, 1.0))


@tile.jit
def logistic(x, t):
    # exp of a negative number cannot overflow.
    return tl.where(x > 0, x, 0.0) - x * t + tl.log(1.0 + tl.exp(-tl.abs(x)))


@tile.jit
def logistic_slope(x, t):
    return 1.0 / (1.0 + tl.exp(-x)) - t


@tile.jit
def loss_kernel(x_ptr, target_ptr, parts_ptr, n, LOSS: tl.constexpr, BLOCK: tl.constexpr):
    first = tl.program_id(0).to(tl.int64) * BLOCK
    lane = tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), parts_ptr.dtype.element_ty)
    for start in range(first, n, tl.num_programs(0).to(tl.int64) * BLOCK):
        inside = start + lane < n
        x = widen(tl.load(x_ptr + start + lane, mask=inside, other=0.0))
        target = widen(tl.load(target_ptr + start + lane, mask=inside, other=0.0))
        total += tl.where(inside, LOSS(x, target), 0.0)
    tl.store(parts_ptr + tl.program_id(0), tl.sum(total, axis=0))


@tile.jit
def loss_backward_kernel(
    dloss_ptr, x_ptr, target_ptr, dx_ptr, n, SLOPE: tl.constexpr, BLOCK: tl.constexpr
):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    x = widen(tl.load(x_ptr + at, mask=inside, other=0.0))
    target = widen(tl.load(target_ptr + at, mask=inside, other=0.0))
    share = tl.load(dloss_ptr).to(x.dtype) / n
    tl.store(dx_ptr + at, share * SLOPE(x, target), mask=inside)


@planned()
def mse_loss(x: Any, target: Any, *, out: Any = None) -> Any:
    """Return the mean of the squared differences, an array without axes of float32 or float64.

    x, target: contiguous, of one shape and float type, with one element or more.
    """
    return _mean("mse_loss", squared, x, target, out)


@planned()
def mse_loss_backward(dloss: Any, x: Any, target: Any, *, out: Any = None) -> Any:
    """Return the gradient of x from `dloss`, that of the loss."""
    return _gradient("mse_loss_backward", squared_slope, dloss, x, target, out)


@planned()
def smooth_l1_loss(x: Any, target: Any, *, out: Any = None) -> Any:
    """Return the mean of the smooth absolute differences; see `mse_loss`."""
    return _mean("smooth_l1_loss", smooth_l1, x, target, out)


@planned()
def smooth_l1_loss_backward(dloss: Any, x: Any, target: Any, *, out: Any = None) -> Any:
    """Return the gradient of x from `dloss`, that of the loss."""
    return _gradient("smooth_l1_loss_backward", smooth_l1_slope, dloss, x, target, out)


@planned()
def binary_cross_entropy(x: Any, target: Any, *, out: Any = None) -> Any:
    """Return the mean of the cross entropies of logits `x` and probabilities `target`.

    Probabilities in host memory are checked to be 0 to 1. See `mse_loss`.
    """
    return _mean("binary_cross_entropy", logistic, x, target, out, probabilities=True)


@planned()
def binary_cross_entropy_backward(dloss: Any, x: Any, target: Any, *, out: Any = None) -> Any:
    """Return the gradient of x from `dloss`, that of the loss."""
    return _gradient("binary_cross_entropy_backward", logistic_slope, dloss, x, target, out)


def _mean(op: str, loss: Any, x: Any, target: Any, out: Any, probabilities: bool = False) -> Any:
    call = Call(op)
    source = call.array("x", x).contiguous()
    wanted = call.array("target", target, dtypes=(source.dtype,), shape=source.shape).contiguous()
    if not source.size:
        raise ArgumentValueError(f"{op}: `x` has shape {source.shape}; no elements have no mean")
    if probabilities and wanted.host is not None and not _probable(wanted.host):
        raise ArgumentValueError(f"{op}: `target` has elements outside 0 to 1")
    result = call.output("out", out, (), accumulator(source.dtype))
    parts = call.new((min(PROGRAMS, tile.cdiv(source.size, BLOCK)), 1), result.dtype)
    launch(loss_kernel, (parts.shape[0],))(
        x, target, parts.value, source.size, LOSS=loss, BLOCK=BLOCK
    )
    column_sums(parts, result, divisor=source.size)
    return result.value


def _gradient(op: str, slope: Any, dloss: Any, x: Any, target: Any, out: Any) -> Any:
    call = Call(op)
    source = call.array("x", x).contiguous()
    call.array("target", target, dtypes=(source.dtype,), shape=source.shape).contiguous()
    call.array("dloss", dloss, dtypes=(accumulator(source.dtype),), rank=0)
    result = call.output(
        "out", out, source.shape, source.dtype, in_place=("x", "target")
    ).contiguous()
    if result.size:
        launch(loss_backward_kernel, (tile.cdiv(result.size, BLOCK),))(
            *(dloss, x, target, result.value, result.size), SLOPE=slope, BLOCK=BLOCK
        )
    return result.value


def _probable(target: Array) -> bool:
    return bool(((target >= 0) & (target <= 1)).all())


def mse_loss_reference(x: Array, target: Array) -> Array:
    """Return the loss in float64."""
    x, target = wide(x, target)
    return np.asarray(((x - target) ** 2).mean())


def mse_loss_backward_reference(dloss: Array, x: Array, target: Array) -> Array:
    """Return the gradient in float64."""
    x, target = wide(x, target)
    result: Array = dloss * 2 * (x - target) / x.size
    return result


def smooth_l1_loss_reference(x: Array, target: Array) -> Array:
    """Return the loss in float64."""
    d = np.abs(np.subtract(*wide(x, target)))
    return np.asarray(np.where(d < 1, d * d / 2, d - 0.5).mean())


def smooth_l1_loss_backward_reference(dloss: Array, x: Array, target: Array) -> Array:
    """Return the gradient in float64."""
    result: Array = dloss * np.clip(np.subtract(*wide(x, target)), -1, 1) / x.size
    return result


def binary_cross_entropy_reference(x: Array, target: Array) -> Array:
    """Return the loss in float64."""
    x, target = wide(x, target)
    return np.asarray((np.logaddexp(0, x) - x * target).mean())


def binary_cross_entropy_backward_reference(dloss: Array, x: Array, target: Array) -> Array:
    """Return the gradient in float64."""
    x, target = wide(x, target)
    result: Array = dloss * (1 / (1 + np.exp(-x)) - target) / x.size
    return result
