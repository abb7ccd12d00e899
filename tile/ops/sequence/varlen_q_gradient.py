"""The gradient of queries of attention of sequences: TMA copies blocks of keys and values.

As in descriptor_q_gradient.py, a program has a block of queries. Blocks of keys end with their
sequence: beyond it they have zeros (attention_loop.py). The kernel stores delta, and copies the
sums of the forward pass, where TMA can load them for the gradients of keys: the sums of a sequence
begin at a multiple of 16 bytes, and those of queries that its last block lacks are zeros. Programs
without queries do not return early, since loops in branches are not warp-specialized.
"""

from __future__ import annotations

import tile
import tile.language as tl
from tile.ops.core.batched_grid import place
from tile.ops.sequence.attention_loop import sequence_rows
from tile.ops.sequence.attention_probabilities import sequence

ALIGNED = tl.constexpr(4)  # sums in 16 bytes


@tile.jit
def first_sum(row, number, GAP: tl.constexpr):
    """Return where the sums of sequence `number` begin, whose first token is `row`."""
    return tl.cdiv(row, ALIGNED) * ALIGNED + number * GAP


def gap_of(block: int) -> int:
    """Return the sums between those of two sequences, for a last block that is not whole."""
    gap: int = block + ALIGNED.value
    return gap


def count_sums(tokens: int, sequences: int, gap: int) -> int:
    """Return the number of sums of a head, so that those of each begin at 16 bytes."""
    return tile.cdiv(tokens + (sequences + 1) * gap, 16) * 16


@tile.jit
def varlen_q_kernel(
    q_ptr,
    k_ptr,
    v_ptr,
    dout_ptr,
    out_ptr,
    log_sum_ptr,
    sums_ptr,
    delta_ptr,
    dq_ptr,
    q_starts_ptr,
    k_starts_ptr,
    heads,
    key_heads,
    tokens,
    key_tokens,
    sums,
    longest,
    longest_keys,
    SCALE: tl.constexpr,
    LOG2_SCALE: tl.constexpr,
    SIZE: tl.constexpr,
    HEAD: tl.constexpr,
    GAP: tl.constexpr,
    CAUSAL: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BATCH_AXIS: tl.constexpr = 1,
):
    strides = 0, SIZE, tl.cast(key_heads, tl.int64) * SIZE
    k_source = sequence_rows(k_ptr, strides, key_tokens, key_heads, SIZE, BLOCK_N, HEAD)
    v_source = sequence_rows(v_ptr, strides, key_tokens, key_heads, SIZE, BLOCK_N, HEAD)
    rank, number = place(BATCH_AXIS)
    number, head = number // heads, number % heads
    key_head = head // (heads // key_heads)
    q_row, k_row, queries, keys = sequence(
        number, q_starts_ptr, k_starts_ptr, longest, longest_keys, tokens
    )
    if CAUSAL:  # those that see the most keys first, so that no long one is last
        rank = tl.cdiv(longest, BLOCK_M) - 1 - rank
    feature = tl.arange(0, HEAD)[None, :]
    query = rank * BLOCK_M + tl.arange(0, BLOCK_M)
    exists = query < queries
    at = (q_row + query)[:, None] * (heads * SIZE) + (head * SIZE + feature)
    inside = exists[:, None] & (feature < SIZE)
    q = tl.load(q_ptr + at, mask=inside, other=0.0)
    dout = tl.load(dout_ptr + at, mask=inside, other=0.0)
    out = tl.load(out_ptr + at, mask=inside, other=0.0)
    delta = tl.sum(out.to(tl.float32) * dout.to(tl.float32), axis=1)
    log_sum_at = log_sum_ptr + head.to(tl.int64) * tokens + q_row + query
    log_sum = tl.load(log_sum_at, mask=exists, other=0.0)
    sum_at = head.to(tl.int64) * sums + first_sum(q_row, number, GAP) + query
    tl.store(delta_ptr + sum_at, delta, mask=rank * BLOCK_M < queries)
    tl.store(sums_ptr + sum_at, log_sum, mask=rank * BLOCK_M < queries)
    dq = tl.zeros((BLOCK_M, HEAD), tl.float32)
    offset = keys - queries
    whole = end = keys
    if CAUSAL:
        whole = rank * BLOCK_M + offset
        end = min(keys, whole + BLOCK_M)
    if rank * BLOCK_M >= queries:  # of a longer sequence
        end = 0
    row = k_row.to(tl.int32)
    for start in range(0, end, BLOCK_N):
        count = min(keys - start, BLOCK_N)
        rows = row + start + count - 1, key_head, BLOCK_N - count, 0
        k = k_source.load([*rows]).reshape(BLOCK_N, HEAD)
        p = tl.exp2(tl.dot(q, tl.trans(k)) * LOG2_SCALE - log_sum[:, None])
        if start + BLOCK_N > whole:
            key = start + tl.arange(0, BLOCK_N)[None, :]
            seen = key <= query[:, None] + offset if CAUSAL else key < keys
            p = tl.where(seen, p, 0.0)
        v = v_source.load([*rows]).reshape(BLOCK_N, HEAD)
        dp = tl.dot(dout, tl.trans(v))
        dq = tl.dot((p * (dp - delta[:, None])).to(k.dtype), k, dq)
    tl.store(dq_ptr + at, (dq * SCALE).to(dq_ptr.dtype.element_ty), mask=inside)
