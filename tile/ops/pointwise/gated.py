"""Gated linear units, SwiGLU and GeGLU (Shazeer, arXiv:2002.05202), forward and backward.

    y = f(gate) * up        swiglu: f(x) = x * sigmoid(x)        geglu: f is gelu, by tanh
    dgate = dy * up * f'(gate)        dup = dy * f(gate)

The limit is memory: two arrays are read and one is written. The backward pass computes f anew
instead of reading it. Both functions are one kernel, specialized by the device function f.
"""

from __future__ import annotations

from typing import Any

import tile
import tile.language as tl
from tile.ops.core.activations import ACTIVATIONS
from tile.ops.core.autograd import differentiable_by
from tile.ops.core.call import Call
from tile.ops.core.call_plans import launch, planned
from tile.ops.core.device_functions import widen
from tile.ops.core.reference import Array, wide
from tile.ops.core.tables import Table

BLOCK = 1024  # elements of a program; H200, 2^27 sums, 2026-11-21 (docs/results/gpu.md)
# Of gradients, whose five arrays take registers. H200, 4096 x 8192, float16, 2026-11-30.
GRADIENT = Table({(): {}}, {"nvptx": {(): {"num_warps": 8}}})


@tile.jit
def gated_kernel(gate_ptr, up_ptr, y_ptr, n, FUNCTION: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    gate = widen(tl.load(gate_ptr + at, mask=at < n, other=0.0))
    up = widen(tl.load(up_ptr + at, mask=at < n, other=0.0))
    tl.store(y_ptr + at, FUNCTION(gate) * up, mask=at < n)


@tile.jit
def gated_backward_kernel(
    dy_ptr,
    gate_ptr,
    up_ptr,
    dgate_ptr,
    dup_ptr,
    n,
    FUNCTION: tl.constexpr,
    SLOPE: tl.constexpr,
    BLOCK: tl.constexpr,
):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    dy = widen(tl.load(dy_ptr + at, mask=at < n, other=0.0))
    gate = widen(tl.load(gate_ptr + at, mask=at < n, other=0.0))
    up = widen(tl.load(up_ptr + at, mask=at < n, other=0.0))
    tl.store(dgate_ptr + at, dy * up * SLOPE(gate), mask=at < n)
    tl.store(dup_ptr + at, dy * FUNCTION(gate), mask=at < n)


@differentiable_by("gate up")
@planned()
def swiglu(gate: Any, up: Any, *, out: Any = None) -> Any:
    """Return silu(gate) * up, in the type of `gate`; both have one shape and are contiguous."""
    return _forward("swiglu", "silu", gate, up, out)


@differentiable_by("gate up")
@planned()
def geglu(gate: Any, up: Any, *, out: Any = None) -> Any:
    """Return gelu(gate) * up, in the type of `gate`; both have one shape and are contiguous."""
    return _forward("geglu", "gelu", gate, up, out)


@planned()
def swiglu_backward(dy: Any, gate: Any, up: Any) -> tuple[Any, Any]:
    """Return the gradients of gate and up from `dy`, that of the result."""
    return _backward("swiglu_backward", "silu", dy, gate, up)


@planned()
def geglu_backward(dy: Any, gate: Any, up: Any) -> tuple[Any, Any]:
    """Return the gradients of gate and up from `dy`, that of the result."""
    return _backward("geglu_backward", "gelu", dy, gate, up)


def _forward(op: str, activation: str, gate: Any, up: Any, out: Any) -> Any:
    call = Call(op)
    source = call.array("gate", gate).contiguous()
    call.like(source, up=up)
    result = call.output(
        "out", out, source.shape, source.dtype, in_place=("gate", "up")
    ).contiguous()
    if result.size:
        launch(gated_kernel, (tile.cdiv(result.size, BLOCK),), dependent=True)(
            *(gate, up, result.value, result.size),
            FUNCTION=ACTIVATIONS[activation].function,
            BLOCK=BLOCK,
        )
    return result.value


def _backward(op: str, activation: str, dy: Any, gate: Any, up: Any) -> tuple[Any, Any]:
    call = Call(op)
    source = call.array("gate", gate).contiguous()
    call.like(source, dy=dy, up=up)
    dgate, dup = (call.new(source.shape, source.dtype) for _ in range(2))
    if source.size:
        launch(gated_backward_kernel, (tile.cdiv(source.size, BLOCK),), dependent=True)(
            *(dy, gate, up, dgate.value, dup.value, source.size),
            FUNCTION=ACTIVATIONS[activation].function,
            SLOPE=ACTIVATIONS[activation].slope,
            BLOCK=BLOCK,
            **GRADIENT.select(call.backend),
        )
    return dgate.value, dup.value


def _reference(activation: str, gate: Array, up: Array) -> Array:
    gate, up = wide(gate, up)
    return ACTIVATIONS[activation].reference(gate) * up


def _backward_reference(activation: str, dy: Array, gate: Array, up: Array) -> tuple[Array, Array]:
    function = ACTIVATIONS[activation]
    return dy * up * function.reference_slope(gate), dy * function.reference(gate)


def swiglu_reference(gate: Array, up: Array) -> Array:
    """Return the result in float64."""
    return _reference("silu", gate, up)


def geglu_reference(gate: Array, up: Array) -> Array:
    """Return the result in float64."""
    return _reference("gelu", gate, up)


def swiglu_backward_reference(dy: Array, gate: Array, up: Array) -> tuple[Array, Array]:
    """Return the gradients in float64."""
    return _backward_reference("silu", dy, gate, up)


def geglu_backward_reference(dy: Array, gate: Array, up: Array) -> tuple[Array, Array]:
    """Return the gradients in float64."""
    return _backward_reference("gelu", dy, gate, up)
