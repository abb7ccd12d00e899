"""The kernel of the gradients of what attention adds to its scores: a bias, and ALiBi's slopes.

    dbias = ds                               ds = p * (dp - delta), as in attention_backward.py
    dslopes = - sum of ds * distance         over all scores of a head

An axis of one element in the bias is the same for all, so its gradient is the sum along that axis.
A program has a tile of the gradient and iterates over all scores that it is the sum of: nothing is
added atomically. The slopes' sums over keys are such a gradient, too, weighted by the distance.
"""

from __future__ import annotations

import tile
import tile.language as tl
from tile.ops.sequence.attention_loop import LOG2
from tile.ops.sequence.attention_probabilities import probabilities, rows_of
from tile.ops.sequence.seen_keys import seen_range


@tile.jit
def bias_gradient_kernel(
    q_ptr,
    k_ptr,
    v_ptr,
    dout_ptr,
    log_sum_ptr,
    delta_ptr,
    gradient_ptr,
    gradient_strides,
    bias_ptr,
    slopes_ptr,
    bias_strides,
    q_strides,
    k_strides,
    log_strides,
    gradient_heads,
    batches,
    heads,
    key_tiles,
    group,
    queries,
    keys,
    size,
    window,
    LOG2_SCALE: tl.constexpr,
    CAUSAL: tl.constexpr,
    DISTANCES: tl.constexpr,
    SUM_QUERIES: tl.constexpr,
    SUM_KEYS: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    HEAD: tl.constexpr,
    BATCH_AXIS: tl.constexpr = 1,
):
    """Store a tile of the gradient: the sum over so many `batches` and `heads` from its own on."""
    first, block = tl.program_id(BATCH_AXIS), tl.program_id(1 - BATCH_AXIS)
    first_batch = (first // gradient_heads).to(tl.int64)
    first_head = (first % gradient_heads).to(tl.int64)
    first_query, first_key = block // key_tiles * BLOCK_M, block % key_tiles * BLOCK_N
    end_query, end_key = first_query + BLOCK_M, first_key + BLOCK_N
    if SUM_QUERIES:
        end_query = queries
    if SUM_KEYS:
        end_key = keys
    total = tl.zeros((BLOCK_M, BLOCK_N), dtype=log_sum_ptr.dtype.element_ty)
    for batch in range(first_batch, first_batch + batches):
        for head in range(first_head, first_head + heads):
            slope = None
            if slopes_ptr is not None:
                slope = tl.load(slopes_ptr + head).to(total.dtype) * LOG2
            bias_head = None
            if bias_ptr is not None:
                bias_head = bias_ptr + batch * bias_strides[0] + head * bias_strides[1]
            q_base = batch * q_strides[0] + head * q_strides[1]
            k_base = batch * k_strides[0] + head // group * k_strides[1]
            for start in range(first_query, end_query, BLOCK_M):
                query = start + tl.arange(0, BLOCK_M)
                q_at, inside = rows_of(q_base, start, queries, q_strides[2], size, BLOCK_M, HEAD)
                q = tl.load(q_ptr + q_at, mask=inside, other=0.0)
                dout = tl.load(dout_ptr + q_at, mask=inside, other=0.0)
                number = batch * log_strides[0] + head * log_strides[1] + query
                log_sum = tl.load(log_sum_ptr + number, mask=query < queries, other=0.0)
                delta = tl.load(delta_ptr + number, mask=query < queries, other=0.0)
                position = start + keys - queries
                begin, end = seen_range(position, keys, window, CAUSAL, BLOCK_M)
                begin = max(begin // BLOCK_N * BLOCK_N, first_key)
                for key_start in range(begin, min(end, end_key), BLOCK_N):
                    key = key_start + tl.arange(0, BLOCK_N)
                    k_at, exist = rows_of(
                        k_base, key_start, keys, k_strides[2], size, BLOCK_N, HEAD
                    )
                    k = tl.load(k_ptr + k_at, mask=exist, other=0.0)
                    v = tl.load(v_ptr + k_at, mask=exist, other=0.0)
                    p = probabilities(
                        *(q, k, log_sum, query, key, queries, keys, window),
                        *(bias_head, bias_strides, slope, LOG2_SCALE, CAUSAL),
                    )
                    dp = tl.dot(dout, tl.trans(v), out_dtype=total.dtype)
                    ds = p * (dp - delta[:, None])
                    if DISTANCES:
                        ds *= -tl.abs(query[:, None] + (keys - queries) - key[None, :])
                    total += ds
    query = (first_query + tl.arange(0, BLOCK_M))[:, None]
    key = (first_key + tl.arange(0, BLOCK_N))[None, :]
    inside = (query < queries) & (key < keys)
    if SUM_QUERIES:
        total, query = tl.sum(total, axis=0, keep_dims=True), tl.zeros((1, 1), tl.int32)
        inside = key < keys
    if SUM_KEYS:
        total, key = tl.sum(total, axis=1, keep_dims=True), tl.zeros((1, 1), tl.int32)
        inside = query < queries
    if SUM_QUERIES and SUM_KEYS:
        inside = query == 0
    at = gradient_ptr + first_batch * gradient_strides[0] + first_head * gradient_strides[1]
    at += query.to(tl.int64) * gradient_strides[2] + key.to(tl.int64) * gradient_strides[3]
    tl.store(at, total.to(gradient_ptr.dtype.element_ty), mask=inside)
