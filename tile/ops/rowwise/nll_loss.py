"""The negative log likelihood of each row's class, from log probabilities, forward and backward.

    loss[i] = -weight[t] * x[i, t]        t = target[i]
    dx[i, j] = -weight[t] * dloss[i] if j == t else 0

The forward pass reads one number of each row; the backward pass writes all. `cross_entropy` has
logits in place of log probabilities.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import tile
import tile.language as tl
from tile.ops.core.autograd import differentiable
from tile.ops.core.call import Call, accumulator
from tile.ops.core.call_plans import launch, planned
from tile.ops.core.device_functions import widen
from tile.ops.core.reference import Array, wide
from tile.ops.rowwise.labels import labels_of

BLOCK = 1024


@tile.jit
def weight_of(weight_ptr, target, used):
    """Return the weights of targets, 1 without an array of them; those not used have 0."""
    if weight_ptr is None:
        return tl.where(used, 1.0, 0.0)
    else:
        return widen(tl.load(weight_ptr + target, mask=used, other=0.0))


@tile.jit
def nll_loss_kernel(
    x_ptr,
    target_ptr,
    weight_ptr,
    loss_ptr,
    stride,
    rows,
    classes,
    IGNORED: tl.constexpr,
    BLOCK: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    target = tl.load(target_ptr + row, mask=row < rows, other=IGNORED)
    used = target != IGNORED
    tl.device_assert(((target >= 0) & (target < classes)) | ~used, "targets are classes")
    x = widen(tl.load(x_ptr + row * stride + target, mask=used, other=0.0))
    tl.store(loss_ptr + row, -x * weight_of(weight_ptr, target, used), mask=row < rows)


@tile.jit
def nll_loss_backward_kernel(
    dloss_ptr,
    target_ptr,
    weight_ptr,
    dx_ptr,
    stride,
    classes,
    IGNORED: tl.constexpr,
    BLOCK: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64)
    target = tl.load(target_ptr + row)
    used = target != IGNORED
    tl.device_assert(((target >= 0) & (target < classes)) | ~used, "targets are classes")
    column = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    share = -tl.load(dloss_ptr + row) * weight_of(weight_ptr, target, used)
    dx = tl.where(column == target, share, 0.0)
    tl.store(dx_ptr + row * stride + column, dx, mask=column < classes)


@planned()
def nll_loss_backward(
    dloss: Any,
    target: Any,
    classes: int,
    weight: Any = None,
    ignore_index: int = -100,
    dtype: str = "float32",
    *,
    out: Any = None,
) -> Any:
    """Return the gradient of `x`, rows x classes, of `dtype`, from `dloss`, that of each loss.

    The other arguments are those of `nll_loss`.
    """
    call = Call("nll_loss_backward")
    kind = call.float_type("dtype", dtype)
    count = call.integer("classes", classes, low=0)
    losses = call.array("dloss", dloss, dtypes=(accumulator(kind),), rank=1).contiguous()
    _labels(call, target, weight, losses.shape[0], count, ignore_index)
    result = call.output("out", out, (losses.shape[0], count), kind)
    if result.size:
        block = min(BLOCK, tile.next_power_of_2(count))
        launch(nll_loss_backward_kernel, (losses.shape[0], tile.cdiv(count, block)))(
            *(dloss, target, weight, result.value, result.rows().stride, count),
            IGNORED=ignore_index,
            BLOCK=block,
        )
    return result.value


def _gradients(step: Any) -> dict[str, Any]:
    arguments = step.arguments
    x = arguments["x"]
    options = step.options("weight", "ignore_index")
    dtype = str(x.dtype).removeprefix("torch.")
    dx = nll_loss_backward(step.grads[0], arguments["target"], x.shape[1], dtype=dtype, **options)
    return {"x": dx}


@differentiable(_gradients)
@planned()
def nll_loss(
    x: Any, target: Any, weight: Any = None, ignore_index: int = -100, *, out: Any = None
) -> Any:
    """Return the loss of each row of log probabilities `x`, in float32 or float64.

    x: rows x classes. target: the index of each row's class, int32 or int64; rows whose target is
    `ignore_index` have the loss 0. weight: one element for each class, of any float type; by
    default 1.
    """
    call = Call("nll_loss")
    logs = call.array("x", x, rank=2)
    rows = logs.rows()
    _labels(call, target, weight, rows.count, rows.length, ignore_index)
    loss = call.output("out", out, (rows.count,), accumulator(logs.dtype)).contiguous()
    if rows.count:
        launch(nll_loss_kernel, (tile.cdiv(rows.count, BLOCK),))(
            *(x, target, weight, loss.value, rows.stride, rows.count, rows.length),
            IGNORED=ignore_index,
            BLOCK=BLOCK,
        )
    return loss.value


def _labels(
    call: Call, target: Any, weight: Any, rows: int, classes: int, ignore_index: int
) -> None:
    if weight is not None:
        call.array("weight", weight, rank=1, shape=(classes,)).contiguous()
    labels_of(call, target, rows, classes, ignore_index)


def _weights(target: Array, weight: Array | None, classes: int, ignored: int) -> Array:
    weights = np.ones(classes) if weight is None else wide(weight)[0]
    return np.where(
        target == ignored, 0.0, np.append(weights, 0.0)[np.where(target < 0, -1, target)]
    )


def nll_loss_reference(
    x: Array, target: Array, weight: Array | None = None, ignore_index: int = -100
) -> Array:
    """Return the losses in float64."""
    (x,) = wide(x)
    used = np.where(target == ignore_index, 0, target)
    result: Array = -x[np.arange(len(x)), used]
    return result * _weights(target, weight, x.shape[1], ignore_index)


def nll_loss_backward_reference(
    dloss: Array,
    target: Array,
    classes: int,
    weight: Array | None = None,
    ignore_index: int = -100,
    dtype: str = "float32",
) -> Array:
    """Return the gradient in float64."""
    shares = -wide(dloss)[0] * _weights(target, weight, classes, ignore_index)
    result: Array = (np.arange(classes) == target[:, None]) * shares[:, None]
    return result
