"""The gradients of keys and values of attention of sequences: TMA copies blocks of queries.

As in descriptor_kv_gradient.py, a program has a block of keys. Queries of a block that ends in the
next sequence have pointers and masks: what that sequence has may not be finite, and 0 times it
would be NaN.
"""

from __future__ import annotations

import tile
import tile.language as tl
from tile.ops.core.batched_grid import place
from tile.ops.sequence.attention_probabilities import sequence
from tile.ops.sequence.varlen_q_gradient import first_sum


@tile.jit
def accumulate_kv(
    sources,
    pointers,
    head,
    heads,
    q_row,
    sum_row,
    queries,
    keys,
    k,
    v,
    first,
    dk,
    dv,
    LOG2_SCALE: tl.constexpr,
    SIZE: tl.constexpr,
    CAUSAL: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
):
    """Return dk and dv with the queries of a head.

    sources: descriptors of q, dout, log_sums and delta; pointers: to these.
    """
    q_source, dout_source, log_sums, deltas = sources
    q_ptr, dout_ptr, sums_ptr, delta_ptr = pointers
    key = (first + tl.arange(0, BLOCK_N))[:, None]
    offset, begin = keys - queries, 0
    if CAUSAL:
        begin = max(first - offset, 0) // BLOCK_M * BLOCK_M
    whole = max(queries // BLOCK_M * BLOCK_M, begin)
    token = q_row.to(tl.int32)
    for start in range(begin, whole, BLOCK_M):
        q = q_source.load([head, token + start, 0]).reshape(BLOCK_M, SIZE)
        log_sum = log_sums.load([sum_row + start])
        scores = tl.dot(k, tl.trans(q))
        dout = dout_source.load([head, token + start, 0]).reshape(BLOCK_M, SIZE)
        delta = deltas.load([sum_row + start])
        p = tl.exp2(scores * LOG2_SCALE - log_sum[None, :])
        if CAUSAL and start + offset < first + BLOCK_N:
            p = tl.where(key <= (start + tl.arange(0, BLOCK_M) + offset)[None, :], p, 0.0)
        dv = tl.dot(p.to(dout.dtype), dout, dv)
        dp = tl.dot(v, tl.trans(dout))
        ds = (p * (dp - delta[None, :])).to(q.dtype)
        dk = tl.dot(ds, q, dk)
    for start in range(whole, queries, BLOCK_M):
        query = start + tl.arange(0, BLOCK_M)
        exists = query < queries
        at = (q_row + query)[:, None] * (heads * SIZE) + (head * SIZE + tl.arange(0, SIZE)[None, :])
        q = tl.load(q_ptr + at, mask=exists[:, None], other=0.0)
        dout = tl.load(dout_ptr + at, mask=exists[:, None], other=0.0)
        log_sum = tl.load(sums_ptr + (sum_row + query), mask=exists, other=0.0)
        delta = tl.load(delta_ptr + (sum_row + query), mask=exists, other=0.0)
        p = tl.exp2(tl.dot(k, tl.trans(q)) * LOG2_SCALE - log_sum[None, :])
        seen = exists[None, :]
        if CAUSAL:
            seen = seen & (key <= query[None, :] + offset)
        p = tl.where(seen, p, 0.0)
        dv = tl.dot(p.to(dout.dtype), dout, dv)
        dp = tl.dot(v, tl.trans(dout))
        ds = (p * (dp - delta[None, :])).to(q.dtype)
        dk = tl.dot(ds, q, dk)
    return dk, dv


@tile.jit
def varlen_kv_kernel(
    q_ptr,
    k_ptr,
    v_ptr,
    dout_ptr,
    sums_ptr,
    delta_ptr,
    dk_ptr,
    dv_ptr,
    q_starts_ptr,
    k_starts_ptr,
    heads,
    key_heads,
    tokens,
    sums,
    longest,
    longest_keys,
    SCALE: tl.constexpr,
    LOG2_SCALE: tl.constexpr,
    SIZE: tl.constexpr,
    GROUPED: tl.constexpr,
    CAUSAL: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BATCH_AXIS: tl.constexpr = 1,
):
    shape, strides, block = [heads, tokens, SIZE], [SIZE, heads * SIZE, 1], [1, BLOCK_M, SIZE]
    q_source = tl.make_tensor_descriptor(q_ptr, shape, strides, block)
    dout_source = tl.make_tensor_descriptor(dout_ptr, shape, strides, block)
    log_sums = tl.make_tensor_descriptor(sums_ptr, [heads * sums], [1], [BLOCK_M])
    deltas = tl.make_tensor_descriptor(delta_ptr, [heads * sums], [1], [BLOCK_M])
    rank, number = place(BATCH_AXIS)
    number, key_head = number // key_heads, number % key_heads
    q_row, k_row, queries, keys = sequence(
        number, q_starts_ptr, k_starts_ptr, longest, longest_keys, tokens
    )
    first = rank * BLOCK_N
    if first >= keys:
        return
    key = first + tl.arange(0, BLOCK_N)
    feature = key_head * SIZE + tl.arange(0, SIZE)[None, :]
    at = (k_row + key)[:, None] * (key_heads * SIZE) + feature
    inside = (key < keys)[:, None]
    k = tl.load(k_ptr + at, mask=inside, other=0.0)
    v = tl.load(v_ptr + at, mask=inside, other=0.0)
    dk = tl.zeros((BLOCK_N, SIZE), tl.float32)
    dv = tl.zeros((BLOCK_N, SIZE), tl.float32)
    sources = q_source, dout_source, log_sums, deltas
    pointers = q_ptr, dout_ptr, sums_ptr, delta_ptr
    sum_row = first_sum(q_row.to(tl.int32), number)
    block_of_keys = queries, keys, k, v, first
    options = LOG2_SCALE, SIZE, CAUSAL, BLOCK_M, BLOCK_N
    if GROUPED:
        group = heads // key_heads
        for head in range(key_head * group, (key_head + 1) * group):
            rows = head, heads, q_row, head * sums + sum_row
            dk, dv = accumulate_kv(sources, pointers, *rows, *block_of_keys, dk, dv, *options)
    else:
        rows = key_head, heads, q_row, key_head * sums + sum_row
        dk, dv = accumulate_kv(sources, pointers, *rows, *block_of_keys, dk, dv, *options)
    tl.store(dk_ptr + at, (dk * SCALE).to(dk_ptr.dtype.element_ty), mask=inside)
    tl.store(dv_ptr + at, dv.to(dv_ptr.dtype.element_ty), mask=inside)
