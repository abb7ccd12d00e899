"""The launches of the gradients of attention of sequences of different lengths by descriptors."""

from __future__ import annotations

from typing import Any

import tile
from tile.ops.core.batched_grid import batched_grid
from tile.ops.core.call import F32, Call
from tile.ops.core.call_plans import launch
from tile.ops.sequence.attention_loop import LOG2_E
from tile.ops.sequence.descriptor_kv_gradient import is_of_size
from tile.ops.sequence.varlen_kv_gradient import varlen_kv_kernel
from tile.ops.sequence.varlen_q_gradient import count_sums, gap_of, varlen_q_kernel
from tile.ops.sequence.varlen_tables import KEY_TILES, QUERY_TILES


def describes(call: Call) -> bool:
    """Return True if there are kernels that load blocks of q, k, v and dout by descriptors."""
    tensors = [operand for operand in call.operands if operand.name in ("q", "k", "v", "dout")]
    fits = is_of_size(tensors[0].shape[-1]) and tensors[0].dtype.itemsize == 2
    return fits and call.describes(*tensors)


def launch_by_descriptors(
    call: Call,
    tensors: tuple[Any, Any, Any, Any],
    result: Any,
    log_sums: Any,
    outputs: tuple[Any, Any, Any],
    starts: tuple[Any, Any],
    sequences: int,
    longest: int,
    longest_keys: int,
    scale: float,
    causal: bool,
) -> None:
    """Write dq, dk and dv without a window, by kernels with descriptors."""
    (tokens, heads, size), (key_tokens, key_heads, _) = (
        operand.shape for operand in call.operands[:2]
    )
    head = tile.next_power_of_2(size)
    tiles, (dq, dk, dv) = QUERY_TILES.select(call.backend, size, int(causal)), outputs
    gap = gap_of(tiles["BLOCK_M"])
    count = count_sums(tokens, sequences, gap)
    sums, delta = (call.new((heads, count), F32).value for _ in range(2))
    options = {
        "SCALE": scale,
        "LOG2_SCALE": scale * LOG2_E,
        "SIZE": size,
        "HEAD": head,
        "GAP": gap,
        "CAUSAL": causal,
    }
    # What programs of a head read, of two arrays of 16 bits.
    reread = 4 * longest_keys * size * key_heads // heads if causal else None
    grid, order = batched_grid(tile.cdiv(longest, tiles["BLOCK_M"]), sequences * heads, reread)
    launch(varlen_q_kernel, grid)(
        *(*tensors, result, log_sums, sums, delta, dq, *starts, heads, key_heads),
        *(tokens, key_tokens, count, longest, longest_keys),
        **order,
        **options,
        **tiles,
    )
    tiles = KEY_TILES.select(call.backend, size, int(causal))
    reread = 4 * longest * size * heads // key_heads if causal else None
    blocks = tile.cdiv(longest_keys, tiles["BLOCK_N"])
    grid, order = batched_grid(blocks, sequences * key_heads, reread)
    launch(varlen_kv_kernel, grid)(
        *(*tensors, sums, delta, dk, dv, *starts, heads, key_heads),
        *(tokens, count, longest, longest_keys),
        GROUPED=heads != key_heads,
        **order,
        **options,
        **tiles,
    )
