"""A block of queries of attention, by a loop over blocks of keys (attention_loop.py).

Only the blocks at the ends of what a query sees need a mask: the loop over all others is free of
it. The position of query i is i + keys - queries, so that the last query has that of the last key.
Sequences of different lengths follow each other in one array: `q_starts` and `k_starts` have the
first row of each, and the end of the last.
"""

from __future__ import annotations

import tile
import tile.language as tl
from tile.ops.sequence.attention_loop import LOG2, attend, sequence_rows
from tile.ops.sequence.attention_origin import out_of_reach
from tile.ops.sequence.seen_keys import seen_blocks


@tile.jit
def attention_block(
    rank,
    number,
    q_ptr,
    k_ptr,
    v_ptr,
    out_ptr,
    log_sum_ptr,
    bias_ptr,
    slopes_ptr,
    q_starts_ptr,
    k_starts_ptr,
    q_strides,
    k_strides,
    v_strides,
    out_strides,
    log_strides,
    bias_strides,
    batches,
    heads,
    key_heads,
    group,
    queries,
    keys,
    span,
    window,
    SCALE: tl.constexpr,
    SIZE: tl.constexpr,
    CAUSAL: tl.constexpr,
    SUMS: tl.constexpr,
    DESCRIPTORS: tl.constexpr,
    STORED_BLOCK: tl.constexpr,
    HEAD: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    RAGGED: tl.constexpr,
    LANE_SUMS: tl.constexpr,
    PROGRAMS: tl.constexpr,
    ONE_LOOP: tl.constexpr,
    FIRST_MAXIMUM: tl.constexpr,
):
    """Write the result of block number `rank` of the queries of head `number` of all batches.

    With `span`, that of one part of the keys: heads of all batches, of one part after the other.
    """
    part, target_batch = 0, tl.cast(number // heads, tl.int64)
    if span is not None:
        part, number = number // (batches * heads), number % (batches * heads)
    batch, head = tl.cast(number // heads, tl.int64), tl.cast(number % heads, tl.int64)
    k_head = k_ptr + (batch * k_strides[0] + head // group * k_strides[1])
    v_head = v_ptr + (batch * v_strides[0] + head // group * v_strides[1])
    at = number // heads, number % heads // group, 0
    SEQUENCES: tl.constexpr = DESCRIPTORS and q_starts_ptr is not None
    if SEQUENCES:
        k_source = sequence_rows(k_ptr, k_strides, keys, key_heads, SIZE, BLOCK_N, HEAD)
        v_source = sequence_rows(v_ptr, v_strides, keys, key_heads, SIZE, BLOCK_N, HEAD)
    elif DESCRIPTORS:
        shape, block = [batches, key_heads, keys, SIZE], [1, 1, BLOCK_N, HEAD]
        k_source = tl.make_tensor_descriptor(k_ptr, shape, [*k_strides, 1], block)
        v_source = tl.make_tensor_descriptor(v_ptr, shape, [*v_strides, 1], block)
    query = rank * BLOCK_M + tl.arange(0, BLOCK_M)
    q_row = tl.cast(0, tl.int64)
    if q_starts_ptr is not None:
        q_row, k_row = tl.load(q_starts_ptr + batch), tl.load(k_starts_ptr + batch)
        longest = queries
        queries = tl.load(q_starts_ptr + batch + 1) - q_row
        k_end = tl.load(k_starts_ptr + batch + 1)
        tl.device_assert(
            (q_row >= 0) & (queries <= longest) & (q_row + queries <= log_strides[1]),
            "q_starts are tokens, and longest is not less than any sequence",
        )
        tl.device_assert((k_row >= 0) & (k_row <= k_end) & (k_end <= keys), "k_starts are tokens")
        keys = k_end - k_row
        if rank * BLOCK_M >= queries:
            return
        at = 0, number % heads // group, k_row
        q_row, k_row = q_row.to(tl.int64), k_row.to(tl.int64)
        k_head += k_row * k_strides[2]
        v_head += k_row * v_strides[2]
    feature = tl.arange(0, HEAD)[None, :]
    inside = (query < queries)[:, None] & (feature < SIZE)
    rows = q_row + query.to(tl.int64)[:, None]
    if PROGRAMS:
        shape, block = [batches, heads, queries, SIZE], [1, 1, BLOCK_M, HEAD]
        q_source = tl.make_tensor_descriptor(q_ptr, shape, [*q_strides, 1], block)
        q = q_source.load([number // heads, number % heads, rank * BLOCK_M, 0])
        q = q.reshape(BLOCK_M, HEAD)
    else:
        q_tile = q_ptr + batch * q_strides[0] + head * q_strides[1] + rows * q_strides[2] + feature
        q = tl.load(q_tile, mask=inside, other=0.0)
    bias_rows = None
    if bias_ptr is not None:
        bias_rows = bias_ptr + batch * bias_strides[0] + head * bias_strides[1]
        bias_rows += tl.minimum(query, queries - 1).to(tl.int64)[:, None] * bias_strides[2]
    slope = None
    if slopes_ptr is not None:
        slope = tl.load(slopes_ptr + head).to(SUMS) * LOG2

    highest = tl.full((BLOCK_M,), -float("inf"), dtype=SUMS)
    weights = tl.zeros((BLOCK_M, 4) if LANE_SUMS else (BLOCK_M,), dtype=SUMS)
    total = tl.zeros((BLOCK_M, HEAD), dtype=SUMS)
    offset = keys - queries
    first = rank * BLOCK_M + offset
    # Keys from `middle` to `whole` need no mask; none of the queries sees one from `end` on.
    SOME: tl.constexpr = q_starts_ptr is not None
    begin, middle, whole, end = seen_blocks(first, keys, window, CAUSAL, SOME, BLOCK_M, BLOCK_N)
    if span is not None:
        low, high = part * span, (part + 1) * span
        begin, middle = min(max(begin, low), high), min(max(middle, low), high)
        whole, end = min(max(whole, low), high), min(max(end, low), high)
    PARTLY: tl.constexpr = SOME or span is not None
    SEES_NONE: tl.constexpr = window is not None or bias_ptr is not None or PARTLY
    if not DESCRIPTORS:
        k_source, v_source = k_head, v_head
    sources = q, k_source, v_source, *at, query + offset, k_strides[2], v_strides[2]
    ends = middle, whole
    others = keys, window, bias_rows, bias_strides[3], slope
    # As measured (docs/notes/ops.md): ptxas schedules these loops in other ways.
    DEFERRED: tl.constexpr = not CAUSAL if PROGRAMS else HEAD == 128 and BLOCK_N == 128
    options = SEES_NONE, DESCRIPTORS, SEQUENCES, BLOCK_N, HEAD, DEFERRED, LANE_SUMS
    if ONE_LOOP:  # so that a block has one beginning and one end
        MASKED: tl.constexpr = "some" if CAUSAL or RAGGED or window is not None else "none"
        inputs = *sources, begin, *ends, end, *others
        zeros = highest, weights, total
        how = SCALE, SIZE, CAUSAL, MASKED, *options
        BIASED: tl.constexpr = bias_ptr is not None or slopes_ptr is not None
        PLAIN: tl.constexpr = window is None and span is None and not BIASED and SCALE > 0
        highest, weights, total = attend(*inputs, *zeros, *how, FIRST_MAXIMUM and PLAIN)
        if FIRST_MAXIMUM and PLAIN and out_of_reach(weights, SEES_NONE):
            highest, weights, total = attend(*inputs, *zeros, *how)
    else:
        if window is not None:
            highest, weights, total = attend(
                *(*sources, begin, *ends, middle, *others, highest, weights, total),
                *(SCALE, SIZE, CAUSAL, "all", *options),
            )
        highest, weights, total = attend(
            *(*sources, middle, *ends, whole, *others, highest, weights, total),
            *(SCALE, SIZE, CAUSAL, "none", *options),
        )
        highest, weights, total = attend(
            *(*sources, whole, *ends, end, *others, highest, weights, total),
            *(SCALE, SIZE, CAUSAL, "all", *options),
        )
    if LANE_SUMS:
        weights = tl.sum(weights, axis=1)
    if PARTLY:  # queries that see no key have the result 0
        weights = tl.where(weights == 0.0, 1.0, weights)
    total *= (1.0 / weights)[:, None]
    total = total.to(out_ptr.dtype.element_ty)
    if STORED_BLOCK:  # by a descriptor, which clips it
        shape, block = [batches, heads, queries, SIZE], [1, 1, BLOCK_M, HEAD]
        target = tl.make_tensor_descriptor(out_ptr, shape, [*out_strides, 1], block)
        place = number // heads, number % heads, rank * BLOCK_M, 0
        target.store([*place], total.reshape(1, 1, BLOCK_M, HEAD))
    else:
        out = (
            out_ptr + target_batch * out_strides[0] + head * out_strides[1] + rows * out_strides[2]
        )
        tl.store(out + feature, total, mask=inside)
    if log_sum_ptr is not None:
        # The softmax of a score, in powers of two, is 2 ** (score - log_sum).
        at = target_batch * log_strides[0] + head * log_strides[1] + q_row + query
        tl.store(log_sum_ptr + at, highest + tl.log2(weights), mask=query < queries)
