"""The kernel of attention: a program has a block of queries of one head, or several blocks."""

from __future__ import annotations

import tile
import tile.language as tl
from tile.ops.core.batched_grid import place
from tile.ops.sequence.attention_block import attention_block


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
    RAGGED: tl.constexpr = True,
    LANE_SUMS: tl.constexpr = False,
    PROGRAMS: tl.constexpr = 0,
    ONE_LOOP: tl.constexpr = False,
    FIRST_MAXIMUM: tl.constexpr = False,
    BATCH_AXIS: tl.constexpr = 1,
):
    """Compute a block of queries of a head, or several if there are only so many `PROGRAMS`.

    span: if keys are split, how many a part has; then the parts are like more batches, and their
    results follow each other. RAGGED: the last block of keys is not whole. ONE_LOOP: over blocks
    with a mask and without, as with `PROGRAMS`: one beginning costs less than no masks gain.
    FIRST_MAXIMUM: the origin of powers is that of the first block of keys, in such a loop with
    LANE_SUMS, if scores have no window, bias and slope, no parts of keys and a positive scale.
    """
    blocks = tl.cdiv(queries, BLOCK_M)
    arrays = q_ptr, k_ptr, v_ptr, out_ptr, log_sum_ptr, bias_ptr, slopes_ptr, q_starts_ptr
    strides = k_starts_ptr, q_strides, k_strides, v_strides, out_strides, log_strides, bias_strides
    sizes = batches, heads, key_heads, group, queries, keys, span, window
    options = SCALE, SIZE, CAUSAL, SUMS, DESCRIPTORS, STORED_BLOCK, HEAD, BLOCK_M, BLOCK_N, RAGGED
    last = LANE_SUMS, PROGRAMS, ONE_LOOP or PROGRAMS > 0, FIRST_MAXIMUM
    rank, number = place(BATCH_AXIS)
    programs = tl.num_programs(0)
    if PROGRAMS and CAUSAL:
        # Pairs of blocks, which all see as many keys together: so no program has more to do, and
        # all are at the same heads, whose keys are in L2. The number of blocks is even.
        pairs = blocks // 2
        left = batches * heads * pairs - rank
        for half in tl.range(0, 2 * tl.cdiv(left, programs)):
            pair = rank + half // 2 * programs
            at = pair % pairs
            if half % 2 == 0:
                at = blocks - 1 - at
            attention_block(*(at, pair // pairs, *arrays, *strides, *sizes, *options, *last))
    elif PROGRAMS:  # a producer loads for the next block while the program ends one
        for at in tl.range(rank, batches * heads * blocks, programs):
            block, head = at % blocks, at // blocks
            attention_block(*(block, head, *arrays, *strides, *sizes, *options, *last))
    else:
        if CAUSAL:  # those that see the most keys first, so that no long one is last
            rank = blocks - 1 - rank
        attention_block(*(rank, number, *arrays, *strides, *sizes, *options, *last))
