"""The kernels of losses of corresponding elements, averaged over all, forward and backward.

The forward pass is a sum: a fixed number of programs each add up every so many blocks, and one
program adds up their sums, in a fixed order. The gradient of a mean is the slope divided by the
number of elements, times the gradient of the loss, which a kernel reads from memory.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import tile
import tile.language as tl
from tile.errors import ArgumentValueError
from tile.ops.core.call import Call, Operand, accumulator
from tile.ops.core.call_plans import launch
from tile.ops.core.column_sums import column_sums
from tile.ops.core.device_functions import widen
from tile.ops.core.reference import Array, wide

BLOCK = 1024
SUM_BYTES = 4096  # of each array, that an iteration of a sum loads
PROGRAMS = 1056  # of the sum: eight for each multiprocessor of an H200


@tile.jit
def loss_kernel(
    x_ptr,
    target_ptr,
    parts_ptr,
    n,
    LOSS: tl.constexpr,
    PARAMETERS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    first = tl.program_id(0).to(tl.int64) * BLOCK
    lane = tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), parts_ptr.dtype.element_ty)
    for start in range(first, n, tl.num_programs(0).to(tl.int64) * BLOCK):
        inside = start + lane < n
        x = widen(tl.load(x_ptr + start + lane, mask=inside, other=0.0))
        target = widen(tl.load(target_ptr + start + lane, mask=inside, other=0.0))
        total += tl.where(inside, LOSS(x, target, *PARAMETERS), 0.0)
    tl.store(parts_ptr + tl.program_id(0), tl.sum(total, axis=0))


@tile.jit
def loss_backward_kernel(
    dloss_ptr,
    x_ptr,
    target_ptr,
    dx_ptr,
    n,
    SLOPE: tl.constexpr,
    PARAMETERS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    x = widen(tl.load(x_ptr + at, mask=inside, other=0.0))
    target = widen(tl.load(target_ptr + at, mask=inside, other=0.0))
    share = tl.load(dloss_ptr).to(x.dtype) / n
    tl.store(dx_ptr + at, share * SLOPE(x, target, *PARAMETERS), mask=inside)


def mean_loss(
    op: str,
    loss: Any,
    x: Any,
    target: Any,
    out: Any,
    parameters: tuple[float, ...] = (),
    probabilities: Sequence[str] = (),
    narrow: Any = None,
) -> Any:
    """Return the mean of a loss of the elements of `x` and `target`.

    probabilities: the names of those whose elements must be 0 to 1. narrow: the loss of elements of
    16 bits, if it is another one.
    """
    call = Call(op)
    source = _source(call, x, target, probabilities)
    if not source.size:
        raise ArgumentValueError(f"{op}: `x` has shape {source.shape}; no elements have no mean")
    result = call.output("out", out, (), accumulator(source.dtype))
    block = SUM_BYTES // source.dtype.itemsize
    parts = call.new((min(PROGRAMS, tile.cdiv(source.size, block)), 1), result.dtype)
    if narrow is not None and source.dtype.itemsize == 2:
        loss = narrow
    launch(loss_kernel, (parts.shape[0],), dependent=True)(
        *(x, target, parts.value, source.size), LOSS=loss, PARAMETERS=parameters, BLOCK=block
    )
    column_sums(parts, result, divisor=source.size)
    return result.value


def mean_loss_gradient(
    op: str,
    slope: Any,
    dloss: Any,
    x: Any,
    target: Any,
    out: Any,
    parameters: tuple[float, ...] = (),
    probabilities: Sequence[str] = (),
) -> Any:
    """Return the gradient of `x` from `dloss`, that of the mean; see `mean_loss`."""
    call = Call(op)
    source = _source(call, x, target, probabilities)
    call.array("dloss", dloss, dtypes=(accumulator(source.dtype),), rank=0)
    result = call.output(
        "out", out, source.shape, source.dtype, in_place=("x", "target")
    ).contiguous()
    if result.size:
        launch(loss_backward_kernel, (tile.cdiv(result.size, BLOCK),))(
            *(dloss, x, target, result.value, result.size),
            SLOPE=slope,
            PARAMETERS=parameters,
            BLOCK=BLOCK,
        )
    return result.value


def gradient_by(backward: Callable[..., Any]) -> Callable[[Any], dict[str, Any]]:
    """Return the gradient of a loss for autograd, from its backward op."""

    def gradient(step: Any) -> dict[str, Any]:
        arguments = dict(step.arguments)
        return {"x": backward(step.grads[0], **arguments)}

    return gradient


def _source(call: Call, x: Any, target: Any, probabilities: Sequence[str]) -> Operand:
    """Return `x`, which `target` is like; the elements of `probabilities` are 0 to 1."""
    source = call.array("x", x).contiguous()
    for operand in (source, *call.like(source, target=target)):
        values = operand.host if operand.name in probabilities else None
        if values is not None and not ((values >= 0) & (values <= 1)).all():
            raise ArgumentValueError(f"{call.op}: `{operand.name}` has elements outside 0 to 1")
    return source


def mean_of(loss: Callable[..., Array], x: Array, target: Array) -> Array:
    """Return the mean of a loss in float64, for references."""
    return np.asarray(loss(*wide(x, target)).mean())


def gradient_of(slope: Callable[..., Array], dloss: Array, x: Array, target: Array) -> Array:
    """Return the gradient of the mean of a loss in float64, for references."""
    result: Array = dloss * slope(*wide(x, target)) / x.size
    return result
