"""Running sums of the rows of an array.

    y[i] = x[0] + ... + x[i]        reverse: y[i] = x[i] + ... + x[n - 1]

A program goes over its row in blocks, scans each, and adds the sum of the blocks before. The
gradient of a running sum is the running sum of dy from the other end.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import tile
import tile.language as tl
from tile.ops.core.autograd import differentiable
from tile.ops.core.call import FLOATS, I32, I64
from tile.ops.core.call_plans import planned
from tile.ops.core.device_functions import widen
from tile.ops.core.reference import Array
from tile.ops.core.row_launch import launch_rows

NUMBERS = (*FLOATS, I32, I64)  # types of running sums, and others
BLOCK = 2048  # elements of an iteration


@tile.jit
def cumsum_kernel(
    x_ptr, y_ptr, x_stride, y_stride, length, REVERSE: tl.constexpr, BLOCK: tl.constexpr
):
    row = tl.program_id(0).to(tl.int64)
    lane = tl.arange(0, BLOCK)
    before = tl.zeros((), widen_sum(tl.zeros((1,), x_ptr.dtype.element_ty)).dtype)
    for start in range(0, length, BLOCK):
        column = start + lane
        inside = column < length
        if REVERSE:
            column = length - 1 - column
        x = widen_sum(tl.load(x_ptr + row * x_stride + column, mask=inside, other=0))
        y = before + tl.cumsum(x, axis=0)
        tl.store(y_ptr + row * y_stride + column, y.to(y_ptr.dtype.element_ty), mask=inside)
        before += tl.sum(x, axis=0)


@tile.jit
def widen_sum(x):
    """Return `x` in the type of sums: integers stay as they are."""
    return widen(x) if x.dtype.is_floating() else x


def _gradients(step: Any) -> dict[str, Any]:
    return {"x": cumsum(step.grads[0], not step.arguments.get("reverse", False))}


@differentiable(_gradients)
@planned()
def cumsum(x: Any, reverse: bool = False, *, out: Any = None) -> Any:
    """Return the running sums along the last axis of `x`, in its type; integers wrap.

    x: a float type, int32 or int64. reverse: from the last element. The gradient is
    `cumsum(dy, reverse=not reverse)`. `out` may be `x` itself.
    """
    return launch_rows(
        *("cumsum", cumsum_kernel, {"x": x}, BLOCK, out, NUMBERS), REVERSE=bool(reverse)
    )


def cumsum_reference(x: Array, reverse: bool) -> Array:
    """Return the sums in float64, or in int64 for integers."""
    wide = x.astype(np.int64 if x.dtype.kind == "i" else np.float64)
    result: Array = np.flip(np.flip(wide, -1).cumsum(-1), -1) if reverse else wide.cumsum(-1)
    return result
