"""The negative log likelihood of each row's class, from log probabilities.

    loss[i] = -weight[t] * x[i, t]        t = target[i]

One number of each row is read. `cross_entropy` has logits in place of log probabilities.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import tile
import tile.language as tl
from tile.ops.core.autograd import differentiable_by
from tile.ops.core.call import Call, accumulator
from tile.ops.core.call_plans import launch, planned
from tile.ops.core.device_functions import widen
from tile.ops.core.reference import Array
from tile.ops.rowwise.nll_loss_backward import nll_loss_backward
from tile.ops.rowwise.nll_operands import BLOCK, nll_labels, nll_weights, weight_of


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


@differentiable_by(
    "x",
    backward=nll_loss_backward,
    classes=lambda step: step.arguments["x"].shape[1],
    dtype=lambda step: str(step.arguments["x"].dtype).removeprefix("torch."),
)
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
    nll_labels(call, target, weight, rows.count, rows.length, ignore_index)
    loss = call.output("out", out, (rows.count,), accumulator(logs.dtype)).contiguous()
    if rows.count:
        launch(nll_loss_kernel, (tile.cdiv(rows.count, BLOCK),), dependent=True)(
            *(x, target, weight, loss.value, rows.stride, rows.count, rows.length),
            IGNORED=ignore_index,
            BLOCK=BLOCK,
        )
    return loss.value


def nll_loss_reference(x: Array, target: Array, weight: Array | None, ignore_index: int) -> Array:
    """Return the losses in float64."""
    used = np.where(target == ignore_index, 0, target)
    result: Array = -x[np.arange(len(x)), used]
    return result * nll_weights(target, weight, x.shape[1], ignore_index)
