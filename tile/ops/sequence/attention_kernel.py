"""The kernel of attention (Dao et al., arXiv:2205.14135), which never stores its scores.

A program has a block of queries of one head and iterates over blocks of keys. For each query it
keeps the running maximum of the scores, the sum of their exponentials, and the sum of the values
weighted by these; when the maximum grows, both sums are scaled down. Only the blocks at the ends of
what a query sees need a mask: the loop over all others is free of it. Exponentials are powers of
two, which hardware has; log2(e) is part of the scale.

The position of query i is i + keys - queries, so that the last query has that of the last key.
Sequences of different lengths follow each other in one array: `q_starts` and `k_starts` have the
first row of each, and the end of the last.
"""

from __future__ import annotations

import tile
import tile.language as tl
from tile.ops.core.tables import ANY, Table

LOG2_E = 1.4426950408889634
LOG2 = tl.constexpr(LOG2_E)
# By the size of a head and the bytes of an element. H200, float16, 4 x 32 x 4096, 2026-11-21
# (docs/results/gpu.md); wider types and heads are not measured.
BY_POINTERS = Table(
    {(ANY, ANY): {"BLOCK_M": 32, "BLOCK_N": 32}},
    {
        "nvptx": {
            (64, 2): {"BLOCK_M": 64, "BLOCK_N": 64, "num_warps": 4, "num_stages": 2},
            (128, 2): {"BLOCK_M": 128, "BLOCK_N": 64, "num_warps": 4, "num_stages": 2},
            (ANY, ANY): {"BLOCK_M": 64, "BLOCK_N": 32, "num_warps": 4, "num_stages": 2},
        }
    },
)
# Two programs fit on a multiprocessor: one computes while the dots of the other run.
_TWO = {"num_warps": 8, "num_stages": 2, "maxnreg": 128}
# The same with keys and values by descriptors, and by whether attention is causal, whether it has a
# bias, and the number of keys. H200, float16, 4 x 32 x 1024, 2048 and 4096, 2 x 16 x 16384,
# 2026-11-26 (docs/notes/ops.md).
_LARGE = {"BLOCK_M": 128, "BLOCK_N": 128, "num_warps": 8, "num_stages": 2}
_SMALL = {"BLOCK_M": 64, "BLOCK_N": 64, "num_warps": 4, "num_stages": 2}
_FEW, _SOME, _MANY = 1024, 2048, 8192  # keys
BY_DESCRIPTORS = Table(
    {(ANY, ANY, ANY, ANY, ANY): {"BLOCK_M": 32, "BLOCK_N": 32}},
    {
        "nvptx": {
            (64, 2, 0, 0, _FEW): {**_SMALL, "warp_specialize": False},
            (64, 2, 0, 0, ANY): {"BLOCK_M": 128, "BLOCK_N": 128, "LANE_SUMS": True, **_TWO},
            (64, 2, 1, 0, _SOME): {**_SMALL, "warp_specialize": False},
            (64, 2, 1, 0, _MANY): {"BLOCK_M": 128, "BLOCK_N": 128, "LANE_SUMS": True, **_TWO},
            (64, 2, 1, 0, ANY): {**_SMALL, "BLOCK_N": 128, "warp_specialize": True},
            (64, 2, 0, 1, ANY): {"BLOCK_M": 128, "BLOCK_N": 128, **_TWO},
            (128, 2, 0, 0, _FEW): {"BLOCK_M": 128, "BLOCK_N": 64, **_TWO},
            (128, 2, 0, 0, ANY): _LARGE,
            (128, 2, 1, 0, _FEW): {**_SMALL, "warp_specialize": True},
            (128, 2, 1, 0, ANY): _LARGE,
            (128, 2, 1, 1, ANY): {"BLOCK_M": 128, "BLOCK_N": 64, **_TWO},
            (256, 2, 1, 1, ANY): {**_LARGE, "BLOCK_N": 64},
            (ANY, ANY, ANY, ANY, ANY): {**_SMALL, "BLOCK_N": 32},
        }
    },
)
# Those of a program for each multiprocessor, which takes several blocks of queries, if these keep
# all of them busy. By the size of a head, the bytes of an element, whether there is a bias, and the
# number of keys; empty where a program for each block is faster. In the same runs.
BY_SEVERAL_BLOCKS = Table(
    {(ANY, ANY, ANY, ANY): {}},
    {
        "nvptx": {
            (64, ANY, ANY, ANY): {},
            (128, 2, 0, _MANY): {**_LARGE, "PROGRAMS": 132},
            (128, ANY, ANY, ANY): {},
            (256, 2, 0, _MANY): {**_LARGE, "BLOCK_N": 64, "PROGRAMS": 132},
            (ANY, ANY, ANY, ANY): {},
        }
    },
)


@tile.jit
def is_seen(position, key, keys, window, CAUSAL: tl.constexpr):
    """Return which keys queries at `position` see; one of both is a row, the other a column."""
    seen = key < keys
    if CAUSAL:
        seen = seen & (key <= position)
    if window is not None:
        seen = seen & (key > position - window)
        if not CAUSAL:
            seen = seen & (key < position + window)
    return seen


@tile.jit
def attend(
    q,
    k_source,
    v_source,
    batch,
    key_head,
    first_row,
    position,
    k_row,
    v_row,
    start,
    middle,
    whole,
    end,
    keys,
    window,
    bias_rows,
    bias_column,
    slope,
    highest,
    weights,
    total,
    SCALE: tl.constexpr,
    SIZE: tl.constexpr,
    CAUSAL: tl.constexpr,
    MASKED: tl.constexpr,
    SEES_NONE: tl.constexpr,
    DESCRIPTORS: tl.constexpr,
    BLOCK_N: tl.constexpr,
    HEAD: tl.constexpr,
    DEFERRED: tl.constexpr,
    LANE_SUMS: tl.constexpr,
):
    """Return the running maximum and both sums after the keys from `start` to `end`.

    k_source, v_source: pointers to the first key and value of the head, or descriptors of all,
        where these are in row `first_row`.
    MASKED: "all" blocks of keys have a mask, "none", or those before `middle` and from `whole` on.
    SEES_NONE: a query may see no key of the first blocks.
    DEFERRED: the dot with values runs an iteration later: it needs the powers of scores first.
    LANE_SUMS: a query has four sums of powers, which are computed while that dot runs.
    """
    # Then scaling takes part in one fused multiply-add for each score.
    SCALE_LATER: tl.constexpr = SCALE > 0 and bias_rows is None and slope is None
    feature = tl.arange(0, HEAD)[None, :]
    if not DESCRIPTORS:
        # Offsets in a block are 32-bit and the same in all iterations; a scalar moves the block.
        within = tl.arange(0, BLOCK_N)[:, None]
        k_tile = k_source + (within * k_row + feature)
        v_tile = v_source + (within * v_row + feature)
    for first in range(start, end, BLOCK_N):
        key = first + tl.arange(0, BLOCK_N)
        inside = (key[:, None] < keys) & (feature < SIZE) if MASKED == "all" else feature < SIZE
        if DESCRIPTORS:
            k = k_source.load([batch, key_head, first_row + first, 0]).reshape(BLOCK_N, HEAD)
        else:
            k = tl.load(k_tile + tl.cast(first, tl.int64) * k_row, mask=inside, other=0.0)
        scores = tl.dot(q, tl.trans(k), out_dtype=total.dtype)
        if not SCALE_LATER:
            scores *= SCALE
        if bias_rows is not None:
            at = bias_rows + key[None, :].to(tl.int64) * bias_column
            bias = tl.load(at, mask=(key < keys)[None, :], other=0.0)
            scores += bias.to(total.dtype) * LOG2
        if slope is not None:
            scores -= tl.abs(position[:, None] - key[None, :]) * slope
        if MASKED == "all" or (MASKED == "some" and (first < middle or first >= whole)):
            seen = is_seen(position[:, None], key[None, :], keys, window, CAUSAL)
            scores = tl.where(seen, scores, -float("inf"))
        if SCALE_LATER:  # the scale is positive, so the maximum of the scores is scaled
            higher = tl.maximum(highest, tl.max(scores, axis=1) * SCALE)
        else:
            higher = tl.maximum(highest, tl.max(scores, axis=1))
        origin = higher
        if SEES_NONE:  # -inf - -inf would be NaN
            origin = tl.where(higher == -float("inf"), 0.0, higher)
        if not DEFERRED:
            shrink = tl.exp2(highest - origin)
        if SCALE_LATER:
            powers = tl.exp2(scores * SCALE - origin[:, None])
        else:
            powers = tl.exp2(scores - origin[:, None])
        if DEFERRED:
            shrink = tl.exp2(highest - origin)
        if not LANE_SUMS:
            weights = weights * shrink + tl.sum(powers, axis=1)
        elif MASKED == "all":
            weights = weights * shrink[:, None] + lane_sums(powers, BLOCK_N)
        if DESCRIPTORS:
            v = v_source.load([batch, key_head, first_row + first, 0]).reshape(BLOCK_N, HEAD)
        else:
            v = tl.load(v_tile + tl.cast(first, tl.int64) * v_row, mask=inside, other=0.0)
        total = tl.dot(powers.to(v.dtype), v, total * shrink[:, None], out_dtype=total.dtype)
        if LANE_SUMS and MASKED != "all":
            weights = weights * shrink[:, None] + lane_sums(powers, BLOCK_N)
        highest = higher
    return highest, weights, total


@tile.jit
def lane_sums(x, N: tl.constexpr):
    """Return four sums of each row, of columns 8 i + 2 j and 8 i + 2 j + 1.

    They are those that a lane has of the result of a dot, so no lane needs another one's.
    """
    return tl.sum(tl.sum(x.reshape(x.shape[0], N // 8, 4, 2), axis=3), axis=1)


@tile.jit
def seen_range(first, keys, window, CAUSAL: tl.constexpr, BLOCK_M: tl.constexpr):
    """Return the first key that a block of queries sees, and the end of these keys.

    first: the position of the first query of the block.
    """
    begin, end = 0, keys
    if CAUSAL:
        end = min(keys, first + BLOCK_M)
    elif window is not None:
        end = min(keys, first + BLOCK_M - 1 + window)
    if window is not None:
        begin = max(0, first - window + 1)
    return begin, end


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
):
    """Write the result of block number `rank` of the queries of head `number` of all batches."""
    batch, head = tl.cast(number // heads, tl.int64), tl.cast(number % heads, tl.int64)
    k_head = k_ptr + (batch * k_strides[0] + head // group * k_strides[1])
    v_head = v_ptr + (batch * v_strides[0] + head // group * v_strides[1])
    at = number // heads, number % heads // group, 0
    if DESCRIPTORS:
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
    begin, end = seen_range(first, keys, window, CAUSAL, BLOCK_M)
    whole = keys
    if CAUSAL:
        whole = min(keys, first + 1)
    elif window is not None:
        whole = min(keys, first + window)
    if q_starts_ptr is not None:
        whole = max(whole, 0)
    whole = whole // BLOCK_N * BLOCK_N
    SEES_NONE: tl.constexpr = window is not None or bias_ptr is not None or q_starts_ptr is not None
    middle = 0
    if window is not None:
        begin = begin // BLOCK_N * BLOCK_N
        whole = max(whole, begin)
        middle = tl.cdiv(max(0, first + BLOCK_M - window), BLOCK_N) * BLOCK_N
        middle = min(max(middle, begin), whole)
    if not DESCRIPTORS:
        k_source, v_source = k_head, v_head
    sources = q, k_source, v_source, *at, query + offset, k_strides[2], v_strides[2]
    ends = middle, whole
    others = keys, window, bias_rows, bias_strides[3], slope
    # As measured (docs/notes/ops.md): ptxas schedules these loops in other ways.
    DEFERRED: tl.constexpr = not CAUSAL if PROGRAMS else HEAD == 128 and BLOCK_N == 128
    options = SEES_NONE, DESCRIPTORS, BLOCK_N, HEAD, DEFERRED, LANE_SUMS
    if PROGRAMS:  # in one loop, so that a block has one beginning and one end
        MASKED: tl.constexpr = "some" if CAUSAL or RAGGED or window is not None else "none"
        highest, weights, total = attend(
            *(*sources, begin, *ends, end, *others, highest, weights, total),
            *(SCALE, SIZE, CAUSAL, MASKED, *options),
        )
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
        last = end
        if DESCRIPTORS and q_starts_ptr is not None:
            last = max(whole, min(end, keys // BLOCK_N * BLOCK_N))
        highest, weights, total = attend(
            *(*sources, whole, *ends, last, *others, highest, weights, total),
            *(SCALE, SIZE, CAUSAL, "all", *options),
        )
        if DESCRIPTORS and q_starts_ptr is not None:
            # The last block has rows of the next sequence, whose values may not be finite: 0 times
            # these would be NaN.
            highest, weights, total = attend(
                *(q, k_head, v_head, *sources[3:], last, *ends, end, *others),
                *(highest, weights, total, SCALE, SIZE, CAUSAL, "all", SEES_NONE, False),
                *options[2:],
            )
    if LANE_SUMS:
        weights = tl.sum(weights, axis=1)
    if q_starts_ptr is not None:  # queries that see no key have the result 0
        weights = tl.where(weights == 0.0, 1.0, weights)
    total *= (1.0 / weights)[:, None]
    total = total.to(out_ptr.dtype.element_ty)
    if STORED_BLOCK:  # by a descriptor, which clips it
        shape, block = [batches, heads, queries, SIZE], [1, 1, BLOCK_M, HEAD]
        target = tl.make_tensor_descriptor(out_ptr, shape, [*out_strides, 1], block)
        place = number // heads, number % heads, rank * BLOCK_M, 0
        target.store([*place], total.reshape(1, 1, BLOCK_M, HEAD))
    else:
        out = out_ptr + batch * out_strides[0] + head * out_strides[1] + rows * out_strides[2]
        tl.store(out + feature, total, mask=inside)
    if log_sum_ptr is not None:
        # The softmax of a score, in powers of two, is 2 ** (score - log_sum).
        at = batch * log_strides[0] + head * log_strides[1] + q_row + query
        tl.store(log_sum_ptr + at, highest + tl.log2(weights), mask=query < queries)


@tile.jit
def attention_kernel(
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
    RAGGED: tl.constexpr = True,
    LANE_SUMS: tl.constexpr = False,
    PROGRAMS: tl.constexpr = 0,
):
    """Compute a block of queries of a head, or several if there are only so many `PROGRAMS`.

    RAGGED: the last block of keys is not whole.
    """
    blocks = tl.cdiv(queries, BLOCK_M)
    arrays = q_ptr, k_ptr, v_ptr, out_ptr, log_sum_ptr, bias_ptr, slopes_ptr, q_starts_ptr
    strides = k_starts_ptr, q_strides, k_strides, v_strides, out_strides, log_strides, bias_strides
    sizes = batches, heads, key_heads, group, queries, keys, window
    options = SCALE, SIZE, CAUSAL, SUMS, DESCRIPTORS, STORED_BLOCK, HEAD, BLOCK_M, BLOCK_N, RAGGED
    last = LANE_SUMS, PROGRAMS
    rank, number = tl.program_id(0), tl.program_id(1)
    if PROGRAMS and CAUSAL:
        # Pairs of blocks, which all see as many keys together: so no program has more to do, and
        # all are at the same heads, whose keys are in L2. The number of blocks is even.
        pairs = blocks // 2
        left = batches * heads * pairs - rank
        for half in tl.range(0, 2 * tl.cdiv(left, tl.num_programs(0))):
            pair = rank + half // 2 * tl.num_programs(0)
            at = pair % pairs
            if half % 2 == 0:
                at = blocks - 1 - at
            attention_block(*(at, pair // pairs, *arrays, *strides, *sizes, *options, *last))
    elif PROGRAMS:  # a producer loads for the next block while the program ends one
        for at in tl.range(rank, batches * heads * blocks, tl.num_programs(0)):
            block, head = at % blocks, at // blocks
            attention_block(*(block, head, *arrays, *strides, *sizes, *options, *last))
    else:
        if CAUSAL:  # those that see the most keys first, so that no long one is last
            rank = tl.num_programs(0) - 1 - rank
        attention_block(*(rank, number, *arrays, *strides, *sizes, *options, *last))
