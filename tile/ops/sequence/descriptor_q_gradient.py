"""The gradient of queries of attention by descriptors: TMA copies blocks of keys and values.

As in attention_q_gradient.py, a program has a block of queries. No barrier is left in the loop.
"""

from __future__ import annotations

import tile
import tile.language as tl
from tile.ops.core.batched_grid import place
from tile.ops.core.tables import ANY, Table
from tile.ops.sequence.seen_keys import is_seen

_FOUR = {"num_warps": 4, "num_stages": 2}
_SQUARE, _WIDE = {"BLOCK_M": 64, "BLOCK_N": 64, **_FOUR}, {"BLOCK_M": 64, "BLOCK_N": 128, **_FOUR}
_CLOSE = {**_SQUARE, "warp_specialize": False, "maxnreg": 128}  # four programs on a multiprocessor
# By the size of a head, whether attention is causal, and the number of keys. H200, float16, 4 x 32
# x 4096, 2026-11-26, heads of 256 elements, 4 x 16 x 4096, 2026-11-29, heads of 64, 1024 to 16384,
# 2026-11-30 (docs/notes/ops.md).
QUERY_TILES = Table(
    {(ANY, ANY, ANY): {"BLOCK_M": 32, "BLOCK_N": 32}},
    {
        "nvptx": {
            (64, 0, 2048): _CLOSE,
            (64, 0, ANY): {**_WIDE, "warp_specialize": False},
            (64, 1, ANY): _CLOSE,
            (ANY, ANY, ANY): {**_SQUARE, "warp_specialize": True},
        }
    },
)


@tile.jit
def descriptor_q_kernel(
    q_ptr,
    k_ptr,
    v_ptr,
    dout_ptr,
    out_ptr,
    log_sum_ptr,
    delta_ptr,
    dq_ptr,
    batches,
    heads,
    key_heads,
    queries,
    keys,
    SCALE: tl.constexpr,
    LOG2_SCALE: tl.constexpr,
    SIZE: tl.constexpr,
    HEAD: tl.constexpr,
    CAUSAL: tl.constexpr,
    RAGGED: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BATCH_AXIS: tl.constexpr = 1,
):
    if RAGGED:
        shape, block = [batches, key_heads, keys, SIZE], [1, 1, BLOCK_N, HEAD]
        strides = [key_heads * keys * SIZE, keys * SIZE, SIZE, 1]
    else:
        shape, block, strides = [batches * key_heads * keys, SIZE], [BLOCK_N, HEAD], [SIZE, 1]
    k_source = tl.make_tensor_descriptor(k_ptr, shape, strides, block)
    v_source = tl.make_tensor_descriptor(v_ptr, shape, strides, block)
    rank, number = place(BATCH_AXIS)
    batch, head = number // heads, number % heads // (heads // key_heads)
    key_row = (batch * key_heads + head) * keys
    if CAUSAL:  # those that see the most keys first, so that no long one is last
        rank = tl.cdiv(queries, BLOCK_M) - 1 - rank
    query = rank * BLOCK_M + tl.arange(0, BLOCK_M)
    row = number.to(tl.int64) * queries
    feature = tl.arange(0, HEAD)[None, :]
    at = query[:, None] * SIZE + feature
    exists = query < queries if RAGGED else None
    masked: tl.constexpr = RAGGED or SIZE < HEAD
    inside = (query < queries)[:, None] & (feature < SIZE) if masked else None
    zero = 0.0 if masked else None
    q = tl.load(q_ptr + row * SIZE + at, mask=inside, other=zero)
    dout = tl.load(dout_ptr + row * SIZE + at, mask=inside, other=zero)
    log_sum = tl.load(log_sum_ptr + row + query, mask=exists, other=0.0 if RAGGED else None)
    out = tl.load(out_ptr + row * SIZE + at, mask=inside, other=zero)
    delta = tl.sum(out.to(tl.float32) * dout.to(tl.float32), axis=1)
    tl.store(delta_ptr + row + query, delta, mask=exists)
    dq = tl.zeros((BLOCK_M, HEAD), tl.float32)
    first = rank * BLOCK_M + keys - queries
    end = keys
    if CAUSAL:
        end = min(keys, first + BLOCK_M)
    for start in range(0, end, BLOCK_N):
        key = start + tl.arange(0, BLOCK_N)
        if RAGGED:
            k = k_source.load([batch, head, start, 0]).reshape(BLOCK_N, HEAD)
        else:
            k = k_source.load([key_row + start, 0])
        scores = tl.dot(q, tl.trans(k))
        if LOG2_SCALE <= 0:
            scores *= LOG2_SCALE
        if RAGGED:
            seen = is_seen(query[:, None] + keys - queries, key[None, :], keys, None, CAUSAL)
            scores = tl.where(seen, scores, -float("inf"))
        elif CAUSAL and start + BLOCK_N > first:
            seen = key[None, :] <= query[:, None] + keys - queries
            scores = tl.where(seen, scores, -float("inf"))
        if LOG2_SCALE > 0:
            scores *= LOG2_SCALE
        p = tl.exp2(scores - log_sum[:, None])
        if RAGGED:
            v = v_source.load([batch, head, start, 0]).reshape(BLOCK_N, HEAD)
        else:
            v = v_source.load([key_row + start, 0])
        dp = tl.dot(dout, tl.trans(v))
        ds = p * (dp - delta[:, None])
        dq = tl.dot(ds.to(k.dtype), k, dq)
    dq = (dq * SCALE).to(dq_ptr.dtype.element_ty)
    if RAGGED:
        tl.store(dq_ptr + row * SIZE + at, dq, mask=inside)
    else:
        shape, block = [batches * heads * queries, SIZE], [BLOCK_M, HEAD]
        target = tl.make_tensor_descriptor(dq_ptr, shape, [SIZE, 1], block)
        target.store([number * queries + rank * BLOCK_M, 0], dq)
