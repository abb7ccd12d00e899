"""The gradients of a step of a long short-term memory.

    dc' += dh' * o * (1 - tanh(c')^2)        dc = dc' * f
    di, df, dg, do = dc' * g, dc' * c, dc' * i, dh' * tanh(c')
    dz = (di * i (1 - i), df * f (1 - f), dg * (1 - g^2), do * o (1 - o))
    dx = dz @ w_x        dh = dz @ w_h        dbias = sum over rows of dz
    dw_x = dz.T @ x        dw_h = dz.T @ h

The sums z of the gates are computed anew by two matmuls (lstm_cell.py stores none); a kernel turns
them into dz, and four matmuls follow.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import tile
import tile.language as tl
from tile.ops.channels.channel_sums import channel_sums
from tile.ops.core.activations import sigmoid
from tile.ops.core.call import Call
from tile.ops.core.call_plans import launch, planned
from tile.ops.core.device_functions import widen
from tile.ops.core.reference import Array
from tile.ops.linear.strided import rows_of
from tile.ops.linear.strided_matmul import strided_matmul
from tile.ops.recurrent.gates import cell_operands

BLOCK = 256  # hidden units of a program


@tile.jit
def gate_sum(by_x_ptr, by_h_ptr, at, inside):
    z = widen(tl.load(by_x_ptr + at, mask=inside, other=0.0))
    return z + widen(tl.load(by_h_ptr + at, mask=inside, other=0.0))


@tile.jit
def lstm_cell_backward_kernel(
    dh_ptr,
    dc_ptr,
    by_x_ptr,
    by_h_ptr,
    c_ptr,
    dz_ptr,
    dc_old_ptr,
    units,
    BLOCK: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64)
    unit = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = unit < units
    gates = row * 4 * units + unit
    i = sigmoid(gate_sum(by_x_ptr, by_h_ptr, gates, inside))
    f = sigmoid(gate_sum(by_x_ptr, by_h_ptr, gates + units, inside))
    g = tl.tanh(gate_sum(by_x_ptr, by_h_ptr, gates + 2 * units, inside))
    o = sigmoid(gate_sum(by_x_ptr, by_h_ptr, gates + 3 * units, inside))
    at = row * units + unit
    c = widen(tl.load(c_ptr + at, mask=inside, other=0.0))
    dh = widen(tl.load(dh_ptr + at, mask=inside, other=0.0))
    bent = tl.tanh(f * c + i * g)
    dc = widen(tl.load(dc_ptr + at, mask=inside, other=0.0)) + dh * o * (1.0 - bent * bent)
    tl.store(dz_ptr + gates, dc * g * i * (1.0 - i), mask=inside)
    tl.store(dz_ptr + gates + units, dc * c * f * (1.0 - f), mask=inside)
    tl.store(dz_ptr + gates + 2 * units, dc * i * (1.0 - g * g), mask=inside)
    tl.store(dz_ptr + gates + 3 * units, dh * bent * o * (1.0 - o), mask=inside)
    tl.store(dc_old_ptr + at, dc * f, mask=inside)


@planned()
def lstm_cell_backward(
    dh: Any, dc: Any, x: Any, h: Any, c: Any, w_x: Any, w_h: Any, bias: Any
) -> tuple[Any, ...]:
    """Return the gradients of x, h, c, w_x, w_h and bias from `dh` and `dc`, those of both states.

    The other arguments are those of `lstm_cell`.
    """
    call = Call("lstm_cell_backward")
    source, state = cell_operands(call, 4, x, h, w_x, w_h)
    (rows, units), inputs, kind = state.shape, source.shape[1], source.dtype
    call.like(state, c=c, dh=dh, dc=dc)
    wide = 4 * units
    call.vectors(wide, (kind,), bias=bias)
    by_x, by_h, dz = (call.new((rows, wide), kind).value for _ in range(3))
    shapes = (rows, inputs), (rows, units), (rows, units), (wide, inputs), (wide, units)
    dx, dh_old, dc_old, dw_x, dw_h = (call.new(shape, kind).value for shape in shapes)
    grads = rows_of(dz, wide)
    sides = (
        (rows_of(x, inputs), rows_of(w_x, inputs), inputs, by_x, bias, dx, dw_x),
        (rows_of(h, units), rows_of(w_h, units), units, by_h, None, dh_old, dw_h),
    )
    for old, weight, length, sums, added, _, _ in sides:
        strided_matmul(
            *(call, old, weight.transposed(), rows_of(sums, wide)),
            *((1, rows, wide, length), kind),
            bias=added,
        )
    if state.size:
        launch(lstm_cell_backward_kernel, (rows, tile.cdiv(units, BLOCK)))(
            *(dh, dc, by_x, by_h, c, dz, dc_old, units), BLOCK=BLOCK
        )
    for old, weight, length, _, _, d_old, d_weight in sides:
        strided_matmul(
            *(call, grads, weight, rows_of(d_old, length), (1, rows, length, wide), kind)
        )
        strided_matmul(
            *(call, grads.transposed(), old, rows_of(d_weight, length)),
            *((1, wide, length, rows), kind),
        )
    return dx, dh_old, dc_old, dw_x, dw_h, channel_sums(dz, -1, kind.name)


def _sigmoid(x: Array) -> Array:
    result: Array = 1 / (1 + np.exp(-x))
    return result


def lstm_cell_backward_reference(
    dh: Array, dc: Array, x: Array, h: Array, c: Array, w_x: Array, w_h: Array, bias: Array
) -> tuple[Array, ...]:
    """Return the gradients in float64."""
    i, f, g, o = np.split(x @ w_x.T + h @ w_h.T + bias, 4, axis=1)
    i, f, g, o = _sigmoid(i), _sigmoid(f), np.tanh(g), _sigmoid(o)
    bent = np.tanh(f * c + i * g)
    dc = dc + dh * o * (1 - bent**2)
    gates = (
        dc * g * i * (1 - i),
        dc * c * f * (1 - f),
        dc * i * (1 - g * g),
        dh * bent * o * (1 - o),
    )
    dz = np.concatenate(gates, axis=1)
    return dz @ w_x, dz @ w_h, dc * f, dz.T @ x, dz.T @ h, dz.sum(axis=0)
