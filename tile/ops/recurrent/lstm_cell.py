"""A step of a long short-term memory, with its matmuls and gates in one kernel.

    i, f, g, o = x @ w_x.T + h @ w_h.T + bias, a quarter of the columns each
    c' = sigmoid(f) * c + sigmoid(i) * tanh(g)        h' = sigmoid(o) * tanh(c')

A program computes the four gates of its hidden units (gates.py), so that the rest is arithmetic on
registers, and the gates are never stored.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import tile
import tile.language as tl
from tile.ops.core.activations import sigmoid
from tile.ops.core.autograd import differentiable_by
from tile.ops.core.call import Call, accumulator
from tile.ops.core.call_plans import launch, planned
from tile.ops.core.device_functions import widen
from tile.ops.core.reference import Array
from tile.ops.recurrent.gates import add_gates, cell_operands, configuration_of, four_gates, grid_of
from tile.ops.recurrent.lstm_cell_backward import lstm_cell_backward


@tile.jit
def lstm_cell_kernel(
    x_ptr,
    h_ptr,
    c_ptr,
    w_x_ptr,
    w_h_ptr,
    bias_ptr,
    new_h_ptr,
    new_c_ptr,
    rows,
    units,
    inputs,
    SUMS: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
):
    gate = tl.arange(0, 4 * BLOCK_N) // BLOCK_N
    blocks = (BLOCK_M, BLOCK_N, BLOCK_K)
    total = tl.zeros((BLOCK_M, 4 * BLOCK_N), dtype=SUMS)
    total = add_gates(total, x_ptr, w_x_ptr, bias_ptr, rows, units, inputs, gate, True, *blocks)
    total = add_gates(total, h_ptr, w_h_ptr, None, rows, units, units, gate, True, *blocks)
    i, f, g, o = four_gates(total, BLOCK_M, BLOCK_N)
    row = tl.program_id(0).to(tl.int64) * BLOCK_M + tl.arange(0, BLOCK_M)[:, None]
    unit = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)[None, :]
    inside = (row < rows) & (unit < units)
    at = row * units + unit
    c = widen(tl.load(c_ptr + at, mask=inside, other=0.0))
    new_c = sigmoid(f) * c + sigmoid(i) * tl.tanh(g)
    tl.store(new_c_ptr + at, new_c, mask=inside)
    tl.store(new_h_ptr + at, sigmoid(o) * tl.tanh(new_c), mask=inside)


@differentiable_by("x h c w_x w_h bias", backward=lstm_cell_backward, count=2)
@planned()
def lstm_cell(x: Any, h: Any, c: Any, w_x: Any, w_h: Any, bias: Any) -> tuple[Any, Any]:
    """Return the new hidden state and the new cell state, in the type of `x`.

    x: rows x inputs; h, c: rows x units; w_x: (4 * units) x inputs; w_h: (4 * units) x units; bias:
    4 * units, the sum of torch's two. All have one float type and are contiguous.
    """
    call = Call("lstm_cell")
    inputs, state = cell_operands(call, 4, x, h, w_x, w_h)
    rows, units = state.shape
    call.like(state, c=c)
    call.vectors(4 * units, (inputs.dtype,), bias=bias)
    new_h, new_c = (call.new(state.shape, inputs.dtype) for _ in range(2))
    if state.size:
        config = configuration_of(call, state)
        launch(lstm_cell_kernel, grid_of(config, state))(
            *(x, h, c, w_x, w_h, bias, new_h.value, new_c.value, rows, units, inputs.shape[1]),
            SUMS=getattr(tl, accumulator(inputs.dtype).name),
            **config,
        )
    return new_h.value, new_c.value


def _sigmoid(x: Array) -> Array:
    result: Array = 1 / (1 + np.exp(-x))
    return result


def lstm_cell_reference(
    x: Array, h: Array, c: Array, w_x: Array, w_h: Array, bias: Array
) -> tuple[Array, Array]:
    """Return both states in float64."""
    i, f, g, o = np.split(x @ w_x.T + h @ w_h.T + bias, 4, axis=1)
    new_c = _sigmoid(f) * c + _sigmoid(i) * np.tanh(g)
    return _sigmoid(o) * np.tanh(new_c), new_c
