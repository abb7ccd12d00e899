"""The gradient of the negative log likelihood of each row's class.

dx[i, j] = -weight[t] * dloss[i] if j == t else 0        t = target[i]
"""

from __future__ import annotations

from typing import Any

import numpy as np

import tile
import tile.language as tl
from tile.ops.core.call import Call, accumulator
from tile.ops.core.call_plans import launch, planned
from tile.ops.core.reference import Array
from tile.ops.core.row_tiles import row_tile, rows_of
from tile.ops.rowwise.nll_operands import BLOCK, nll_labels, nll_weights, weight_of


@tile.jit
def nll_loss_backward_kernel(
    dloss_ptr,
    target_ptr,
    weight_ptr,
    dx_ptr,
    stride,
    rows,
    classes,
    IGNORED: tl.constexpr,
    ROWS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    row, exists = rows_of(rows, ROWS)
    target = tl.load(target_ptr + row, mask=exists, other=IGNORED)
    used = target != IGNORED
    tl.device_assert(((target >= 0) & (target < classes)) | ~used, "targets are classes")
    column = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)[None, :]
    share = -tl.load(dloss_ptr + row, mask=exists, other=0.0) * weight_of(weight_ptr, target, used)
    dx = tl.where(column == target, share, 0.0)
    tl.store(dx_ptr + row * stride + column, dx, mask=exists & (column < classes))


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
    nll_labels(call, target, weight, losses.shape[0], count, ignore_index)
    result = call.output("out", out, (losses.shape[0], count), kind)
    if result.size:
        rows = result.rows()
        shape = row_tile(call.backend, rows, BLOCK)
        grid = tile.cdiv(rows.count, shape["ROWS"]), tile.cdiv(count, shape["BLOCK"])
        launch(nll_loss_backward_kernel, grid)(
            *(dloss, target, weight, result.value, rows.stride, rows.count, count),
            IGNORED=ignore_index,
            **shape,
        )
    return result.value


def nll_loss_backward_reference(
    dloss: Array, target: Array, classes: int, weight: Array | None, ignore_index: int
) -> Array:
    """Return the gradient in float64."""
    shares = -dloss * nll_weights(target, weight, classes, ignore_index)
    result: Array = (np.arange(classes) == target[:, None]) * shares[:, None]
    return result
