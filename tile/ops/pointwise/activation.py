"""Activations of the elements of an array, forward and backward.

    y[i] = f(x[i])        dx[i] = dy[i] * f'(x[i])

f: relu, silu, gelu by tanh or by erf, sigmoid or tanh (core/activations.py). Of relu, sigmoid and
tanh the result tells the derivative, so the backward pass may read y instead of x. The limit is
memory: one array is read and one is written.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

import tile
import tile.language as tl
from tile.errors import ArgumentValueError
from tile.ops.core.activations import ACTIVATIONS
from tile.ops.core.autograd import differentiable_by
from tile.ops.core.call import Call
from tile.ops.core.call_plans import launch, planned
from tile.ops.core.device_functions import widen
from tile.ops.core.reference import Array, wide
from tile.ops.core.tables import ANY, Table

# By elements. H200, float16, of 4096 x 8192, 2026-11-26.
TABLE = Table({(ANY,): {"BLOCK": 1024, "num_warps": 2}}, {})


@tile.jit
def activation_kernel(x_ptr, y_ptr, n, FUNCTION: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    x = widen(tl.load(x_ptr + at, mask=at < n, other=0.0))
    tl.store(y_ptr + at, FUNCTION(x), mask=at < n)


@tile.jit
def activation_backward_kernel(dy_ptr, x_ptr, dx_ptr, n, SLOPE: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    dy = widen(tl.load(dy_ptr + at, mask=at < n, other=0.0))
    slope = SLOPE(widen(tl.load(x_ptr + at, mask=at < n, other=0.0)))
    # Where x has no influence, neither has an infinite gradient of the result.
    tl.store(dx_ptr + at, tl.where(slope == 0.0, 0.0, dy * slope), mask=at < n)


@differentiable_by("x")
@planned()
def activate(x: Any, function: str = "relu", *, out: Any = None) -> Any:
    """Return f(x) of each element, in the type of `x`, which is contiguous.

    function: "relu", "silu", "gelu" (by tanh), "gelu_erf", "sigmoid" or "tanh". `out` may be `x`.
    """
    call = Call("activate")
    source = call.array("x", x).contiguous()
    call.choice("function", function, tuple(ACTIVATIONS))
    result = call.output("out", out, source.shape, source.dtype, in_place=("x",)).contiguous()
    if result.size:
        config = TABLE.select(call.backend, result.size)
        launch(activation_kernel, (tile.cdiv(result.size, config["BLOCK"]),))(
            *(x, result.value, result.size), FUNCTION=ACTIVATIONS[function].function, **config
        )
    return result.value


@planned()
def activate_backward(
    dy: Any, x: Any, function: str = "relu", from_result: bool = False, *, out: Any = None
) -> Any:
    """Return the gradient of x from `dy`, that of the result; all are contiguous.

    from_result: `x` is the result instead; for "relu", "sigmoid" and "tanh". `out` may be `dy`.
    """
    call = Call("activate_backward")
    gradient = call.array("dy", dy).contiguous()
    call.like(gradient, x=x)
    activation = ACTIVATIONS[call.choice("function", function, tuple(ACTIVATIONS))]
    slope = activation.result_slope if from_result else activation.slope
    if slope is None:
        raise ArgumentValueError(
            f"activate_backward: `function` is {function!r}, whose derivative does not follow from "
            "the result; pass x, and `from_result` = False"
        )
    result = call.output("out", out, gradient.shape, gradient.dtype, in_place=("dy",))
    result.contiguous()
    if result.size:
        config = TABLE.select(call.backend, result.size)
        launch(activation_backward_kernel, (tile.cdiv(result.size, config["BLOCK"]),))(
            *(dy, x, result.value, result.size), SLOPE=slope, **config
        )
    return result.value


def activate_reference(x: Array, function: str) -> Array:
    """Return the result in float64."""
    return ACTIVATIONS[function].reference(*wide(x))


def activate_backward_reference(dy: Array, x: Array, function: str, from_result: bool) -> Array:
    """Return the gradient in float64."""
    if from_result and function != "relu":  # whose results have its derivatives
        x = np.log(x / (1 - x)) if function == "sigmoid" else np.arctanh(x)
    return dy * ACTIVATIONS[function].reference_slope(x)


def read_results(arguments: Mapping[str, Any]) -> tuple[int, ...]:
    """Return (0,) if `activation_gradient` reads the result of an op with these arguments."""
    name = arguments.get("activation")
    return (0,) if name is not None and ACTIVATIONS[name].result_slope is not None else ()


def activation_gradient(name: str | None, dy: Any, result: Any, sums: Callable[[], Any]) -> Any:
    """Return the gradient of the argument of an activation, of torch tensors.

    sums: computes that argument again, for activations of which `result` does not tell.
    """
    if name is None:
        return dy
    if ACTIVATIONS[name].result_slope is not None:
        return activate_backward(dy, result.contiguous(), name, True)
    return activate_backward(dy, sums().contiguous(), name)
