"""Bilinear forms of pairs of rows, as matmuls with a computed operand.

    y[r, k] = sum over i, j of x1[r, i] * x2[r, j] * weight[k, i, j] + bias[k]

An operand of the matmul has the terms x1[r, i] * x2[r, j], and its inner axis is (i, j)
(bilinear_forms.py).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tile.ops.channels.channel_sums import channel_sums
from tile.ops.core.autograd import differentiable
from tile.ops.core.call import Call
from tile.ops.core.call_plans import planned
from tile.ops.core.epilogue import epilogue_of
from tile.ops.core.reference import Array
from tile.ops.linear.bilinear_backward import bilinear_backward
from tile.ops.linear.bilinear_forms import form_operands, write_forms


def _gradients(step: Any) -> dict[str, Any]:
    arguments, grad = step.arguments, step.grads[0]
    inputs = (arguments[name] for name in ("x1", "x2", "weight"))
    results = bilinear_backward(grad, *inputs, **step.options("precision"))
    gradients = dict(zip(("x1", "x2", "weight"), results, strict=True))
    if "bias" in step.needed:
        gradients["bias"] = channel_sums(grad.reshape(-1, grad.shape[-1]), -1)
    return gradients


@differentiable(_gradients)
@planned()
def bilinear(
    x1: Any, x2: Any, weight: Any, bias: Any = None, *, precision: str = "ieee", out: Any = None
) -> Any:
    """Return the bilinear forms of corresponding rows of `x1` and `x2`, in their type.

    x1: any axes x I; x2: the same axes x J; weight: K x I x J, of any strides; the result has the
    same axes x K. bias: K elements of any float type. precision: as in `matmul`.
    """
    call = Call("bilinear")
    first, second, weights = form_operands(call, x1, x2, weight, precision)
    count = weights.shape[0]
    epilogue_of(call, count, bias, precision)
    result = call.output("out", out, (*first.shape[:-1], count), first.dtype)
    write_forms(call, first, second, weights, (0, 1, 2), bias, result, precision)
    return result.value


def bilinear_reference(x1: Array, x2: Array, weight: Array, bias: Array | None) -> Array:
    """Return the result in float64."""
    result: Array = np.einsum("...i,...j,kij->...k", x1, x2, weight)
    return result + (0 if bias is None else bias)
