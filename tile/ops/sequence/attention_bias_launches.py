"""The launches of the gradients of attention's bias and slopes."""

from __future__ import annotations

from typing import Any

import tile
from tile.ops.core.batched_grid import batched_grid
from tile.ops.core.call import F32, Call, Operand, accumulator
from tile.ops.core.call_plans import launch
from tile.ops.core.column_sums import column_sums
from tile.ops.core.new_arrays import row_major
from tile.ops.core.tables import Configuration
from tile.ops.sequence.attention_bias_gradients import bias_gradient_kernel
from tile.ops.sequence.attention_gradient_launches import Gradients
from tile.ops.sequence.attention_loop import LOG2_E


def bias_gradient(call: Call, gradients: Gradients, *options: Any) -> Any:
    """Return the gradient of the bias, in its type."""
    bias = next(operand for operand in call.operands if operand.name == "bias")
    result = call.new(bias.shape, bias.dtype)
    _launch(gradients, result, row_major(bias.shape), bias.shape, False, *options)
    return result.value


def slopes_gradient(call: Call, gradients: Gradients, *options: Any) -> Any:
    """Return the gradient of the slopes: sums over keys, then over batches and queries."""
    batches, heads, queries = gradients.batches, gradients.heads, gradients.queries
    parts = call.new((batches * queries, heads), accumulator(call.operands[0].dtype))
    extents = (batches, heads, queries, 1)
    _launch(gradients, parts, (queries * heads, 1, heads, 0), extents, True, *options)
    result = call.new((heads,), F32)
    if heads:
        column_sums(parts, result)
    return result.value


def _launch(
    gradients: Gradients,
    gradient: Operand,
    strides: tuple[int, ...],
    extents: tuple[int, ...],
    distances: bool,
    config: Configuration,
    size: int,
    scale: float,
    causal: bool,
    window: int | None,
) -> None:
    """Write the gradient of a bias of these extents, or the same of scores times distances.

    extents: of batch, head, query and key, each 1 or that of the scores. distances: multiply
    by minus the distance, for the gradient of slopes.
    """
    rows, heads, queries, keys = extents
    key_tiles = tile.cdiv(keys, config["BLOCK_N"])
    blocks = tile.cdiv(queries, config["BLOCK_M"]) * key_tiles
    grid, order = batched_grid(blocks, rows * heads)
    if not grid[0] * grid[1]:
        return
    launch(bias_gradient_kernel, grid)(
        *(*gradients.inputs, gradient.value, strides, *gradients.bias),
        *(gradients.q_strides, gradients.k_strides, gradients.log_strides, heads),
        *(gradients.batches if rows == 1 else 1, gradients.heads if heads == 1 else 1, key_tiles),
        *(gradients.heads // gradients.key_heads, gradients.queries, gradients.keys, size, window),
        LOG2_SCALE=scale * LOG2_E,
        CAUSAL=bool(causal),
        DISTANCES=distances,
        SUM_QUERIES=queries == 1,
        SUM_KEYS=keys == 1,
        HEAD=max(16, tile.next_power_of_2(size)),
        **order,
        **config,
    )
