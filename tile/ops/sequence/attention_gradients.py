"""The kernels of the gradients of attention.

One kernel has a block of keys and iterates over the queries that see it, of all heads that share
it, for dk and dv; another has a block of queries and iterates over keys, for dq. Nothing is added
atomically, so results are the same in every run.
"""

from __future__ import annotations

import tile
import tile.language as tl
from tile.ops.core.device_functions import widen
from tile.ops.sequence.attention_kernel import LOG2, is_seen, seen_range


@tile.jit
def delta_kernel(
    out_ptr,
    dout_ptr,
    delta_ptr,
    rows,
    size,
    heads,
    tokens,
    ROWS: tl.constexpr,
    HEAD: tl.constexpr,
):
    """Store delta, heads x tokens, of arrays of tokens x heads rows."""
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    feature = tl.arange(0, HEAD)[None, :]
    inside = (row < rows)[:, None] & (feature < size)
    out = widen(tl.load(out_ptr + row[:, None] * size + feature, mask=inside, other=0.0))
    dout = widen(tl.load(dout_ptr + row[:, None] * size + feature, mask=inside, other=0.0))
    at = row % heads * tokens + row // heads
    tl.store(delta_ptr + at, tl.sum(out * dout, axis=1), mask=row < rows)


@tile.jit
def rows_of(base, first, count, row_stride, size, BLOCK: tl.constexpr, HEAD: tl.constexpr):
    """Return the offsets, from `base`, of rows from row `first` on, and which of them exist."""
    row = first + tl.arange(0, BLOCK)[:, None]
    feature = tl.arange(0, HEAD)[None, :]
    return base + row.to(tl.int64) * row_stride + feature, (row < count) & (feature < size)


@tile.jit
def sequence(batch, q_starts_ptr, k_starts_ptr, queries, keys, tokens):
    """Return the first rows of queries and keys of a sequence, and how many there are.

    queries, keys: at least as many as in any sequence. tokens: of all queries.
    """
    q_row, k_row = tl.cast(0, tl.int64), tl.cast(0, tl.int64)
    if q_starts_ptr is not None:
        q_first, k_first = tl.load(q_starts_ptr + batch), tl.load(k_starts_ptr + batch)
        own = tl.load(q_starts_ptr + batch + 1) - q_first
        own_keys = tl.load(k_starts_ptr + batch + 1) - k_first
        tl.device_assert(
            (q_first >= 0) & (own >= 0) & (own <= queries) & (q_first + own <= tokens),
            "q_starts are tokens, and longest is not less than any sequence",
        )
        tl.device_assert(
            (k_first >= 0) & (own_keys >= 0) & (own_keys <= keys),
            "k_starts are tokens, and longest_keys is not less than any sequence",
        )
        queries, keys = own, own_keys
        q_row, k_row = q_first.to(tl.int64), k_first.to(tl.int64)
    return q_row, k_row, queries, keys


@tile.jit
def probabilities(
    q,
    k,
    log_sum,
    query,
    key,
    queries,
    keys,
    window,
    bias_ptr,
    bias_strides,
    slope,
    LOG2_SCALE,
    CAUSAL: tl.constexpr,
):
    """Return p of queries (rows) and keys (columns), 0 where masked."""
    scores = tl.dot(q, tl.trans(k), out_dtype=log_sum.dtype) * LOG2_SCALE
    exist = (query < queries)[:, None]
    position = query[:, None] + (keys - queries)
    if bias_ptr is not None:
        rows = bias_ptr + query.to(tl.int64)[:, None] * bias_strides[2]
        at = rows + key[None, :].to(tl.int64) * bias_strides[3]
        bias = tl.load(at, mask=exist & (key < keys)[None, :], other=0.0)
        scores += bias.to(scores.dtype) * LOG2
    if slope is not None:
        scores -= tl.abs(position - key[None, :]) * slope
    seen = exist & is_seen(position, key[None, :], keys, window, CAUSAL)
    return tl.where(seen, tl.exp2(scores - log_sum[:, None]), 0.0)


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
):
    batch = (tl.program_id(1) // key_heads).to(tl.int64)
    key_head = (tl.program_id(1) % key_heads).to(tl.int64)
    q_row, k_row, queries, keys = sequence(
        batch, q_starts_ptr, k_starts_ptr, queries, keys, log_strides[1]
    )
    if q_starts_ptr is not None and tl.program_id(0) * BLOCK_N >= keys:
        return
    first = tl.program_id(0) * BLOCK_N
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
):
    batch, head = (tl.program_id(1) // heads).to(tl.int64), (tl.program_id(1) % heads).to(tl.int64)
    q_row, k_row, queries, keys = sequence(
        batch, q_starts_ptr, k_starts_ptr, queries, keys, log_strides[1]
    )
    first = tl.program_id(0) * BLOCK_M
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
