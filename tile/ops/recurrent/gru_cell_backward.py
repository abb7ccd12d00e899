"""The gradients of a step of a gated recurrent unit.

    dn, dz = dh' * (1 - z), dh' * (h - n)        dm = dn * (1 - n^2)        dr = dm * s
    dp = (dr * r (1 - r), dz * z (1 - z), dm)        dq = (dr * r (1 - r), dz * z (1 - z), dm * r)
    dx = dp @ w_x        dh = dh' * z + dq @ w_h        db_x, db_h = sums over rows of dp and dq
    dw_x = dp.T @ x        dw_h = dq.T @ h

s is the last third of h @ w_h.T + b_h. The sums of the gates are computed anew by two matmuls
(gru_cell.py stores none); a kernel turns them into dp and dq, and four matmuls follow, each with a
call plan of its own.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import tile
import tile.language as tl
from tile.ops.channels.channel_sums import channel_sums
from tile.ops.core.activations import sigmoid
from tile.ops.core.call import Call
from tile.ops.core.call_plans import launch
from tile.ops.core.device_functions import widen
from tile.ops.core.reference import Array
from tile.ops.linear.matmul import matmul
from tile.ops.recurrent.gates import cell_operands
from tile.tracebacks import public_function

BLOCK = 256  # hidden units of a program


@tile.jit
def gru_cell_backward_kernel(
    dh_ptr,
    by_x_ptr,
    by_h_ptr,
    h_ptr,
    dp_ptr,
    dq_ptr,
    units,
    BLOCK: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64)
    unit = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = unit < units
    first = row * 3 * units + unit
    second, last = first + units, first + 2 * units
    r = widen(tl.load(by_x_ptr + first, mask=inside, other=0.0))
    r = sigmoid(r + widen(tl.load(by_h_ptr + first, mask=inside, other=0.0)))
    z = widen(tl.load(by_x_ptr + second, mask=inside, other=0.0))
    z = sigmoid(z + widen(tl.load(by_h_ptr + second, mask=inside, other=0.0)))
    s = widen(tl.load(by_h_ptr + last, mask=inside, other=0.0))
    n = tl.tanh(widen(tl.load(by_x_ptr + last, mask=inside, other=0.0)) + r * s)
    at = row * units + unit
    h = widen(tl.load(h_ptr + at, mask=inside, other=0.0))
    dh = widen(tl.load(dh_ptr + at, mask=inside, other=0.0))
    dm = dh * (1.0 - z) * (1.0 - n * n)
    dr, dz = dm * s * r * (1.0 - r), dh * (h - n) * z * (1.0 - z)
    tl.store(dp_ptr + first, dr, mask=inside)
    tl.store(dp_ptr + second, dz, mask=inside)
    tl.store(dp_ptr + last, dm, mask=inside)
    tl.store(dq_ptr + first, dr, mask=inside)
    tl.store(dq_ptr + second, dz, mask=inside)
    tl.store(dq_ptr + last, dm * r, mask=inside)


@tile.jit
def add_direct_kernel(dh_ptr, by_x_ptr, by_h_ptr, through_ptr, out_ptr, units, BLOCK: tl.constexpr):
    """Store dh' * z + dq @ w_h."""
    row = tl.program_id(0).to(tl.int64)
    unit = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = unit < units
    second, at = row * 3 * units + units + unit, row * units + unit
    z = widen(tl.load(by_x_ptr + second, mask=inside, other=0.0))
    z = sigmoid(z + widen(tl.load(by_h_ptr + second, mask=inside, other=0.0)))
    direct = widen(tl.load(dh_ptr + at, mask=inside, other=0.0)) * z
    through = widen(tl.load(through_ptr + at, mask=inside, other=0.0))
    tl.store(out_ptr + at, direct + through, mask=inside)


@public_function
def gru_cell_backward(
    dh: Any, x: Any, h: Any, w_x: Any, w_h: Any, b_x: Any, b_h: Any
) -> tuple[Any, ...]:
    """Return the gradients of x, h, w_x, w_h, b_x and b_h from `dh`, that of the new state.

    The other arguments are those of `gru_cell`.
    """
    call = Call("gru_cell_backward")
    inputs, state = cell_operands(call, 3, x, h, w_x, w_h)
    rows, units = state.shape
    call.like(state, dh=dh)
    call.vectors(3 * units, (inputs.dtype,), b_x=b_x, b_h=b_h)
    by_x, by_h = matmul(x, w_x.T, b_x), matmul(h, w_h.T, b_h)
    dp, dq = (call.new((rows, 3 * units), inputs.dtype).value for _ in range(2))
    result = call.new(state.shape, inputs.dtype)
    grid = (rows, tile.cdiv(units, BLOCK))
    if state.size:
        launch(gru_cell_backward_kernel, grid)(*(dh, by_x, by_h, h, dp, dq, units), BLOCK=BLOCK)
        through = matmul(dq, w_h)
        launch(add_direct_kernel, grid)(
            *(dh, by_x, by_h, through, result.value, units), BLOCK=BLOCK
        )
    weights = matmul(dp.T, x), matmul(dq.T, h)
    biases = (channel_sums(array, -1, inputs.dtype.name) for array in (dp, dq))
    return matmul(dp, w_x), result.value, *weights, *biases


def _sigmoid(x: Array) -> Array:
    result: Array = 1 / (1 + np.exp(-x))
    return result


def gru_cell_backward_reference(
    dh: Array, x: Array, h: Array, w_x: Array, w_h: Array, b_x: Array, b_h: Array
) -> tuple[Array, ...]:
    """Return the gradients in float64."""
    xr, xz, xn = np.split(x @ w_x.T + b_x, 3, axis=1)
    hr, hz, s = np.split(h @ w_h.T + b_h, 3, axis=1)
    r, z = _sigmoid(xr + hr), _sigmoid(xz + hz)
    n = np.tanh(xn + r * s)
    dm = dh * (1 - z) * (1 - n * n)
    dr, dz = dm * s * r * (1 - r), dh * (h - n) * z * (1 - z)
    dp, dq = np.concatenate([dr, dz, dm], axis=1), np.concatenate([dr, dz, dm * r], axis=1)
    return dp @ w_x, dh * z + dq @ w_h, dp.T @ x, dq.T @ h, dp.sum(axis=0), dq.sum(axis=0)
