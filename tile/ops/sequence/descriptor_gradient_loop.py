"""The loop of attention's gradients over blocks of queries, which TMA copies.

The rows of the scores are keys, so that p and ds are operands of the dots of dv and dk in
registers, and no tile is transposed. Without dq, no barrier is left in the loop.
"""

from __future__ import annotations

import tile
import tile.language as tl
from tile.ops.sequence.seen_keys import is_seen


@tile.jit
def accumulate_kv(
    q_source,
    dout_source,
    dq_sums,
    log_sums,
    deltas,
    batch,
    head,
    row,
    begin,
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
    RAGGED: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    DELTA_LAST: tl.constexpr = False,
):
    """Return dk and dv with the queries of a head from `begin` on; `row` is the first of its sums.

    dq_sums: None, or a descriptor of sums, to which this adds what its keys contribute to dq.
    RAGGED: some queries or keys of blocks do not exist. Blocks of queries begin where TMA can load
    their sums, at multiples of 16 bytes. With sums of dq, heads begin there.
    DELTA_LAST: registers are short, so delta is loaded after the dots that need not wait for it.
    """
    LAST: tl.constexpr = DELTA_LAST or dq_sums is not None
    key = first + tl.arange(0, BLOCK_N)
    before = 0
    if dq_sums is not None:  # TMA reductions begin at no negative index
        tl.assume(row >= 0)
        tl.assume(batch >= 0)
        tl.assume(head >= 0)
    elif RAGGED:
        aligned = row // 4 * 4
        before = row - aligned
        row = aligned
    for start in range(begin, queries + before, BLOCK_M):
        query = start - before + tl.arange(0, BLOCK_M)
        if RAGGED:
            q = q_source.load([batch, head, start - before, 0]).reshape(BLOCK_M, HEAD)
        else:
            q = q_source.load([row + start, 0])
        if dq_sums is None:
            log_sum = log_sums.load([row + start])
        scores = tl.dot(k, tl.trans(q))
        if LOG2_SCALE <= 0:  # else after the mask, in one operation with the sum's subtraction
            scores *= LOG2_SCALE
        if RAGGED:
            dout = dout_source.load([batch, head, start - before, 0]).reshape(BLOCK_M, HEAD)
        else:
            dout = dout_source.load([row + start, 0])
        if not LAST:
            delta = deltas.load([row + start])
        if RAGGED:
            seen = is_seen(query[None, :] + keys - queries, key[:, None], keys, None, CAUSAL)
            exists = (query >= 0) & (query < queries)
            scores = tl.where(seen & exists[None, :], scores, -float("inf"))
        elif CAUSAL and start + keys - queries < first + BLOCK_N:
            seen = key[:, None] <= query[None, :] + keys - queries
            scores = tl.where(seen, scores, -float("inf"))
        if LOG2_SCALE > 0:
            scores *= LOG2_SCALE
        if dq_sums is not None:  # as late as possible: registers are short
            log_sum = log_sums.load([row + start])
        p = tl.exp2(scores - log_sum[None, :])
        dv = tl.dot(p.to(dout.dtype), dout, dv)
        dp = tl.dot(v, tl.trans(dout))
        if LAST:
            delta = deltas.load([row + start])
        ds = (p * (dp - delta[None, :])).to(q.dtype)
        if dq_sums is not None:
            dq = tl.dot(tl.trans(ds), k)
        dk = tl.dot(ds, q, dk)
        if dq_sums is not None:
            if RAGGED:
                dq = dq.reshape(1, 1, BLOCK_M, HEAD)
                dq_sums.atomic_add([batch, head, start - before, 0], dq)
            else:
                dq_sums.atomic_add([row + start, 0], dq)
    return dk, dv
