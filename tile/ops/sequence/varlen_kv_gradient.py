"""The gradients of keys and values of attention of sequences: TMA copies blocks of queries.

As in descriptor_kv_gradient.py, a program has a block of keys. Blocks of queries end with their
sequence: beyond it they have zeros (attention_loop.py), and so have their sums, which
varlen_q_gradient.py stores, so that such queries add nothing.
"""

from __future__ import annotations

import tile
import tile.language as tl
from tile.ops.core.batched_grid import place
from tile.ops.sequence.attention_loop import sequence_rows
from tile.ops.sequence.attention_probabilities import sequence
from tile.ops.sequence.varlen_q_gradient import first_sum


@tile.jit
def accumulate_kv(
    sources,
    head,
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
    HEAD: tl.constexpr,
    CAUSAL: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    DELTA_LAST: tl.constexpr,
):
    """Return dk and dv with the queries of a head.

    sources: descriptors of q, dout, log_sums and delta. sum_row: the first sum of the head.
    DELTA_LAST: registers are short, so delta is loaded after the dots that need not wait for it.
    """
    q_source, dout_source, log_sums, deltas = sources
    key = (first + tl.arange(0, BLOCK_N))[:, None]
    offset, begin = keys - queries, 0
    if CAUSAL:
        begin = max(first - offset, 0) // BLOCK_M * BLOCK_M
    for start in range(begin, queries, BLOCK_M):
        count = min(queries - start, BLOCK_M)
        rows = q_row + start + count - 1, head, BLOCK_M - count, 0
        q = q_source.load([*rows]).reshape(BLOCK_M, HEAD)
        log_sum = log_sums.load([sum_row + start])
        scores = tl.dot(k, tl.trans(q))
        dout = dout_source.load([*rows]).reshape(BLOCK_M, HEAD)
        if not DELTA_LAST:
            delta = deltas.load([sum_row + start])
        p = tl.exp2(scores * LOG2_SCALE - log_sum[None, :])
        if CAUSAL and start + offset < first + BLOCK_N:
            p = tl.where(key <= (start + tl.arange(0, BLOCK_M) + offset)[None, :], p, 0.0)
        dv = tl.dot(p.to(dout.dtype), dout, dv)
        dp = tl.dot(v, tl.trans(dout))
        if DELTA_LAST:
            delta = deltas.load([sum_row + start])
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
    HEAD: tl.constexpr,
    GAP: tl.constexpr,
    GROUPED: tl.constexpr,
    CAUSAL: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BATCH_AXIS: tl.constexpr = 1,
    DELTA_LAST: tl.constexpr = False,
):
    strides = 0, SIZE, tl.cast(heads, tl.int64) * SIZE
    q_source = sequence_rows(q_ptr, strides, tokens, heads, SIZE, BLOCK_M, HEAD)
    dout_source = sequence_rows(dout_ptr, strides, tokens, heads, SIZE, BLOCK_M, HEAD)
    log_sums = tl.make_tensor_descriptor(sums_ptr, [heads * sums], [1], [BLOCK_M])
    deltas = tl.make_tensor_descriptor(delta_ptr, [heads * sums], [1], [BLOCK_M])
    rank, number = place(BATCH_AXIS)
    number, key_head = number // key_heads, number % key_heads
    q_row, k_row, queries, keys = sequence(
        number, q_starts_ptr, k_starts_ptr, longest, longest_keys, tokens
    )
    first = rank * BLOCK_N
    if first >= keys:  # of a longer sequence
        queries = 0
    key = first + tl.arange(0, BLOCK_N)
    feature = tl.arange(0, HEAD)[None, :]
    at = (k_row + key)[:, None] * (key_heads * SIZE) + (key_head * SIZE + feature)
    inside = (key < keys)[:, None] & (feature < SIZE)
    k = tl.load(k_ptr + at, mask=inside, other=0.0)
    v = tl.load(v_ptr + at, mask=inside, other=0.0)
    dk = tl.zeros((BLOCK_N, HEAD), tl.float32)
    dv = tl.zeros((BLOCK_N, HEAD), tl.float32)
    sources = q_source, dout_source, log_sums, deltas
    row, sum_row = q_row.to(tl.int32), first_sum(q_row.to(tl.int32), number, GAP)
    block_of_keys = queries, keys, k, v, first
    options = LOG2_SCALE, HEAD, CAUSAL, BLOCK_M, BLOCK_N, DELTA_LAST
    if GROUPED:
        group = heads // key_heads
        for head in range(key_head * group, (key_head + 1) * group):
            rows = head, row, head * sums + sum_row
            dk, dv = accumulate_kv(sources, *rows, *block_of_keys, dk, dv, *options)
    else:
        rows = key_head, row, key_head * sums + sum_row
        dk, dv = accumulate_kv(sources, *rows, *block_of_keys, dk, dv, *options)
    tl.store(dk_ptr + at, (dk * SCALE).to(dk_ptr.dtype.element_ty), mask=inside)
    tl.store(dv_ptr + at, dv.to(dv_ptr.dtype.element_ty), mask=inside)
