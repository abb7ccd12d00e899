"""The kernel of the gradients of keys and values of attention.

    dv = p^T @ dout        ds = p * (dout @ v^T - delta)        dk = ds^T @ q * scale

A program has a block of keys, and iterates over the queries that see it, of all heads that share
it. Nothing is added atomically, so results are the same in every run.
"""

from __future__ import annotations

import tile
import tile.language as tl
from tile.ops.core.batched_grid import place
from tile.ops.sequence.attention_loop import LOG2
from tile.ops.sequence.attention_probabilities import probabilities, rows_of, sequence


@tile.jit
def gradient_kv_kernel(
    q_ptr,
    k_ptr,
    v_ptr,
    dout_ptr,
    log_sum_ptr,
    delta_ptr,
    dk_ptr,
    dv_ptr,
    bias_ptr,
    slopes_ptr,
    bias_strides,
    q_starts_ptr,
    k_starts_ptr,
    q_strides,
    k_strides,
    log_strides,
    key_heads,
    group,
    queries,
    keys,
    size,
    window,
    SCALE: tl.constexpr,
    LOG2_SCALE: tl.constexpr,
    CAUSAL: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    HEAD: tl.constexpr,
    BATCH_AXIS: tl.constexpr = 1,
):
    rank, number = place(BATCH_AXIS)
    batch, key_head = (number // key_heads).to(tl.int64), (number % key_heads).to(tl.int64)
    q_row, k_row, queries, keys = sequence(
        batch, q_starts_ptr, k_starts_ptr, queries, keys, log_strides[1]
    )
    first = rank * BLOCK_N
    if q_starts_ptr is not None and first >= keys:
        return
    key = first + tl.arange(0, BLOCK_N)
    base = batch * k_strides[0] + key_head * k_strides[1] + k_row * k_strides[2]
    at, inside = rows_of(base, first, keys, k_strides[2], size, BLOCK_N, HEAD)
    k = tl.load(k_ptr + at, mask=inside, other=0.0)
    v = tl.load(v_ptr + at, mask=inside, other=0.0)
    dk = tl.zeros((BLOCK_N, HEAD), dtype=log_sum_ptr.dtype.element_ty)
    dv = tl.zeros((BLOCK_N, HEAD), dtype=log_sum_ptr.dtype.element_ty)
    # The queries that see a key of the block: their positions are near it.
    begin, end = 0, queries
    if CAUSAL:
        begin = max(first - (keys - queries), 0)
    elif window is not None:
        begin = max(first - window + 1 - (keys - queries), 0)
    if window is not None:
        end = min(queries, first + BLOCK_N - 1 + window - (keys - queries))
    begin = begin // BLOCK_M * BLOCK_M
    for head in range(key_head * group, (key_head + 1) * group):
        slope = None
        if slopes_ptr is not None:
            slope = tl.load(slopes_ptr + head).to(dk.dtype) * LOG2
        bias_head = None
        if bias_ptr is not None:
            bias_head = bias_ptr + batch * bias_strides[0] + head * bias_strides[1]
        for start in range(begin, end, BLOCK_M):
            query = start + tl.arange(0, BLOCK_M)
            q_base = batch * q_strides[0] + head * q_strides[1] + q_row * q_strides[2]
            q_at, exist = rows_of(q_base, start, queries, q_strides[2], size, BLOCK_M, HEAD)
            q = tl.load(q_ptr + q_at, mask=exist, other=0.0)
            dout = tl.load(dout_ptr + q_at, mask=exist, other=0.0)
            number = batch * log_strides[0] + head * log_strides[1] + q_row + query
            log_sum = tl.load(log_sum_ptr + number, mask=query < queries, other=0.0)
            delta = tl.load(delta_ptr + number, mask=query < queries, other=0.0)
            p = probabilities(
                *(q, k, log_sum, query, key, queries, keys, window),
                *(bias_head, bias_strides, slope, LOG2_SCALE, CAUSAL),
            )
            dv = tl.dot(tl.trans(p).to(dout.dtype), dout, dv, out_dtype=dv.dtype)
            dp = tl.dot(dout, tl.trans(v), out_dtype=dv.dtype)
            ds = p * (dp - delta[:, None])
            dk = tl.dot(tl.trans(ds).to(q.dtype), q, dk, out_dtype=dv.dtype)
    tl.store(dk_ptr + at, (dk * SCALE).to(dk_ptr.dtype.element_ty), mask=inside)
    tl.store(dv_ptr + at, dv.to(dv_ptr.dtype.element_ty), mask=inside)
