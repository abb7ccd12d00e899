"""The launches of attention of one query a head: of parts of the keys, and of their sum."""

from __future__ import annotations

from typing import Any

import tile
import tile.language as tl
from tile.ops.core.call import Call, Operand, accumulator
from tile.ops.core.call_plans import launch
from tile.ops.sequence.attention_loop import LOG2_E
from tile.ops.sequence.decode_kernels import add_parts_kernel, decode_kernel

# Keys of an iteration, of heads of up to 64 elements and of larger ones: H200, 2026-11-30.
BLOCK_N, FEWER = 64, 32
# Programs that run at once, by backend: two on each of an H200's 132 multiprocessors. 320 for 64
# heads take 42.7 us, 256 take 36.4.
PROGRAMS = {"nvptx": 264}
# Where there are more programs, buffers for several of them: 64 x 64 heads on 8 of 8192 keys of 128
# elements take 468.5 us, 473.0 with three stages.
SEVERAL = {"num_stages": 2}


def launch_by_keys(
    call: Call,
    operands: tuple[Any, Operand, Operand],
    lengths: Any,
    table: Any,
    out: Any,
    sizes: tuple[int, int, int, int],
    scale: float,
    pages: tuple[int, int],
) -> None:
    """Write the attention of one query a head, whose programs share the keys.

    operands: q, contiguous, k and v. lengths: the keys of each sequence; None for all. table: the
    pages that have them, or None. sizes: batches, heads, heads of keys, and keys. pages: the stride
    of a row of the table, and the keys of a page.
    """
    (q, key, value), (batches, heads, key_heads, keys) = operands, sizes
    size, sums = key.shape[-1], accumulator(key.dtype)
    parts = parts_of(call, batches * key_heads, keys)
    head = max(16, tile.next_power_of_2(size))
    block = BLOCK_N if head <= 64 else FEWER
    span = tile.cdiv(tile.cdiv(keys, parts), block) * block
    values, highest, weights = out, None, None
    if parts > 1:
        values = call.new((batches, heads, parts, size), sums).value
        highest, weights = (call.new((batches, heads, parts), sums).value for _ in range(2))
    launch(decode_kernel, (batches * key_heads, parts))(
        *(q, key.value, value.value, lengths, table),
        *(values, highest, weights, key.strides[:3], value.strides[:3], *pages),
        *(key_heads, heads // key_heads, keys, span, size),
        SCALE=scale * LOG2_E,
        SUMS=getattr(tl, sums.name),
        BLOCK_G=max(16, tile.next_power_of_2(heads // key_heads)),
        BLOCK_N=block,
        HEAD=head,
        **(SEVERAL if parts == 1 and head > 64 else {}),
    )
    if parts > 1:
        launch(add_parts_kernel, (batches * heads,))(
            *(values, highest, weights, out, parts, size),
            PARTS=tile.next_power_of_2(parts),
            HEAD=head,
        )


def parts_of(call: Call, heads: int, keys: int) -> int:
    """Return into how many parts keys are split, of two iterations or more."""
    return max(1, min(PROGRAMS.get(call.backend, 4) // heads, keys // (2 * BLOCK_N)))
