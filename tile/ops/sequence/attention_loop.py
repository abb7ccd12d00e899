"""The loop of attention over keys (Dao et al., arXiv:2205.14135), which never stores its scores.

    m' = max(m, s)        w' = w 2^(m - m') + sum 2^(s - m')        o' = o 2^(m - m') + 2^(s - m') v

For each query it keeps the running maximum m of the scores, the sum w of their exponentials, and
the sum o of the values weighted by these; when the maximum grows, both sums are scaled down.
Exponentials are powers of two, which hardware has; log2(e) is part of the scale.
"""

from __future__ import annotations

import tile
import tile.language as tl
from tile.ops.sequence.attention_origin import HIGHEST_SUM, raised
from tile.ops.sequence.seen_keys import is_seen

LOG2_E = 1.4426950408889634
LOG2 = tl.constexpr(LOG2_E)


@tile.jit
def sequence_rows(
    ptr, strides, rows, key_heads, SIZE: tl.constexpr, BLOCK_N: tl.constexpr, HEAD: tl.constexpr
):
    """Return a descriptor of blocks of rows that end with their sequence.

    Two axes are of rows, and the second one has as many as a block. So a block with the index
    [row + count - 1, head, BLOCK_N - count, 0] has `count` rows from `row` on, and zeros.
    """
    step = tl.cast(strides[2], tl.int64)
    shape, block = [rows, key_heads, BLOCK_N, SIZE], [1, 1, BLOCK_N, HEAD]
    return tl.make_tensor_descriptor(
        ptr - step * (BLOCK_N - 1), shape, [step, strides[1], step, 1], block
    )


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
    SEQUENCES: tl.constexpr,
    BLOCK_N: tl.constexpr,
    HEAD: tl.constexpr,
    DEFERRED: tl.constexpr,
    LANE_SUMS: tl.constexpr,
    FIRST_MAXIMUM: tl.constexpr = False,
):
    """Return the running maximum and both sums after the keys from `start` to `end`.

    k_source, v_source: pointers to the first key and value of the head, or descriptors of all,
        where these are in row `first_row`; for SEQUENCES those of `sequence_rows`.
    MASKED: "all" blocks of keys have a mask, "none", or those before `middle` and from `whole` on.
    SEES_NONE: a query may see no key of the first blocks.
    DEFERRED: the dot with values runs an iteration later: it needs the powers of scores first.
    LANE_SUMS: a query has four sums of powers, those of the lanes that have its scores.
    FIRST_MAXIMUM: `highest` is that of the first block, which is seldom raised
        (attention_origin.py); a query that sees no key of that block sees none.
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
        place = batch, key_head, first_row + first, 0
        if SEQUENCES:
            count = BLOCK_N if MASKED == "none" else min(keys - first, BLOCK_N)
            place = first_row + first + count - 1, key_head, BLOCK_N - count, 0
        if DESCRIPTORS:
            k = k_source.load([*place]).reshape(BLOCK_N, HEAD)
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
            # As measured (docs/notes/ops.md): loops of masked blocks alone are no faster so.
            ANY_END: tl.constexpr = MASKED == "some"
            seen = is_seen(position[:, None], key[None, :], keys, window, CAUSAL, ANY_END)
            scores = tl.where(seen, scores, -float("inf"))
        if FIRST_MAXIMUM:
            if first == start:
                highest = tl.max(scores, axis=1) * SCALE
            higher = highest
        elif SCALE_LATER:  # the scale is positive, so the maximum of the scores is scaled
            higher = tl.maximum(highest, tl.max(scores, axis=1) * SCALE)
        else:
            higher = tl.maximum(highest, tl.max(scores, axis=1))
        origin = higher
        if SEES_NONE:  # -inf - -inf would be NaN
            origin = tl.where(higher == -float("inf"), 0.0, higher)
        if not DEFERRED and not FIRST_MAXIMUM:
            shrink = tl.exp2(highest - origin)
        if SCALE_LATER:
            powers = tl.exp2(scores * SCALE - origin[:, None])
        else:
            powers = tl.exp2(scores - origin[:, None])
        if DEFERRED and not FIRST_MAXIMUM:
            shrink = tl.exp2(highest - origin)
        if FIRST_MAXIMUM:
            sums = lane_sums(powers, BLOCK_N)
            grown = sums > HIGHEST_SUM
            if tl.reduce_or(grown, axis=None):
                powers, sums, weights, total, higher = raised(
                    *(grown, powers, sums, weights, total, higher)
                )
            weights += sums
        elif not LANE_SUMS:
            weights = weights * shrink + tl.sum(powers, axis=1)
        else:
            weights = weights * shrink[:, None] + lane_sums(powers, BLOCK_N)
        if DESCRIPTORS:
            v = v_source.load([*place]).reshape(BLOCK_N, HEAD)
        else:
            v = tl.load(v_tile + tl.cast(first, tl.int64) * v_row, mask=inside, other=0.0)
        if not FIRST_MAXIMUM:
            total *= shrink[:, None]
        total = tl.dot(powers.to(v.dtype), v, total, out_dtype=total.dtype)
        highest = higher
    return highest, weights, total


@tile.jit
def lane_sums(x, N: tl.constexpr):
    """Return four sums of each row, of columns 8 i + 2 j and 8 i + 2 j + 1.

    They are those that a lane has of the result of a dot, so no lane needs another one's.
    """
    return tl.sum(tl.sum(x.reshape(x.shape[0], N // 8, 4, 2), axis=3), axis=1)
