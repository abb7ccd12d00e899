"""The gradient of queries of attention of sequences: TMA copies blocks of keys and values.

As in descriptor_q_gradient.py, a program has a block of queries. Keys of a block that ends in the
next sequence have pointers and masks, as what that sequence has may not be finite. The kernel
stores delta, and copies the sums of the forward pass, where TMA can load them for the gradients of
keys: the sums of a sequence begin at a multiple of 16 bytes.
"""

from __future__ import annotations

import tile
import tile.language as tl
from tile.ops.core.batched_grid import place
from tile.ops.core.tables import ANY, Table
from tile.ops.sequence.attention_probabilities import sequence

ALIGNED = tl.constexpr(4)  # sums in 16 bytes
_FOUR = {"BLOCK_M": 64, "BLOCK_N": 64, "num_warps": 4, "num_stages": 2}
# By the size of a head. Registers bound programs to as many as have no spills in their loops by
# ptxas. Not measured.
QUERY_TILES = Table(
    {(ANY,): {"BLOCK_M": 32, "BLOCK_N": 32}},
    {"nvptx": {(64,): {**_FOUR, "maxnreg": 128}, (ANY,): _FOUR}},
)
KEY_TILES = Table(
    {(ANY,): {"BLOCK_M": 32, "BLOCK_N": 32}},
    {"nvptx": {(64,): {**_FOUR, "maxnreg": 168}, (ANY,): _FOUR}},
)


@tile.jit
def first_sum(row, number):
    """Return where the sums of sequence `number` begin, whose first token is `row`."""
    return tl.cdiv(row, ALIGNED) * ALIGNED + number * ALIGNED


def count_sums(tokens: int, sequences: int) -> int:
    """Return the number of sums of a head, so that those of each begin at 16 bytes."""
    return tile.cdiv(tokens + (sequences + 1) * ALIGNED.value, 16) * 16


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
    CAUSAL: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BATCH_AXIS: tl.constexpr = 1,
):
    shape, block = [key_heads, key_tokens, SIZE], [1, BLOCK_N, SIZE]
    strides = [SIZE, key_heads * SIZE, 1]
    k_source = tl.make_tensor_descriptor(k_ptr, shape, strides, block)
    v_source = tl.make_tensor_descriptor(v_ptr, shape, strides, block)
    rank, number = place(BATCH_AXIS)
    number, head = number // heads, number % heads
    key_head = head // (heads // key_heads)
    q_row, k_row, queries, keys = sequence(
        number, q_starts_ptr, k_starts_ptr, longest, longest_keys, tokens
    )
    if CAUSAL:  # those that see the most keys first, so that no long one is last
        rank = tl.cdiv(longest, BLOCK_M) - 1 - rank
    if rank * BLOCK_M >= queries:
        return
    feature = tl.arange(0, SIZE)[None, :]
    query = rank * BLOCK_M + tl.arange(0, BLOCK_M)
    exists = query < queries
    at = (q_row + query)[:, None] * (heads * SIZE) + (head * SIZE + feature)
    q = tl.load(q_ptr + at, mask=exists[:, None], other=0.0)
    dout = tl.load(dout_ptr + at, mask=exists[:, None], other=0.0)
    out = tl.load(out_ptr + at, mask=exists[:, None], other=0.0)
    delta = tl.sum(out.to(tl.float32) * dout.to(tl.float32), axis=1)
    log_sum_at = log_sum_ptr + head.to(tl.int64) * tokens + q_row + query
    log_sum = tl.load(log_sum_at, mask=exists, other=0.0)
    sum_at = head.to(tl.int64) * sums + first_sum(q_row, number) + query
    tl.store(delta_ptr + sum_at, delta, mask=exists)
    tl.store(sums_ptr + sum_at, log_sum, mask=exists)
    dq = tl.zeros((BLOCK_M, SIZE), tl.float32)
    first = rank * BLOCK_M + keys - queries
    end = keys
    if CAUSAL:
        end = min(keys, first + BLOCK_M)
    last = min(end, keys // BLOCK_N * BLOCK_N)
    token = k_row.to(tl.int32)
    for start in range(0, last, BLOCK_N):
        key = start + tl.arange(0, BLOCK_N)
        k = k_source.load([key_head, token + start, 0]).reshape(BLOCK_N, SIZE)
        p = tl.exp2(tl.dot(q, tl.trans(k)) * LOG2_SCALE - log_sum[:, None])
        if CAUSAL and start + BLOCK_N > first:
            p = tl.where(key[None, :] <= query[:, None] + keys - queries, p, 0.0)
        v = v_source.load([key_head, token + start, 0]).reshape(BLOCK_N, SIZE)
        dp = tl.dot(dout, tl.trans(v))
        dq = tl.dot((p * (dp - delta[:, None])).to(k.dtype), k, dq)
    for start in range(last, end, BLOCK_N):
        key = start + tl.arange(0, BLOCK_N)
        inside = (key < keys)[:, None]
        k_at = (k_row + key)[:, None] * (key_heads * SIZE) + (key_head * SIZE + feature)
        k = tl.load(k_ptr + k_at, mask=inside, other=0.0)
        v = tl.load(v_ptr + k_at, mask=inside, other=0.0)
        seen = (key < keys)[None, :]
        if CAUSAL:
            seen = seen & (key[None, :] <= query[:, None] + keys - queries)
        p = tl.exp2(tl.dot(q, tl.trans(k)) * LOG2_SCALE - log_sum[:, None])
        dp = tl.dot(dout, tl.trans(v))
        ds = tl.where(seen, p * (dp - delta[:, None]), 0.0)
        dq = tl.dot(ds.to(k.dtype), k, dq)
    tl.store(dq_ptr + at, (dq * SCALE).to(dq_ptr.dtype.element_ty), mask=exists[:, None])
