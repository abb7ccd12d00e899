"""Flash attention, which never stores its scores: forward and backward, causal or not.

python examples/attention.py --heads 2 --context 256 --head 64

    out = softmax(Q Kᵀ / √head) V        for each head; causal: a query sees the keys up to its own

The scores of all queries and keys are context x context numbers. A program handles a block of
queries and iterates over the keys in blocks. For each query it keeps the running maximum of the
scores, the sum of their exponentials, and the sum of the values weighted by these; when the maximum
grows, both sums are scaled down. The backward pass recomputes the scores from Q, K and one number
per query.
"""

from __future__ import annotations

import argparse
import sys

import numpy as np
from report import Report, Results, positive

import tile
import tile.language as tl

BLOCK = 64
LOG2_E = 1.4426950408889634


@tile.jit
def seen_scores(q, k, query, key, context, scale, CAUSAL: tl.constexpr):
    """Return the scores of queries (rows) and keys (columns), -inf for masked keys."""
    scores = tl.dot(q, tl.trans(k), input_precision="ieee") * scale
    seen = key[None, :] < context
    if CAUSAL:
        seen = seen & (key[None, :] <= query[:, None])
    return tl.where(seen, scores, float("-inf"))


@tile.jit
def forward_kernel(
    q_ptr,
    k_ptr,
    v_ptr,
    out_ptr,
    log_sum_ptr,
    scale,
    context,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    HEAD: tl.constexpr,
    CAUSAL: tl.constexpr,
):
    first_row = tl.program_id(1) * context
    query = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    feature = tl.arange(0, HEAD)
    q_tile = (first_row + query[:, None]) * HEAD + feature[None, :]
    q = tl.load(q_ptr + q_tile, mask=query[:, None] < context, other=0.0)

    highest = tl.full((BLOCK_M,), float("-inf"), dtype=tl.float32)
    weights = tl.zeros((BLOCK_M,), dtype=tl.float32)
    total = tl.zeros((BLOCK_M, HEAD), dtype=tl.float32)
    end = context
    if CAUSAL:
        end = min(context, (tl.program_id(0) + 1) * BLOCK_M)
    for start in range(0, end, BLOCK_N):
        key = start + tl.arange(0, BLOCK_N)
        kv_tile = (first_row + key[:, None]) * HEAD + feature[None, :]
        k = tl.load(k_ptr + kv_tile, mask=key[:, None] < context, other=0.0)
        scores = seen_scores(q, k, query, key, context, scale, CAUSAL)

        new_highest = tl.maximum(highest, tl.max(scores, axis=1))
        shrink = tl.exp2(highest - new_highest)
        powers = tl.exp2(scores - new_highest[:, None])
        weights = weights * shrink + tl.sum(powers, axis=1)
        v = tl.load(v_ptr + kv_tile, mask=key[:, None] < context, other=0.0)
        total = tl.dot(powers.to(v.dtype), v, total * shrink[:, None], input_precision="ieee")
        highest = new_highest

    out = (total / weights[:, None]).to(out_ptr.dtype.element_ty)
    tl.store(out_ptr + q_tile, out, mask=query[:, None] < context)
    # The softmax of a score is 2 ** (score - log_sum).
    tl.store(log_sum_ptr + first_row + query, highest + tl.log2(weights), mask=query < context)


@tile.jit
def out_dot_kernel(
    out_ptr, dout_ptr, delta_ptr, context, BLOCK_M: tl.constexpr, HEAD: tl.constexpr
):
    query = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    inside = query < context
    row = tl.program_id(1) * context + query
    rows = row[:, None] * HEAD + tl.arange(0, HEAD)[None, :]
    out = tl.load(out_ptr + rows, mask=inside[:, None], other=0.0).to(tl.float32)
    dout = tl.load(dout_ptr + rows, mask=inside[:, None], other=0.0).to(tl.float32)
    tl.store(delta_ptr + row, tl.sum(out * dout, axis=1), mask=inside)


@tile.jit
def backward_kv_kernel(
    q_ptr,
    k_ptr,
    v_ptr,
    dout_ptr,
    log_sum_ptr,
    delta_ptr,
    dk_ptr,
    dv_ptr,
    scale,
    log2_scale,
    context,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    HEAD: tl.constexpr,
    CAUSAL: tl.constexpr,
):
    # A block of keys against all queries that attend to it.
    first_row = tl.program_id(1) * context
    key = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    feature = tl.arange(0, HEAD)
    kv_tile = (first_row + key[:, None]) * HEAD + feature[None, :]
    k = tl.load(k_ptr + kv_tile, mask=key[:, None] < context, other=0.0)
    v = tl.load(v_ptr + kv_tile, mask=key[:, None] < context, other=0.0)

    dk = tl.zeros((BLOCK_N, HEAD), dtype=tl.float32)
    dv = tl.zeros((BLOCK_N, HEAD), dtype=tl.float32)
    begin = 0
    if CAUSAL:
        begin = tl.program_id(0) * BLOCK_N // BLOCK_M * BLOCK_M
    for start in range(begin, context, BLOCK_M):
        query = start + tl.arange(0, BLOCK_M)
        inside = query < context
        q_tile = (first_row + query[:, None]) * HEAD + feature[None, :]
        q = tl.load(q_ptr + q_tile, mask=inside[:, None], other=0.0)
        dout = tl.load(dout_ptr + q_tile, mask=inside[:, None], other=0.0)
        log_sum = tl.load(log_sum_ptr + first_row + query, mask=inside, other=0.0)
        delta = tl.load(delta_ptr + first_row + query, mask=inside, other=0.0)

        scores = seen_scores(q, k, query, key, context, log2_scale, CAUSAL)
        p = tl.exp2(scores - log_sum[:, None])
        dv = tl.dot(tl.trans(p).to(dout.dtype), dout, dv, input_precision="ieee")
        dp = tl.dot(dout, tl.trans(v), input_precision="ieee")
        ds = p * (dp - delta[:, None])
        dk = tl.dot(tl.trans(ds).to(q.dtype), q, dk, input_precision="ieee")

    dtype = dk_ptr.dtype.element_ty
    tl.store(dk_ptr + kv_tile, (dk * scale).to(dtype), mask=key[:, None] < context)
    tl.store(dv_ptr + kv_tile, dv.to(dtype), mask=key[:, None] < context)


@tile.jit
def backward_q_kernel(
    q_ptr,
    k_ptr,
    v_ptr,
    dout_ptr,
    log_sum_ptr,
    delta_ptr,
    dq_ptr,
    scale,
    log2_scale,
    context,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    HEAD: tl.constexpr,
    CAUSAL: tl.constexpr,
):
    # A block of queries against all keys that it attends to.
    first_row = tl.program_id(1) * context
    query = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    inside = query < context
    feature = tl.arange(0, HEAD)
    q_tile = (first_row + query[:, None]) * HEAD + feature[None, :]
    q = tl.load(q_ptr + q_tile, mask=inside[:, None], other=0.0)
    dout = tl.load(dout_ptr + q_tile, mask=inside[:, None], other=0.0)
    log_sum = tl.load(log_sum_ptr + first_row + query, mask=inside, other=0.0)
    delta = tl.load(delta_ptr + first_row + query, mask=inside, other=0.0)

    dq = tl.zeros((BLOCK_M, HEAD), dtype=tl.float32)
    end = context
    if CAUSAL:
        end = min(context, (tl.program_id(0) + 1) * BLOCK_M)
    for start in range(0, end, BLOCK_N):
        key = start + tl.arange(0, BLOCK_N)
        kv_tile = (first_row + key[:, None]) * HEAD + feature[None, :]
        k = tl.load(k_ptr + kv_tile, mask=key[:, None] < context, other=0.0)
        v = tl.load(v_ptr + kv_tile, mask=key[:, None] < context, other=0.0)
        scores = seen_scores(q, k, query, key, context, log2_scale, CAUSAL)
        p = tl.exp2(scores - log_sum[:, None])
        dp = tl.dot(dout, tl.trans(v), input_precision="ieee")
        ds = p * (dp - delta[:, None])
        dq = tl.dot(ds.to(k.dtype), k, dq, input_precision="ieee")

    dtype = dq_ptr.dtype.element_ty
    tl.store(dq_ptr + q_tile, (dq * scale).to(dtype), mask=inside[:, None])


Arrays = dict[str, np.ndarray]


def forward(q: np.ndarray, k: np.ndarray, v: np.ndarray, causal: bool) -> Arrays:
    """Return `out` (batch x heads x context x head, like q, k, v) and `log_sum`, one per query."""
    batch, heads, context, head = q.shape
    out = np.empty_like(q)
    log_sum = np.empty((batch, heads, context), np.float32)
    grid = (tile.cdiv(context, BLOCK), batch * heads)
    blocks = {"BLOCK_M": BLOCK, "BLOCK_N": BLOCK, "HEAD": head, "CAUSAL": causal}
    # Hardware has exp2; the constant that turns it into exp is part of the scale.
    forward_kernel[grid](q, k, v, out, log_sum, head**-0.5 * LOG2_E, context, **blocks)
    return {"out": out, "log_sum": log_sum}


def backward(
    q: np.ndarray, k: np.ndarray, v: np.ndarray, done: Results, dout: np.ndarray, causal: bool
) -> Arrays:
    """Return the gradients `dq`, `dk` and `dv` from that of out and the results of `forward`."""
    batch, heads, context, head = q.shape
    dq, dk, dv, delta = *(np.empty_like(q) for _ in range(3)), np.empty_like(done["log_sum"])
    grid = (tile.cdiv(context, BLOCK), batch * heads)
    inputs = (q, k, v, dout, done["log_sum"], delta)
    scales = (head**-0.5, head**-0.5 * LOG2_E)
    blocks = {"BLOCK_M": BLOCK, "BLOCK_N": BLOCK, "HEAD": head, "CAUSAL": causal}
    out_dot_kernel[grid](done["out"], dout, delta, context, BLOCK_M=BLOCK, HEAD=head)
    backward_kv_kernel[grid](*inputs, dk, dv, *scales, context, **blocks)
    backward_q_kernel[grid](*inputs, dq, *scales, context, **blocks)
    return {"dq": dq, "dk": dk, "dv": dv}


def reference(
    q: np.ndarray, k: np.ndarray, v: np.ndarray, dout: np.ndarray, causal: bool
) -> Arrays:
    """Return `out`, `dq`, `dk` and `dv`, computed in float64."""
    q, k, v, dout = (array.astype(np.float64) for array in (q, k, v, dout))
    scale = q.shape[-1] ** -0.5
    scores = q @ k.swapaxes(-1, -2) * scale
    if causal:
        scores = np.where(np.tri(q.shape[-2], dtype=bool), scores, -np.inf)
    p = np.exp(scores - scores.max(axis=-1, keepdims=True))
    p /= p.sum(axis=-1, keepdims=True)
    dp = dout @ v.swapaxes(-1, -2)
    ds = p * (dp - (p * dp).sum(axis=-1, keepdims=True)) * scale
    return {
        "out": p @ v,
        "dq": ds @ k,
        "dk": ds.swapaxes(-1, -2) @ q,
        "dv": p.swapaxes(-1, -2) @ dout,
    }


def check(report: Report, inputs: list[np.ndarray], causal: bool, tolerance: float) -> None:
    """Measure both passes on the inputs q, k, v and dout."""
    q, k, v, dout = inputs
    expected = reference(q, k, v, dout, causal)
    kind = f"{q.dtype.name}{', causal' if causal else ''}"
    done = report.measure(
        f"forward, {kind}",
        lambda: forward(q, k, v, causal),
        {"out": expected.pop("out")},
        tolerance,
    )
    report.measure(
        f"backward, {kind}", lambda: backward(q, k, v, done, dout, causal), expected, tolerance
    )


def main() -> int:
    parser = argparse.ArgumentParser(description="attention over random queries, keys and values")
    parser.add_argument("--batch", type=positive, default=1)
    parser.add_argument("--heads", type=positive, default=2)
    parser.add_argument("--context", type=positive, default=256, help="number of queries and keys")
    parser.add_argument("--head", type=positive, default=64, help="size of a head; a power of two")
    options = parser.parse_args()
    shape = (options.batch, options.heads, options.context, options.head)
    rng = np.random.default_rng(0)
    inputs = [rng.standard_normal(shape, dtype=np.float32) for _ in range(4)]

    report = Report(
        f"attention: batch {shape[0]}, {shape[1]} heads, {shape[2]} queries of {shape[3]} numbers"
    )
    for dtype, tolerance in ((np.float32, 1e-5), (np.float16, 4e-3)):
        for causal in (False, True):
            check(report, [array.astype(dtype) for array in inputs], causal, tolerance)
    return report.finish()


if __name__ == "__main__":
    sys.exit(main())
