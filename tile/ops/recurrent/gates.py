"""The matmuls of recurrent cells, which a program computes for all gates of its hidden units."""

from __future__ import annotations

from typing import Any

import tile
import tile.language as tl
from tile.ops.core.call import Call, Operand
from tile.ops.core.new_arrays import DType
from tile.ops.core.tables import ANY, Configuration, Table

# Not measured: tiles of four accumulators that fit into registers.
TABLE = Table({(ANY,): {"BLOCK_M": 16, "BLOCK_N": 32, "BLOCK_K": 32}}, {})


@tile.jit
def add_gate(
    total,
    x_ptr,
    weight_ptr,
    rows,
    units,
    length,
    gate,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
):
    """Return `total` plus x @ weight.T for this program's rows and the units of one gate.

    x: rows x length; weight: (gates * units) x length.
    """
    row = tl.program_id(0).to(tl.int64) * BLOCK_M + tl.arange(0, BLOCK_M)[:, None]
    unit = tl.program_id(1).to(tl.int64) * BLOCK_N + tl.arange(0, BLOCK_N)[None, :]
    for start in range(0, length, BLOCK_K):
        k = start + tl.arange(0, BLOCK_K)
        x_inside = (row < rows) & (k < length)[None, :]
        x = tl.load(x_ptr + row * length + k[None, :], mask=x_inside, other=0.0)
        weight_inside = (unit < units) & (k < length)[:, None]
        weights = weight_ptr + (gate * units + unit) * length + k[:, None]
        weight = tl.load(weights, mask=weight_inside, other=0.0)
        total = tl.dot(x, weight, total, out_dtype=total.dtype)
    return total


@tile.jit
def part_of_gate(
    x_ptr,
    weight_ptr,
    bias_ptr,
    rows,
    units,
    length,
    gate,
    SUMS: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
):
    """Return a tile of x @ weight.T + bias for one gate."""
    unit = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    total = tl.zeros((BLOCK_M, BLOCK_N), dtype=SUMS)
    total = add_gate(total, x_ptr, weight_ptr, rows, units, length, gate, BLOCK_M, BLOCK_N, BLOCK_K)
    return total + tl.load(bias_ptr + gate * units + unit, mask=unit < units, other=0.0)[None, :]


def cell_operands(
    call: Call, gates: int, x: Any, h: Any, w_x: Any, w_h: Any
) -> tuple[Operand, Operand]:
    """Return the operands x and h; raise `ArgumentError` unless all four fit together.

    x: rows x inputs; h: rows x units; w_x, w_h: (gates * units) x inputs, and x units.
    """
    inputs = call.array("x", x, rank=2).contiguous()
    kinds: tuple[DType, ...] = (inputs.dtype,)
    state = call.array("h", h, dtypes=kinds, rank=2).contiguous()
    rows, units = state.shape
    call.array("x", x, rank=2, shape=(rows, inputs.shape[1]))
    wide = gates * units
    call.array("w_x", w_x, dtypes=kinds, rank=2, shape=(wide, inputs.shape[1])).contiguous()
    call.array("w_h", w_h, dtypes=kinds, rank=2, shape=(wide, units)).contiguous()
    return inputs, state


def grid_of(config: Configuration, state: Operand) -> tuple[int, int]:
    """Return the grid: tiles of rows and of hidden units."""
    rows, units = state.shape
    return tile.cdiv(rows, config["BLOCK_M"]), tile.cdiv(units, config["BLOCK_N"])
