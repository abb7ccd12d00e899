"""Attention that never stores its scores (Dao et al., arXiv:2205.14135), causal, grouped heads.

    out = softmax(q @ k.T * scale) @ v        for each head; causal: without the keys that follow

A program has a block of queries of one head and iterates over blocks of keys. For each query it
keeps the running maximum of the scores, the sum of their exponentials, and the sum of the values
weighted by these; when the maximum grows, both sums are scaled down. Only the last blocks need a
mask: the loop over all others is free of it. Exponentials are powers of two, which hardware has;
log2(e) is part of the scale. Several query heads may share one head of keys (arXiv:2305.13245).
"""

from __future__ import annotations

from typing import Any

import numpy as np

import tile
import tile.language as tl
from tile.errors import ArgumentValueError
from tile.ops.core.call import Call, Operand, accumulator
from tile.ops.core.call_plans import launch, planned
from tile.ops.core.reference import Array, wide
from tile.ops.core.tables import ANY, Table

LOG2_E = 1.4426950408889634
# By the size of a head and the bytes of an element. H200, float16, 4 x 32 x 4096, 2026-11-21
# (docs/results/gpu.md); wider types and heads are not measured.
TABLE = Table(
    {(ANY, ANY): {"BLOCK_M": 32, "BLOCK_N": 32}},
    {
        "nvptx": {
            (64, 2): {"BLOCK_M": 64, "BLOCK_N": 64, "num_warps": 4, "num_stages": 2},
            (128, 2): {"BLOCK_M": 128, "BLOCK_N": 64, "num_warps": 4, "num_stages": 2},
            (ANY, ANY): {"BLOCK_M": 64, "BLOCK_N": 32, "num_warps": 4, "num_stages": 2},
        }
    },
)


@tile.jit
def attend(
    q,
    k_ptr,
    v_ptr,
    query,
    k_row,
    v_row,
    start,
    end,
    keys,
    offset,
    highest,
    weights,
    total,
    SCALE: tl.constexpr,
    SIZE: tl.constexpr,
    CAUSAL: tl.constexpr,
    MASKED: tl.constexpr,
    BLOCK_N: tl.constexpr,
    HEAD: tl.constexpr,
):
    """Return the running maximum and both sums after the keys from `start` to `end`."""
    feature = tl.arange(0, HEAD)[None, :]
    # Offsets in a block are 32-bit and the same in all iterations; a scalar moves the block.
    within = tl.arange(0, BLOCK_N)[:, None]
    k_tile, v_tile = k_ptr + (within * k_row + feature), v_ptr + (within * v_row + feature)
    for first in range(start, end, BLOCK_N):
        key = first + tl.arange(0, BLOCK_N)
        inside = (key[:, None] < keys) & (feature < SIZE) if MASKED else feature < SIZE
        k = tl.load(k_tile + tl.cast(first, tl.int64) * k_row, mask=inside, other=0.0)
        scores = tl.dot(q, tl.trans(k), out_dtype=total.dtype) * SCALE
        if MASKED:
            seen = key[None, :] < keys
            if CAUSAL:
                seen = seen & (key[None, :] <= query[:, None] + offset)
            scores = tl.where(seen, scores, -float("inf"))
        higher = tl.maximum(highest, tl.max(scores, axis=1))
        shrink = tl.exp2(highest - higher)
        powers = tl.exp2(scores - higher[:, None])
        weights = weights * shrink + tl.sum(powers, axis=1)
        v = tl.load(v_tile + tl.cast(first, tl.int64) * v_row, mask=inside, other=0.0)
        total = tl.dot(powers.to(v.dtype), v, total * shrink[:, None], out_dtype=total.dtype)
        highest = higher
    return highest, weights, total


@tile.jit
def attention_kernel(
    q_ptr,
    k_ptr,
    v_ptr,
    out_ptr,
    log_sum_ptr,
    q_strides,
    k_strides,
    v_strides,
    out_strides,
    heads,
    group,
    queries,
    keys,
    SCALE: tl.constexpr,
    SIZE: tl.constexpr,
    CAUSAL: tl.constexpr,
    SUMS: tl.constexpr,
    HEAD: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
):
    batch, head = (tl.program_id(1) // heads).to(tl.int64), (tl.program_id(1) % heads).to(tl.int64)
    k_ptr += batch * k_strides[0] + head // group * k_strides[1]
    v_ptr += batch * v_strides[0] + head // group * v_strides[1]
    query = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    feature = tl.arange(0, HEAD)[None, :]
    inside = (query < queries)[:, None] & (feature < SIZE)
    rows = query.to(tl.int64)[:, None]
    q_tile = q_ptr + batch * q_strides[0] + head * q_strides[1] + rows * q_strides[2] + feature
    q = tl.load(q_tile, mask=inside, other=0.0)

    highest = tl.full((BLOCK_M,), -float("inf"), dtype=SUMS)
    weights = tl.zeros((BLOCK_M,), dtype=SUMS)
    total = tl.zeros((BLOCK_M, HEAD), dtype=SUMS)
    offset = keys - queries
    # Keys before `whole` need no mask; none of the queries sees one from `end` on.
    whole, end = keys, keys
    if CAUSAL:
        whole = min(keys, tl.program_id(0) * BLOCK_M + offset + 1)
        end = min(keys, (tl.program_id(0) + 1) * BLOCK_M + offset)
    whole = whole // BLOCK_N * BLOCK_N
    highest, weights, total = attend(
        *(q, k_ptr, v_ptr, query, k_strides[2], v_strides[2], 0, whole, keys, offset),
        *(highest, weights, total, SCALE, SIZE, CAUSAL, False, BLOCK_N, HEAD),
    )
    highest, weights, total = attend(
        *(q, k_ptr, v_ptr, query, k_strides[2], v_strides[2], whole, end, keys, offset),
        *(highest, weights, total, SCALE, SIZE, CAUSAL, True, BLOCK_N, HEAD),
    )
    out = out_ptr + batch * out_strides[0] + head * out_strides[1] + rows * out_strides[2] + feature
    total *= (1.0 / weights)[:, None]
    tl.store(out, total.to(out_ptr.dtype.element_ty), mask=inside)
    if log_sum_ptr is not None:
        # The softmax of a score, in powers of two, is 2 ** (score - log_sum).
        at = tl.program_id(1).to(tl.int64) * queries + query
        tl.store(log_sum_ptr + at, highest + tl.log2(weights), mask=query < queries)


@planned()
def attention(
    q: Any,
    k: Any,
    v: Any,
    causal: bool = False,
    scale: float | None = None,
    log_sums: bool = False,
    *,
    out: Any = None,
) -> Any:
    """Return the attention of queries `q` to keys `k` and values `v`, in their type.

    q: batch x heads x queries x size; k and v: batch x key heads x keys x size, where heads is a
    multiple of key heads; the last axis is contiguous. causal: the last query sees all keys, each
    query before one less. scale: of the scores (None: size ** -0.5). With `log_sums` the result is
    (out, log2 of the sum of the powers of each query), which `attention_backward` takes.
    """
    call = Call("attention")
    source = call.array("q", q, rank=4)
    key, value = (
        call.array(name, array, dtypes=(source.dtype,), rank=4)
        for name, array in (("k", k), ("v", v))
    )
    batches, heads, queries, size = source.shape
    keys = check_shapes(call, source, key, value, causal)
    scale = size**-0.5 if scale is None else call.number("scale", scale)
    result = call.output("out", out, source.shape, source.dtype)
    for operand in (source, key, value, result):
        operand.last_contiguous()
    sums = accumulator(source.dtype)
    logs = call.new((batches, heads, queries), sums) if log_sums else None
    if result.size:
        config = TABLE.select(call.backend, size, source.dtype.itemsize)
        launch(attention_kernel, (tile.cdiv(queries, config["BLOCK_M"]), batches * heads))(
            *(q, k, v, result.value, logs and logs.value),
            *(operand.strides[:3] for operand in (source, key, value, result)),
            *(heads, heads // key.shape[1], queries, keys),
            SCALE=scale * LOG2_E,
            SIZE=size,
            CAUSAL=bool(causal),
            SUMS=getattr(tl, sums.name),
            HEAD=max(16, tile.next_power_of_2(size)),
            **config,
        )
    return (result.value, logs.value) if logs else result.value


def check_shapes(call: Call, q: Operand, k: Operand, v: Operand, causal: bool) -> int:
    """Return the number of keys; raise `ArgumentValueError` if the shapes do not fit."""
    (batches, heads, queries, size), (_, key_heads, keys, _) = q.shape, k.shape
    if k.shape != v.shape or k.shape[0] != batches or k.shape[3] != size:
        raise ArgumentValueError(
            f"{call.op}: `q` has shape {q.shape}, `k` {k.shape} and `v` {v.shape}; they must be "
            "batch x heads x queries x size, and twice batch x key heads x keys x size"
        )
    if key_heads == 0 or heads % key_heads:
        raise ArgumentValueError(
            f"{call.op}: `q` has {heads} heads and `k` {key_heads}; the first must be a multiple"
        )
    if queries and (keys == 0 or (causal and keys < queries)):
        raise ArgumentValueError(
            f"{call.op}: there are {queries} queries and {keys} keys; each query must see a key"
        )
    return keys


def seen_keys(queries: int, keys: int) -> Array:
    """Return which keys each query sees by causal attention, queries x keys."""
    result: Array = np.arange(keys) <= np.arange(queries)[:, None] + keys - queries
    return result


def attention_reference(
    q: Array,
    k: Array,
    v: Array,
    causal: bool = False,
    scale: float | None = None,
    log_sums: bool = False,
) -> Any:
    """Return the result in float64."""
    q, k, v = wide(q, k, v)
    k, v = (np.repeat(array, q.shape[1] // k.shape[1], axis=1) for array in (k, v))
    scores = q @ k.swapaxes(-1, -2) * (q.shape[-1] ** -0.5 if scale is None else scale)
    if causal:
        scores = np.where(seen_keys(*scores.shape[-2:]), scores, -np.inf)
    highest = scores.max(axis=-1, keepdims=True, initial=-np.inf)
    powers = np.exp(scores - highest)
    total = powers.sum(axis=-1, keepdims=True)
    logs = (highest + np.log(total))[..., 0] * LOG2_E
    return (powers / total @ v, logs) if log_sums else powers / total @ v
