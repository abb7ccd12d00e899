"""A step of a gated recurrent unit, with its matmuls and gates in one kernel.

    r, z = sigmoid(x @ w_x.T + b_x + h @ w_h.T + b_h), the first two thirds of the columns
    n = tanh(x @ w_x.T + b_x + r * (h @ w_h.T + b_h)), the last third
    h' = (1 - z) * n + z * h

The reset gate r multiplies a part of n, so that x and h have separate sums there: a program holds
four tiles, as that of an LSTM does. With `gates` it stores r, z, n and s, the last third of
h @ w_h.T + b_h, from which the gradients follow without the sums.
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
from tile.ops.recurrent.gru_cell_backward import gru_cell_backward


@tile.jit
def gru_cell_kernel(
    x_ptr,
    h_ptr,
    w_x_ptr,
    w_h_ptr,
    b_x_ptr,
    b_h_ptr,
    new_h_ptr,
    gates_ptr,
    rows,
    units,
    inputs,
    SUMS: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
):
    part = tl.arange(0, 4 * BLOCK_N) // BLOCK_N  # r, z, and those of n of x and of h
    blocks = (BLOCK_M, BLOCK_N, BLOCK_K)
    of_x = (x_ptr, w_x_ptr, b_x_ptr, rows, units, inputs, part, part < 3)
    of_h = (h_ptr, w_h_ptr, b_h_ptr, rows, units, units, min(part, 2), part != 2)
    total = tl.zeros((BLOCK_M, 4 * BLOCK_N), dtype=SUMS)
    total = add_gates(add_gates(total, *of_x, *blocks), *of_h, *blocks)
    r, z, n, s = four_gates(total, BLOCK_M, BLOCK_N)
    r, z = sigmoid(r), sigmoid(z)
    n = tl.tanh(n + r * s)
    row = tl.program_id(0).to(tl.int64) * BLOCK_M + tl.arange(0, BLOCK_M)[:, None]
    unit = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)[None, :]
    inside = (row < rows) & (unit < units)
    h = widen(tl.load(h_ptr + row * units + unit, mask=inside, other=0.0))
    tl.store(new_h_ptr + row * units + unit, (1.0 - z) * n + z * h, mask=inside)
    if gates_ptr is not None:
        gates = gates_ptr + row * (4 * units) + unit
        tl.store(gates, r, mask=inside)
        tl.store(gates + units, z, mask=inside)
        tl.store(gates + 2 * units, n, mask=inside)
        tl.store(gates + 3 * units, s, mask=inside)


@differentiable_by(
    "x h w_x w_h b_x b_h",
    results="new_h gates",
    backward=gru_cell_backward,
    recording={"gates": True},
)
@planned()
def gru_cell(
    x: Any,
    h: Any,
    w_x: Any,
    w_h: Any,
    b_x: Any,
    b_h: Any,
    gates: bool = False,
    *,
    out: Any = None,
) -> Any:
    """Return the new hidden state, in the type of `x`.

    x: rows x inputs; h: rows x units; w_x: (3 * units) x inputs; w_h: (3 * units) x units; b_x,
    b_h: 3 * units each. All have one float type and are contiguous. With `gates` the result is
    (h', r, z, n and s side by side, rows x (4 * units)), which `gru_cell_backward` takes.
    """
    call = Call("gru_cell")
    inputs, state = cell_operands(call, 3, x, h, w_x, w_h)
    rows, units = state.shape
    call.vectors(3 * units, (inputs.dtype,), b_x=b_x, b_h=b_h)
    result = call.output("out", out, state.shape, inputs.dtype).contiguous()
    stored = call.new((rows, 4 * units), inputs.dtype) if gates else None
    if state.size:
        config = configuration_of(call, state)
        launch(gru_cell_kernel, grid_of(config, state))(
            *(x, h, w_x, w_h, b_x, b_h, result.value, stored and stored.value),
            *(rows, units, inputs.shape[1]),
            SUMS=getattr(tl, accumulator(inputs.dtype).name),
            **config,
        )
    return (result.value, stored.value) if stored else result.value


def gru_cell_reference(
    x: Array, h: Array, w_x: Array, w_h: Array, b_x: Array, b_h: Array, gates: bool = False
) -> Any:
    """Return the state in float64."""
    of_x, of_h = (np.split(part, 3, axis=1) for part in (x @ w_x.T + b_x, h @ w_h.T + b_h))
    r, z = (1 / (1 + np.exp(-of_x[i] - of_h[i])) for i in range(2))
    n = np.tanh(of_x[2] + r * of_h[2])
    result: Array = (1 - z) * n + z * h
    return (result, np.concatenate([r, z, n, of_h[2]], axis=1)) if gates else result
