"""Layer normalization of the rows of an array, forward and backward (Ba et al., arXiv:1607.06450).

    y = n * weight + bias        n = (x - mean) * rstd        rstd = 1 / sqrt(variance + eps)
    dx = (g - mean(g) - n * mean(g * n)) * rstd        g = dy * weight; means are over the row
    dweight = sum over rows of dy * n        dbias = sum over rows of dy

row_norms.py has the kernels.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tile.ops.core.autograd import differentiable_by
from tile.ops.core.call_plans import planned
from tile.ops.core.reference import Array
from tile.ops.rowwise.row_norms import row_norm
from tile.ops.rowwise.row_norms_backward import row_norm_backward


@differentiable_by("x weight bias", "y mean rstd", recording={"statistics": True})
@planned()
def layer_norm(
    x: Any, weight: Any, bias: Any, eps: float = 1e-5, statistics: bool = False, *, out: Any = None
) -> Any:
    """Return the layer normalization over the last axis of `x`, in its type.

    weight, bias: one element for each of a row, of any float type. eps: added to the variance. With
    `statistics` the result is (out, mean, rstd), the latter of each row, float32 or float64, NaN of
    rows without elements.
    """
    return row_norm("layer_norm", x, {"weight": weight, "bias": bias}, eps, statistics, out)


@planned()
def layer_norm_backward(
    dy: Any, x: Any, weight: Any, eps: float = 1e-5, mean: Any = None, rstd: Any = None
) -> tuple[Any, Any, Any]:
    """Return the gradients of x, weight and bias from that of the result.

    mean, rstd: the statistics of `layer_norm`, contiguous; None computes them anew by `eps`.
    """
    statistics = {"mean": mean, "rstd": rstd}
    results = row_norm_backward("layer_norm_backward", dy, x, weight, eps, statistics)
    return results[0], results[1], results[2]


def _statistics(x: Array, eps: float) -> tuple[Array, Array]:
    return x.mean(axis=-1, keepdims=True), 1 / np.sqrt(x.var(axis=-1, keepdims=True) + eps)


def layer_norm_reference(x: Array, weight: Array, bias: Array, eps: float, statistics: bool) -> Any:
    """Return the result in float64."""
    mean, rstd = _statistics(x, eps)
    result = (x - mean) * rstd * weight + bias
    return (result, mean[..., 0], rstd[..., 0]) if statistics else result


def layer_norm_backward_reference(
    dy: Array, x: Array, weight: Array, eps: float
) -> tuple[Array, Array, Array]:
    """Return the gradients in float64, without the use of `mean` and `rstd`."""
    center, scale = _statistics(x, eps)
    normal, direct = (x - center) * scale, dy * weight
    through = direct.mean(axis=-1, keepdims=True)
    through = through + normal * (direct * normal).mean(axis=-1, keepdims=True)
    rows = tuple(range(x.ndim - 1))
    return (direct - through) * scale, (dy * normal).sum(axis=rows), dy.sum(axis=rows)
