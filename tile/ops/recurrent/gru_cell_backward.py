"""The gradients of a step of a gated recurrent unit, from the gates that gru_cell.py stores.

    dn, dz = dh' * (1 - z), dh' * (h - n)        dm = dn * (1 - n^2)        dr = dm * s
    dp = (dr * r (1 - r), dz * z (1 - z), dm)        dq = (dr * r (1 - r), dz * z (1 - z), dm * r)
    dx = dp @ w_x        dh = dh' * z + dq @ w_h        db_x, db_h = sums over rows of dp and dq
    dw_x = dp.T @ x        dw_h = dq.T @ h

s is the last third of h @ w_h.T + b_h. One kernel computes dp and dq, and four matmuls follow.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import tile
import tile.language as tl
from tile.ops.channels.channel_sums import channel_sums
from tile.ops.core.call import Call
from tile.ops.core.call_plans import launch, planned
from tile.ops.core.device_functions import widen
from tile.ops.core.reference import Array
from tile.ops.linear.strided import rows_of
from tile.ops.linear.strided_matmul import strided_matmul
from tile.ops.recurrent.gates import cell_operands

BLOCK = 256  # hidden units of a program


@tile.jit
def gru_cell_backward_kernel(dh_ptr, h_ptr, gates_ptr, dp_ptr, dq_ptr, units, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    unit = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = unit < units
    gates = gates_ptr + row * (4 * units) + unit
    r = widen(tl.load(gates, mask=inside, other=0.0))
    z = widen(tl.load(gates + units, mask=inside, other=0.0))
    n = widen(tl.load(gates + 2 * units, mask=inside, other=0.0))
    s = widen(tl.load(gates + 3 * units, mask=inside, other=0.0))
    at = row * units + unit
    h = widen(tl.load(h_ptr + at, mask=inside, other=0.0))
    dh = widen(tl.load(dh_ptr + at, mask=inside, other=0.0))
    dm = dh * (1.0 - z) * (1.0 - n * n)
    dr, dz = dm * s * r * (1.0 - r), dh * (h - n) * z * (1.0 - z)
    first = row * (3 * units) + unit
    tl.store(dp_ptr + first, dr, mask=inside)
    tl.store(dp_ptr + first + units, dz, mask=inside)
    tl.store(dp_ptr + first + 2 * units, dm, mask=inside)
    tl.store(dq_ptr + first, dr, mask=inside)
    tl.store(dq_ptr + first + units, dz, mask=inside)
    tl.store(dq_ptr + first + 2 * units, dm * r, mask=inside)


@tile.jit
def add_direct_kernel(dh_ptr, gates_ptr, through_ptr, out_ptr, units, BLOCK: tl.constexpr):
    """Store dh' * z + dq @ w_h."""
    row = tl.program_id(0).to(tl.int64)
    unit = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = unit < units
    at = row * units + unit
    z = widen(tl.load(gates_ptr + row * (4 * units) + units + unit, mask=inside, other=0.0))
    direct = widen(tl.load(dh_ptr + at, mask=inside, other=0.0)) * z
    through = widen(tl.load(through_ptr + at, mask=inside, other=0.0))
    tl.store(out_ptr + at, direct + through, mask=inside)


@planned()
def gru_cell_backward(
    dh: Any, x: Any, h: Any, w_x: Any, w_h: Any, gates: Any
) -> tuple[Any, Any, Any, Any, Any, Any]:
    """Return the gradients of x, h, w_x, w_h, b_x and b_h from `dh`, that of the new state.

    gates: the second result of `gru_cell(x, h, w_x, w_h, b_x, b_h, gates=True)`, whose first
    arguments the others are.
    """
    call = Call("gru_cell_backward")
    source, state = cell_operands(call, 3, x, h, w_x, w_h)
    (rows, units), inputs, kind = state.shape, source.shape[1], source.dtype
    call.like(state, dh=dh)
    call.array("gates", gates, dtypes=(kind,), rank=2, shape=(rows, 4 * units)).contiguous()
    wide = 3 * units
    shapes = (rows, inputs), (rows, units), (rows, units), (wide, inputs), (wide, units)
    dx, through, dh_old, dw_x, dw_h = (call.new(shape, kind).value for shape in shapes)
    dp, dq = (call.new((rows, wide), kind).value for _ in range(2))
    grid = (rows, tile.cdiv(units, BLOCK))
    if state.size:
        launch(gru_cell_backward_kernel, grid)(*(dh, h, gates, dp, dq, units), BLOCK=BLOCK)
    for grad, weight, old, length, d_old, d_weight in (
        (dp, w_x, x, inputs, dx, dw_x),
        (dq, w_h, h, units, through, dw_h),
    ):
        grads = rows_of(grad, wide)
        strided_matmul(
            *(call, grads, rows_of(weight, length), rows_of(d_old, length)),
            *((1, rows, length, wide), kind),
        )
        strided_matmul(
            *(call, grads.transposed(), rows_of(old, length), rows_of(d_weight, length)),
            *((1, wide, length, rows), kind),
        )
    if state.size:
        launch(add_direct_kernel, grid)(*(dh, gates, through, dh_old, units), BLOCK=BLOCK)
    db_x, db_h = (channel_sums(array, -1, kind.name) for array in (dp, dq))
    return dx, dh_old, dw_x, dw_h, db_x, db_h


def gru_cell_backward_reference(
    dh: Array, x: Array, h: Array, w_x: Array, w_h: Array, gates: Array
) -> tuple[Array, ...]:
    """Return the gradients in float64."""
    r, z, n, s = np.split(gates, 4, axis=1)
    dm = dh * (1 - z) * (1 - n * n)
    dr, dz = dm * s * r * (1 - r), dh * (h - n) * z * (1 - z)
    dp, dq = np.concatenate([dr, dz, dm], axis=1), np.concatenate([dr, dz, dm * r], axis=1)
    return dp @ w_x, dh * z + dq @ w_h, dp.T @ x, dq.T @ h, dp.sum(axis=0), dq.sum(axis=0)
