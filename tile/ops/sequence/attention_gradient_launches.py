"""The launches of the kernels of the gradients of attention.

Attention of equal lengths and that of sequences of different lengths share them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import tile
from tile.ops.core.batched_grid import BatchedGrid, batched_grid
from tile.ops.core.call_plans import launch
from tile.ops.core.new_arrays import Shape
from tile.ops.core.tables import ANY, Configuration, Table
from tile.ops.sequence.attention_kv_gradient import gradient_kv_kernel
from tile.ops.sequence.attention_loop import LOG2_E
from tile.ops.sequence.attention_probabilities import delta_kernel, scale_kernel
from tile.ops.sequence.attention_q_gradient import gradient_q_kernel
from tile.ops.sequence.descriptor_kv_gradient import (
    KEY_TILES,
    SUM_TILES,
    descriptor_kv_kernel,
)
from tile.ops.sequence.descriptor_q_gradient import QUERY_TILES, descriptor_q_kernel

# By the size of a head and the bytes of an element. H200, float16, 4 x 32 x 4096, 2026-11-21
# (docs/results/gpu.md); wider types and heads are not measured: their tiles avoid spills.
TABLE = Table(
    {(ANY, ANY): {"BLOCK_M": 32, "BLOCK_N": 32}},
    {
        "nvptx": {
            (128, 2): {"BLOCK_M": 64, "BLOCK_N": 64, "num_warps": 4, "num_stages": 2},
            (ANY, ANY): {"BLOCK_M": 32, "BLOCK_N": 32, "num_warps": 4, "num_stages": 2},
        }
    },
)

DELTA_ROWS = 16  # of a program
SCALED = 4096  # elements of a program


@dataclass(frozen=True)
class Gradients:
    """One backward pass: the arrays, and the layout of their rows.

    inputs: q, k, v, dout, log_sums and delta. q_strides, k_strides: of a batch, a head and a row,
    of q and dout, and of k and v; log_strides: of a batch and a head. starts: `q_starts` and
    `k_starts` of sequences of different lengths.
    """

    inputs: tuple[Any, ...]
    outputs: tuple[Any, Any, Any]
    bias: tuple[Any, Any, tuple[int, ...]]  # with the slopes
    starts: tuple[Any, Any]
    q_strides: tuple[int, int, int]
    k_strides: tuple[int, int, int]
    log_strides: tuple[int, int]
    batches: int
    heads: int
    key_heads: int
    queries: int
    keys: int

    def launch(
        self,
        config: Configuration,
        size: int,
        scale: float,
        causal: bool,
        window: int | None,
    ) -> None:
        """Write dq, dk and dv."""
        options = {
            "SCALE": scale,
            "LOG2_SCALE": scale * LOG2_E,
            "CAUSAL": bool(causal),
            "HEAD": max(16, tile.next_power_of_2(size)),
            **config,
        }
        layout = (*self.bias, *self.starts, self.q_strides, self.k_strides, self.log_strides)
        group = self.heads // self.key_heads
        sizes = (group, self.queries, self.keys, size, window)
        dq, dk, dv = self.outputs
        blocks = tile.cdiv(self.keys, config["BLOCK_N"])
        if blocks:
            grid, order = self._key_grid(blocks, size, causal)
            launch(gradient_kv_kernel, grid)(
                *(*self.inputs, dk, dv, *layout, self.key_heads, *sizes), **order, **options
            )
        blocks = tile.cdiv(self.queries, config["BLOCK_M"])
        if blocks:
            grid, order = self._query_grid(blocks, size, causal)
            launch(gradient_q_kernel, grid)(
                *(*self.inputs, dq, *layout, self.heads, *sizes), **order, **options
            )

    def launch_by_descriptors(
        self, backend: str, result: Any, size: int, scale: float, causal: bool, sums: Any
    ) -> None:
        """Write delta, dq, dk and dv without a window and bias, by kernels with descriptors.

        result: that of attention. sums: None, or float32 like dq, to add it up in any order.
        """
        sizes = (self.batches, self.heads, self.key_heads, self.queries, self.keys)
        options = {
            "SCALE": scale,
            "LOG2_SCALE": scale * LOG2_E,
            "SIZE": size,
            "HEAD": tile.next_power_of_2(size),
            "CAUSAL": causal,
        }
        dq, dk, dv = self.outputs
        *tensors, log_sums, delta = self.inputs
        if sums is None:
            tiles = QUERY_TILES.select(backend, size, int(causal), self.keys)
            grid, order = self._query_grid(tile.cdiv(self.queries, tiles["BLOCK_M"]), size, causal)
            launch(descriptor_q_kernel, grid)(
                *(*tensors, result, log_sums, delta, dq, *sizes),
                RAGGED=self._is_ragged(tiles),
                **order,
                **options,
                **tiles,
            )
        else:
            shape = (self.batches, self.heads, self.queries, size)
            launch_delta(result, tensors[-1], delta, shape, 1, sums)
        tiles = KEY_TILES.select(backend, size, int(causal))
        if sums is not None:
            tiles = SUM_TILES.select(backend, size, self.keys)
        grid, order = self._key_grid(tile.cdiv(self.keys, tiles["BLOCK_N"]), size, causal)
        launch(descriptor_kv_kernel, grid)(
            *(*self.inputs, sums, dk, dv, *sizes),
            GROUPED=self.heads != self.key_heads,
            RAGGED=self._is_ragged(tiles),
            **order,
            **options,
            **tiles,
        )
        if sums is not None:
            count = math.prod(sizes[:2]) * self.queries * size
            launch(scale_kernel, (tile.cdiv(count, SCALED),))(
                *(sums, dq, count), SCALE=scale, BLOCK=SCALED
            )

    def _query_grid(self, blocks: int, size: int, causal: bool) -> BatchedGrid:
        """Return the grid of blocks of queries, which read keys and values of 16 bits or more."""
        reread = 4 * self.keys * size * self.key_heads // self.heads
        return batched_grid(blocks, self.batches * self.heads, reread if causal else None)

    def _key_grid(self, blocks: int, size: int, causal: bool) -> BatchedGrid:
        """Return the grid of blocks of keys, which read queries and their gradients."""
        reread = 4 * self.queries * size * self.heads // self.key_heads
        return batched_grid(blocks, self.batches * self.key_heads, reread if causal else None)

    def _is_ragged(self, tiles: Configuration) -> bool:
        return bool(self.queries % tiles["BLOCK_M"] or self.keys % tiles["BLOCK_N"])


def launch_delta(
    result: Any, dout: Any, delta: Any, shape: Shape, heads: int, sums: Any = None
) -> None:
    """Write delta, and zeros to sums of dq, as `delta_kernel` does."""
    *rows, size = shape
    count = math.prod(rows)
    launch(delta_kernel, (tile.cdiv(count, DELTA_ROWS),))(
        *(result, dout, delta, sums, count, size, heads, count // heads),
        ROWS=DELTA_ROWS,
        HEAD=max(16, tile.next_power_of_2(size)),
    )
