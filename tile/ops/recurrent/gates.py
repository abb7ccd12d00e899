"""The matmuls of recurrent cells, which a program computes for all gates of its hidden units.

The gates of a hidden unit are rows of a weight that lie `units` apart. A program takes four tiles
of them side by side, so that one matmul has all sums of its units: in registers of the same thread,
as a layout of mma repeats every eight columns.
"""

from __future__ import annotations

from typing import Any

import tile
import tile.language as tl
from tile.ops.core.call import Call, Operand
from tile.ops.core.new_arrays import DType
from tile.ops.core.tables import ANY, Bounds, Configuration, Table

PORTABLE: dict[Bounds, Configuration] = {
    (ANY, ANY): {"BLOCK_M": 16, "BLOCK_N": 16, "BLOCK_K": 32},
}
WIDE = Table(PORTABLE, {})
# By rows and hidden units, for 16-bit types. Not measured.
HALF = Table(
    PORTABLE,
    {
        "nvptx": {
            (64, ANY): {"BLOCK_M": 64, "BLOCK_N": 16, "BLOCK_K": 64, "num_stages": 4},
            (ANY, ANY): {"BLOCK_M": 128, "BLOCK_N": 64, "BLOCK_K": 64, "num_warps": 8},
        }
    },
)


def configuration_of(call: Call, state: Operand) -> Configuration:
    """Return the configuration for a hidden state."""
    table = HALF if state.dtype.itemsize == 2 else WIDE
    return table.select(call.backend, *state.shape)


@tile.jit
def add_gates(
    total,
    x_ptr,
    weight_ptr,
    bias_ptr,
    rows,
    units,
    length,
    gate,
    used,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
):
    """Return `total` plus x @ weight.T + bias, for this program's rows and units.

    x: rows x length; weight: (gates * units) x length. gate, used: of each column of the four
    tiles, its gate, and whether there is one.
    """
    row = tl.program_id(0).to(tl.int64) * BLOCK_M + tl.arange(0, BLOCK_M)[:, None]
    unit = tl.program_id(1) * BLOCK_N + tl.arange(0, 4 * BLOCK_N) % BLOCK_N
    exists = used & (unit < units)
    column = gate.to(tl.int64) * units + unit
    for start in range(0, length, BLOCK_K):
        k = start + tl.arange(0, BLOCK_K)
        x_inside = (row < rows) & (k < length)[None, :]
        x = tl.load(x_ptr + row * length + k[None, :], mask=x_inside, other=0.0)
        weights = weight_ptr + column[None, :] * length + k[:, None]
        weight = tl.load(weights, mask=exists[None, :] & (k < length)[:, None], other=0.0)
        total = tl.dot(x, weight, total, out_dtype=total.dtype)
    if bias_ptr is not None:
        total += tl.load(bias_ptr + column, mask=exists, other=0.0)[None, :]
    return total


@tile.jit
def four_gates(total, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    """Return the four tiles that lie side by side."""
    pairs = total.reshape(BLOCK_M, 2, 2, BLOCK_N).permute(0, 3, 1, 2)
    even, odd = pairs.split()
    first, third = even.split()
    second, fourth = odd.split()
    return first, second, third, fourth


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
