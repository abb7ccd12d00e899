"""RMS normalization of the rows of an array, forward and backward (arXiv:1910.07467).

    y = n * weight        n = x * r        r = 1 / sqrt(mean(x * x) + eps)
    dx = (g - n * mean(g * n)) * r        g = dy * weight; means are over the row
    dweight = sum over rows of dy * n

It is layer normalization without the mean and the bias: row_norms.py has the kernels of both.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tile.ops.core.autograd import differentiable_by
from tile.ops.core.call_plans import planned
from tile.ops.core.reference import Array
from tile.ops.rowwise.row_norms import row_norm
from tile.ops.rowwise.row_norms_backward import row_norm_backward


@differentiable_by("x weight")
@planned()
def rms_norm(
    x: Any, weight: Any, eps: float = 1e-6, statistics: bool = False, *, out: Any = None
) -> Any:
    """Return the RMS normalization over the last axis of `x`, in its type.

    weight: one element for each of a row, of any float type. eps: added to the mean square. With
    `statistics` the result is (out, r), the latter of each row, float32 or float64, NaN of rows
    without elements.
    """
    return row_norm("rms_norm", x, {"weight": weight}, eps, statistics, out)


@planned()
def rms_norm_backward(
    dy: Any, x: Any, weight: Any, eps: float = 1e-6, rstd: Any = None
) -> tuple[Any, Any]:
    """Return the gradients of x and weight from that of the result.

    rstd: r of `rms_norm`, contiguous; None computes it anew by `eps`.
    """
    results = row_norm_backward("rms_norm_backward", dy, x, weight, eps, {"rstd": rstd})
    return results[0], results[1]


def rms_norm_reference(x: Array, weight: Array, eps: float, statistics: bool) -> Any:
    """Return the result in float64."""
    rstd = 1 / np.sqrt((x * x).mean(axis=-1, keepdims=True) + eps)
    return (x * rstd * weight, rstd[..., 0]) if statistics else x * rstd * weight


def rms_norm_backward_reference(
    dy: Array, x: Array, weight: Array, eps: float
) -> tuple[Array, Array]:
    """Return the gradients in float64, without the use of `rstd`."""
    scale = 1 / np.sqrt((x * x).mean(axis=-1, keepdims=True) + eps)
    normal, direct = x * scale, dy * weight
    through = normal * (direct * normal).mean(axis=-1, keepdims=True)
    return (direct - through) * scale, (dy * normal).sum(axis=tuple(range(x.ndim - 1)))
