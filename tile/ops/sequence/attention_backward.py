"""The gradients of attention, from the scores computed anew (Dao et al., arXiv:2205.14135).

    p = softmax(q @ k.T * scale)        dv = p.T @ dout        dp = dout @ v.T
    ds = p * (dp - delta) * scale       dq = ds @ k            dk = ds.T @ q
    delta = sum over features of dout * out, a number for each query

The forward pass leaves a number for each query, log_sum, from which p = 2 ** (scores - log_sum).
One kernel has a block of keys and iterates over the queries that see it, of all heads that share
it, for dk and dv; another has a block of queries and iterates over keys, for dq. Nothing is added
atomically, so results are the same in every run.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import tile
import tile.language as tl
from tile.ops.core.call import Call, accumulator
from tile.ops.core.call_plans import launch, planned
from tile.ops.core.device_functions import widen
from tile.ops.core.reference import Array, wide
from tile.ops.core.tables import ANY, Table
from tile.ops.sequence.attention import LOG2_E, check_shapes, seen_keys

# By the size of a head and the bytes of an element. H200, float16, 4 x 32 x 4096, 2026-11-21
# (docs/results/gpu.md); wider types and heads are not measured: their tiles avoid spills.
TABLE = Table(
    {(ANY, ANY): {"BLOCK_M": 32, "BLOCK_N": 32}},
    {
        "nvptx": {
            (128, 2): {"BLOCK_M": 64, "BLOCK_N": 64, "num_warps": 4, "num_stages": 2},
            (ANY, ANY): {"BLOCK_M": 32, "BLOCK_N": 32, "num_warps": 4, "num_stages": 2},
        }
    },
)


@tile.jit
def delta_kernel(out_ptr, dout_ptr, delta_ptr, rows, size, ROWS: tl.constexpr, HEAD: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    feature = tl.arange(0, HEAD)[None, :]
    inside = (row < rows)[:, None] & (feature < size)
    out = widen(tl.load(out_ptr + row[:, None] * size + feature, mask=inside, other=0.0))
    dout = widen(tl.load(dout_ptr + row[:, None] * size + feature, mask=inside, other=0.0))
    tl.store(delta_ptr + row, tl.sum(out * dout, axis=1), mask=row < rows)


@tile.jit
def rows_of(base, first, count, size, BLOCK: tl.constexpr, HEAD: tl.constexpr):
    """Return the offsets, from `base`, of rows from row `first` on, and which of them exist."""
    row = first + tl.arange(0, BLOCK)[:, None]
    feature = tl.arange(0, HEAD)[None, :]
    return base + row.to(tl.int64) * size + feature, (row < count) & (feature < size)


@tile.jit
def probabilities(q, k, log_sum, query, key, queries, keys, LOG2_SCALE, CAUSAL: tl.constexpr):
    """Return p of queries (rows) and keys (columns), 0 where masked."""
    scores = tl.dot(q, tl.trans(k), out_dtype=log_sum.dtype) * LOG2_SCALE
    seen = (query < queries)[:, None] & (key < keys)[None, :]
    if CAUSAL:
        seen = seen & (key[None, :] <= query[:, None] + (keys - queries))
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
    group,
    queries,
    keys,
    size,
    SCALE: tl.constexpr,
    LOG2_SCALE: tl.constexpr,
    CAUSAL: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    HEAD: tl.constexpr,
):
    key_head = tl.program_id(1).to(tl.int64)
    key = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    at, inside = rows_of(
        key_head * keys * size, tl.program_id(0) * BLOCK_N, keys, size, BLOCK_N, HEAD
    )
    k = tl.load(k_ptr + at, mask=inside, other=0.0)
    v = tl.load(v_ptr + at, mask=inside, other=0.0)
    dk = tl.zeros((BLOCK_N, HEAD), dtype=log_sum_ptr.dtype.element_ty)
    dv = tl.zeros((BLOCK_N, HEAD), dtype=log_sum_ptr.dtype.element_ty)
    begin = 0
    if CAUSAL:  # the first query that sees the first key of the block
        begin = max(tl.program_id(0) * BLOCK_N - (keys - queries), 0) // BLOCK_M * BLOCK_M
    for head in range(key_head * group, (key_head + 1) * group):
        for start in range(begin, queries, BLOCK_M):
            query = start + tl.arange(0, BLOCK_M)
            q_at, exist = rows_of(head * queries * size, start, queries, size, BLOCK_M, HEAD)
            q = tl.load(q_ptr + q_at, mask=exist, other=0.0)
            dout = tl.load(dout_ptr + q_at, mask=exist, other=0.0)
            number = head * queries + query
            log_sum = tl.load(log_sum_ptr + number, mask=query < queries, other=0.0)
            delta = tl.load(delta_ptr + number, mask=query < queries, other=0.0)
            p = probabilities(q, k, log_sum, query, key, queries, keys, LOG2_SCALE, CAUSAL)
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
    group,
    queries,
    keys,
    size,
    SCALE: tl.constexpr,
    LOG2_SCALE: tl.constexpr,
    CAUSAL: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    HEAD: tl.constexpr,
):
    head = tl.program_id(1).to(tl.int64)
    first = tl.program_id(0) * BLOCK_M
    query = first + tl.arange(0, BLOCK_M)
    at, inside = rows_of(head * queries * size, first, queries, size, BLOCK_M, HEAD)
    q = tl.load(q_ptr + at, mask=inside, other=0.0)
    dout = tl.load(dout_ptr + at, mask=inside, other=0.0)
    log_sum = tl.load(log_sum_ptr + head * queries + query, mask=query < queries, other=0.0)
    delta = tl.load(delta_ptr + head * queries + query, mask=query < queries, other=0.0)
    dq = tl.zeros((BLOCK_M, HEAD), dtype=log_sum.dtype)
    end = keys
    if CAUSAL:
        end = min(keys, first + BLOCK_M + (keys - queries))
    base = head // group * keys * size
    for start in range(0, end, BLOCK_N):
        key = start + tl.arange(0, BLOCK_N)
        k_at, exist = rows_of(base, start, keys, size, BLOCK_N, HEAD)
        k = tl.load(k_ptr + k_at, mask=exist, other=0.0)
        v = tl.load(v_ptr + k_at, mask=exist, other=0.0)
        p = probabilities(q, k, log_sum, query, key, queries, keys, LOG2_SCALE, CAUSAL)
        dp = tl.dot(dout, tl.trans(v), out_dtype=dq.dtype)
        ds = p * (dp - delta[:, None])
        dq = tl.dot(ds.to(k.dtype), k, dq, out_dtype=dq.dtype)
    tl.store(dq_ptr + at, (dq * SCALE).to(dq_ptr.dtype.element_ty), mask=inside)


@planned()
def attention_backward(
    dout: Any,
    q: Any,
    k: Any,
    v: Any,
    result: Any,
    log_sums: Any,
    causal: bool = False,
    scale: float | None = None,
) -> tuple[Any, Any, Any]:
    """Return the gradients of q, k and v from `dout`, that of the result.

    result, log_sums: both results of `attention(q, k, v, causal, scale, log_sums=True)`. All arrays
    are contiguous.
    """
    call = Call("attention_backward")
    source = call.array("q", q, rank=4).contiguous()
    key, value = (
        call.array(name, array, dtypes=(source.dtype,), rank=4).contiguous()
        for name, array in (("k", k), ("v", v))
    )
    batches, heads, queries, size = source.shape
    keys = check_shapes(call, source, key, value, causal)
    scale = size**-0.5 if scale is None else call.number("scale", scale)
    for name, array in (("dout", dout), ("result", result)):
        call.array(name, array, dtypes=(source.dtype,), rank=4, shape=source.shape).contiguous()
    sums = accumulator(source.dtype)
    shape = (batches, heads, queries)
    call.array("log_sums", log_sums, dtypes=(sums,), rank=3, shape=shape).contiguous()
    dq, dk, dv = (call.new(operand.shape, source.dtype) for operand in (source, key, value))
    if not key.size:
        return dq.value, dk.value, dv.value
    delta = call.new(shape, sums)
    head = max(16, tile.next_power_of_2(size))
    if source.size:
        rows = batches * heads * queries
        launch(delta_kernel, (tile.cdiv(rows, 16),))(
            *(result, dout, delta.value, rows, size), ROWS=16, HEAD=head
        )
    inputs = (q, k, v, dout, log_sums, delta.value)
    sizes = (heads // key.shape[1], queries, keys, size)
    config = TABLE.select(call.backend, size, source.dtype.itemsize)
    options = {
        "SCALE": scale,
        "LOG2_SCALE": scale * LOG2_E,
        "CAUSAL": bool(causal),
        "HEAD": head,
        **config,
    }
    launch(gradient_kv_kernel, (tile.cdiv(keys, config["BLOCK_N"]), batches * key.shape[1]))(
        *inputs, dk.value, dv.value, *sizes, **options
    )
    if source.size:
        launch(gradient_q_kernel, (tile.cdiv(queries, config["BLOCK_M"]), batches * heads))(
            *inputs, dq.value, *sizes, **options
        )
    return dq.value, dk.value, dv.value


def attention_backward_reference(
    dout: Array,
    q: Array,
    k: Array,
    v: Array,
    result: Array,
    log_sums: Array,
    causal: bool = False,
    scale: float | None = None,
) -> tuple[Array, Array, Array]:
    """Return the gradients in float64, from dout, q, k and v alone."""
    group = q.shape[1] // k.shape[1]
    dout, q, k, v = wide(dout, q, k, v)
    many_k, many_v = (np.repeat(array, group, axis=1) for array in (k, v))
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    scores = q @ many_k.swapaxes(-1, -2) * scale
    if causal:
        scores = np.where(seen_keys(*scores.shape[-2:]), scores, -np.inf)
    p = np.exp(scores - scores.max(axis=-1, keepdims=True))
    p /= p.sum(axis=-1, keepdims=True)
    dp = dout @ many_v.swapaxes(-1, -2)
    ds = p * (dp - (p * dp).sum(axis=-1, keepdims=True)) * scale
    heads = (*k.shape[:2], group, *k.shape[2:])
    dk = (ds.swapaxes(-1, -2) @ q).reshape(heads).sum(axis=2)
    dv = (p.swapaxes(-1, -2) @ dout).reshape(heads).sum(axis=2)
    return ds @ many_k, dk, dv
