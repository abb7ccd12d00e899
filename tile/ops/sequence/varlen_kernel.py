"""The kernel of attention of sequences with a program for each multiprocessor.

Programs take the blocks of queries of all heads and sequences cyclically, so that each has as many
of every sequence, and a producer loads for the next block while a program ends one. All blocks are
loaded and stored by descriptors that end with their sequence (attention_loop.py).
"""

from __future__ import annotations

import tile
import tile.language as tl
from tile.ops.sequence.attention_loop import attend, sequence_rows
from tile.ops.sequence.seen_keys import seen_blocks

CHECKED = tl.constexpr(128)  # sequences whose starts are checked at a time


@tile.jit
def check_starts(starts_ptr, sequences, longest, tokens):
    """Assert that sequences are of at most `longest` of all tokens."""
    for first in tl.range(0, sequences, CHECKED, loop_unroll_factor=1):
        sequence = first + tl.arange(0, CHECKED)
        exists = sequence < sequences
        start = tl.load(starts_ptr + sequence, mask=exists, other=0)
        end = tl.load(starts_ptr + sequence + 1, mask=exists, other=0)
        tl.device_assert(
            (start >= 0) & (start <= end) & (end <= tokens) & (end - start <= longest),
            "q_starts and k_starts are tokens, and longest is not less than any sequence",
        )


@tile.jit
def sequence_block(
    rank,
    head,
    q_row,
    k_row,
    queries,
    keys,
    q_ptr,
    k_ptr,
    v_ptr,
    out_ptr,
    log_sum_ptr,
    heads,
    key_heads,
    tokens,
    key_tokens,
    window,
    SCALE: tl.constexpr,
    SIZE: tl.constexpr,
    HEAD: tl.constexpr,
    CAUSAL: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
):
    """Write the result of block `rank` of the queries of a head of a sequence."""
    q_strides = 0, SIZE, tl.cast(heads, tl.int64) * SIZE
    k_strides = 0, SIZE, tl.cast(key_heads, tl.int64) * SIZE
    q_source = sequence_rows(q_ptr, q_strides, tokens, heads, SIZE, BLOCK_M, HEAD)
    k_source = sequence_rows(k_ptr, k_strides, key_tokens, key_heads, SIZE, BLOCK_N, HEAD)
    v_source = sequence_rows(v_ptr, k_strides, key_tokens, key_heads, SIZE, BLOCK_N, HEAD)
    target = sequence_rows(out_ptr, q_strides, tokens, heads, SIZE, BLOCK_M, HEAD)
    count = max(min(queries - rank * BLOCK_M, BLOCK_M), 0)
    place = q_row + rank * BLOCK_M + count - 1, head, BLOCK_M - count, 0
    q = q_source.load([*place]).reshape(BLOCK_M, HEAD)
    query = rank * BLOCK_M + tl.arange(0, BLOCK_M)
    offset = keys - queries
    first = rank * BLOCK_M + offset
    if count == 0:  # of the other block of a pair
        keys = 0
    begin, middle, whole, end = seen_blocks(first, keys, window, CAUSAL, True, BLOCK_M, BLOCK_N)
    highest = tl.full((BLOCK_M,), -float("inf"), dtype=tl.float32)
    weights = tl.zeros((BLOCK_M,), dtype=tl.float32)
    total = tl.zeros((BLOCK_M, HEAD), dtype=tl.float32)
    SEES_NONE: tl.constexpr = CAUSAL or window is not None
    options = SEES_NONE, True, True, BLOCK_N, HEAD, not CAUSAL, False
    highest, weights, total = attend(
        *(q, k_source, v_source, 0, head // (heads // key_heads), k_row, query + offset, 0, 0),
        *(begin, middle, whole, end, keys, window, None, 0, None, highest, weights, total),
        *(SCALE, SIZE, CAUSAL, "some", *options),
    )
    weights = tl.where(weights == 0.0, 1.0, weights)  # queries that see no key have the result 0
    total *= (1.0 / weights)[:, None]
    target.store([*place], total.to(out_ptr.dtype.element_ty).reshape(1, 1, BLOCK_M, HEAD))
    if log_sum_ptr is not None:
        at = head.to(tl.int64) * tokens + q_row + query
        tl.store(log_sum_ptr + at, highest + tl.log2(weights), mask=query < queries)


@tile.jit
def varlen_kernel(
    q_ptr,
    k_ptr,
    v_ptr,
    out_ptr,
    log_sum_ptr,
    q_starts_ptr,
    k_starts_ptr,
    sequences,
    heads,
    key_heads,
    longest,
    tokens,
    key_tokens,
    window,
    SCALE: tl.constexpr,
    SIZE: tl.constexpr,
    HEAD: tl.constexpr,
    CAUSAL: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    PROGRAMS: tl.constexpr,
):
    check_starts(q_starts_ptr, sequences, longest, tokens)
    check_starts(k_starts_ptr, sequences, key_tokens, key_tokens)
    arrays = q_ptr, k_ptr, v_ptr, out_ptr, log_sum_ptr
    sizes = heads, key_heads, tokens, key_tokens, window
    options = SCALE, SIZE, HEAD, CAUSAL, BLOCK_M, BLOCK_N
    # Programs take the blocks of all sequences cyclically: `rank` is their first one of a sequence.
    rank = tl.program_id(0)
    for sequence in tl.range(0, sequences):
        q_row, k_row = tl.load(q_starts_ptr + sequence), tl.load(k_starts_ptr + sequence)
        queries = tl.load(q_starts_ptr + sequence + 1) - q_row
        keys = tl.load(k_starts_ptr + sequence + 1) - k_row
        place = q_row, k_row, queries, keys
        blocks = tl.cdiv(queries, BLOCK_M)
        if CAUSAL:  # pairs of blocks, which all see as many keys together
            pairs = tl.cdiv(blocks, 2)
            count = heads * pairs
            for half in tl.range(0, 2 * tl.cdiv(count - rank, PROGRAMS)):
                pair = rank + half // 2 * PROGRAMS
                at = pair % pairs
                if half % 2 == 0:
                    at = 2 * pairs - 1 - at
                sequence_block(at, pair // pairs, *place, *arrays, *sizes, *options)
        else:
            count = heads * blocks
            for at in tl.range(rank, count, PROGRAMS):
                sequence_block(at % blocks, at // blocks, *place, *arrays, *sizes, *options)
        rank = (rank + PROGRAMS - count % PROGRAMS) % PROGRAMS
