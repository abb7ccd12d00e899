"""The kernel of the gradient of queries of attention.

    ds = p * (dout @ v^T - delta)        dq = ds @ k * scale

A program has a block of queries, and iterates over the keys that they see.
"""

from __future__ import annotations

import tile
import tile.language as tl
from tile.ops.core.batched_grid import place
from tile.ops.sequence.attention_loop import LOG2
from tile.ops.sequence.attention_probabilities import probabilities, rows_of, sequence
from tile.ops.sequence.seen_keys import seen_range


@tile.jit
def gradient_q_kernel(
    q_ptr,
    k_ptr,
    v_ptr,
    dout_ptr,
    log_sum_ptr,
    delta_ptr,
    dq_ptr,
    bias_ptr,
    slopes_ptr,
    bias_strides,
    q_starts_ptr,
    k_starts_ptr,
    q_strides,
    k_strides,
    log_strides,
    heads,
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
    if CAUSAL:  # those that see the most keys first, so that no long one is last
        rank = tl.cdiv(queries, BLOCK_M) - 1 - rank
    batch, head = (number // heads).to(tl.int64), (number % heads).to(tl.int64)
    q_row, k_row, queries, keys = sequence(
        batch, q_starts_ptr, k_starts_ptr, queries, keys, log_strides[1]
    )
    first = rank * BLOCK_M
    if q_starts_ptr is not None and first >= queries:
        return
    query = first + tl.arange(0, BLOCK_M)
    q_base = batch * q_strides[0] + head * q_strides[1] + q_row * q_strides[2]
    at, inside = rows_of(q_base, first, queries, q_strides[2], size, BLOCK_M, HEAD)
    q = tl.load(q_ptr + at, mask=inside, other=0.0)
    dout = tl.load(dout_ptr + at, mask=inside, other=0.0)
    number = batch * log_strides[0] + head * log_strides[1] + q_row + query
    log_sum = tl.load(log_sum_ptr + number, mask=query < queries, other=0.0)
    delta = tl.load(delta_ptr + number, mask=query < queries, other=0.0)
    slope = None
    if slopes_ptr is not None:
        slope = tl.load(slopes_ptr + head).to(log_sum.dtype) * LOG2
    bias_head = None
    if bias_ptr is not None:
        bias_head = bias_ptr + batch * bias_strides[0] + head * bias_strides[1]
    dq = tl.zeros((BLOCK_M, HEAD), dtype=log_sum.dtype)
    begin, end = seen_range(first + keys - queries, keys, window, CAUSAL, BLOCK_M)
    base = batch * k_strides[0] + head // group * k_strides[1] + k_row * k_strides[2]
    for start in range(begin // BLOCK_N * BLOCK_N, end, BLOCK_N):
        key = start + tl.arange(0, BLOCK_N)
        k_at, exist = rows_of(base, start, keys, k_strides[2], size, BLOCK_N, HEAD)
        k = tl.load(k_ptr + k_at, mask=exist, other=0.0)
        v = tl.load(v_ptr + k_at, mask=exist, other=0.0)
        p = probabilities(
            *(q, k, log_sum, query, key, queries, keys, window),
            *(bias_head, bias_strides, slope, LOG2_SCALE, CAUSAL),
        )
        dp = tl.dot(dout, tl.trans(v), out_dtype=dq.dtype)
        ds = p * (dp - delta[:, None])
        dq = tl.dot(ds.to(k.dtype), k, dq, out_dtype=dq.dtype)
    tl.store(dq_ptr + at, (dq * SCALE).to(dq_ptr.dtype.element_ty), mask=inside)
