"""The probabilities of attention, which the kernels of its gradients compute again.

p = 2^(s - log_sum)        delta = sum of out * dout over a row, which all ds of a query need
"""

from __future__ import annotations

import tile
import tile.language as tl
from tile.ops.core.device_functions import widen
from tile.ops.sequence.attention_loop import LOG2
from tile.ops.sequence.seen_keys import is_seen


@tile.jit
def delta_kernel(
    out_ptr,
    dout_ptr,
    delta_ptr,
    sums_ptr,
    rows,
    size,
    heads,
    tokens,
    ROWS: tl.constexpr,
    HEAD: tl.constexpr,
):
    """Store delta, heads x tokens, of arrays of tokens x heads rows, and zeros to `sums_ptr`."""
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    feature = tl.arange(0, HEAD)[None, :]
    inside = (row < rows)[:, None] & (feature < size)
    out = widen(tl.load(out_ptr + row[:, None] * size + feature, mask=inside, other=0.0))
    dout = widen(tl.load(dout_ptr + row[:, None] * size + feature, mask=inside, other=0.0))
    at = row % heads * tokens + row // heads
    tl.store(delta_ptr + at, tl.sum(out * dout, axis=1), mask=row < rows)
    if sums_ptr is not None:
        zeros = tl.zeros((ROWS, HEAD), sums_ptr.dtype.element_ty)
        tl.store(sums_ptr + row[:, None] * size + feature, zeros, mask=inside)


@tile.jit
def scale_kernel(sums_ptr, out_ptr, count, SCALE: tl.constexpr, BLOCK: tl.constexpr):
    """Store sums of dq, scaled, in the type of the result."""
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    sums = tl.load(sums_ptr + at, mask=at < count)
    tl.store(out_ptr + at, (sums * SCALE).to(out_ptr.dtype.element_ty), mask=at < count)


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
