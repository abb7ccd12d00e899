"""GPU kernels whose source is shared by this project's compiler and Triton.

`benchmarks/gpu.py` loads this file twice; the environment variable TILE_PEER selects the compiler.
"""

from __future__ import annotations

import os

if os.environ.get("TILE_PEER") == "triton":
    import triton as compiler
    import triton.language as tl
    from triton.tools.tensor_descriptor import TensorDescriptor
else:
    import tile as compiler
    import tile.language as tl

    TensorDescriptor = compiler.TensorDescriptor

__all__ = ["TensorDescriptor"]

jit = compiler.jit


@jit
def add_kernel(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    index = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = index < n
    x = tl.load(x_ptr + index, mask=inside)
    y = tl.load(y_ptr + index, mask=inside)
    tl.store(out_ptr + index, x + y, mask=inside)


@jit
def softmax_kernel(out_ptr, x_ptr, row_step, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    column = tl.arange(0, BLOCK)
    inside = column < columns
    x = tl.load(x_ptr + row * row_step + column, mask=inside, other=-float("inf"))
    powers = tl.exp(x - tl.max(x, axis=0))
    out = powers / tl.sum(powers, axis=0)
    tl.store(out_ptr + row * row_step + column, out, mask=inside)


@jit
def softmax_rows_kernel(
    out_ptr, x_ptr, row_step, rows, columns, ROWS: tl.constexpr, BLOCK: tl.constexpr
):
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    column = tl.arange(0, BLOCK)
    at = row[:, None] * row_step + column[None, :]
    inside = (row < rows)[:, None] & (column < columns)[None, :]
    x = tl.load(x_ptr + at, mask=inside, other=-float("inf"))
    powers = tl.exp(x - tl.max(x, axis=1)[:, None])
    out = powers / tl.sum(powers, axis=1)[:, None]
    tl.store(out_ptr + at, out, mask=inside)


@jit
def looped_softmax_kernel(out_ptr, x_ptr, row_step, columns, BLOCK: tl.constexpr):
    """Go over a row twice: for its greatest element and the sum of powers, then for quotients."""
    row = tl.program_id(0).to(tl.int64) * row_step
    column = tl.arange(0, BLOCK)
    most = -float("inf")
    total = 0.0
    for start in range(0, columns, BLOCK):
        inside = start + column < columns
        x = tl.load(x_ptr + row + start + column, mask=inside, other=-float("inf")).to(tl.float32)
        greater = tl.maximum(most, tl.max(x, axis=0))
        total = total * tl.exp(most - greater) + tl.sum(tl.exp(x - greater), axis=0)
        most = greater
    for start in range(0, columns, BLOCK):
        inside = start + column < columns
        x = tl.load(x_ptr + row + start + column, mask=inside, other=0.0).to(tl.float32)
        tl.store(out_ptr + row + start + column, tl.exp(x - most) / total, mask=inside)


@jit
def layer_norm_kernel(x_ptr, out_ptr, weight_ptr, bias_ptr, columns, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    column = tl.arange(0, BLOCK)
    inside = column < columns
    x = tl.load(x_ptr + row * columns + column, mask=inside, other=0.0).to(tl.float32)
    mean = tl.sum(x, axis=0) / columns
    centered = tl.where(inside, x - mean, 0.0)
    scale = 1 / tl.sqrt(tl.sum(centered * centered, axis=0) / columns + eps)
    weight = tl.load(weight_ptr + column, mask=inside)
    bias = tl.load(bias_ptr + column, mask=inside)
    out = centered * scale * weight + bias
    tl.store(out_ptr + row * columns + column, out.to(tl.float16), mask=inside)


@jit
def sums_of_tile(
    number, a_ptr, b_ptr, M, N, K,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr,
    SUMS: tl.constexpr, B_BY_COLUMNS: tl.constexpr,
    PRECISION: tl.constexpr, IMPRECISE: tl.constexpr,
):  # fmt: skip
    """Multiply a tile as Triton's tutorial does, with rows and columns modulo M and N.

    Returns the sums, and the row and the column of the tile.
    """
    rows_of_tiles = tl.cdiv(M, BM)
    columns_of_tiles = tl.cdiv(N, BN)
    in_group = GROUP * columns_of_tiles
    first = number // in_group * GROUP
    group = min(rows_of_tiles - first, GROUP)
    tile_row = first + number % in_group % group
    tile_column = number % in_group // group
    # Non-negative dividends let the compiler prove that the remainders are contiguous.
    tl.assume(tile_row >= 0)
    tl.assume(tile_column >= 0)
    rows = (tile_row * BM + tl.arange(0, BM)) % M
    columns = (tile_column * BN + tl.arange(0, BN)) % N
    inner = tl.arange(0, BK)
    a_ptrs = a_ptr + rows[:, None] * K + inner[None, :]
    if B_BY_COLUMNS:
        b_ptrs = b_ptr + inner[:, None] + columns[None, :] * K
    else:
        b_ptrs = b_ptr + inner[:, None] * N + columns[None, :]
    total = tl.zeros((BM, BN), dtype=SUMS)
    for k in range(tl.cdiv(K, BK)):
        a = tl.load(a_ptrs, mask=inner[None, :] < K - k * BK, other=0.0)
        b = tl.load(b_ptrs, mask=inner[:, None] < K - k * BK, other=0.0)
        total = tl.dot(
            a, b, total, input_precision=PRECISION, max_num_imprecise_acc=IMPRECISE, out_dtype=SUMS
        )
        a_ptrs += BK
        b_ptrs += BK if B_BY_COLUMNS else BK * N
    return total, tile_row, tile_column


@jit
def store_tile(c_ptr, total, tile_row, tile_column, M, N, BM: tl.constexpr, BN: tl.constexpr):
    row = tile_row * BM + tl.arange(0, BM)
    column = tile_column * BN + tl.arange(0, BN)
    mask = (row[:, None] < M) & (column[None, :] < N)
    out = total.to(c_ptr.dtype.element_ty)
    tl.store(c_ptr + row[:, None] * N + column[None, :], out, mask=mask)


@jit
def matmul_kernel(
    a_ptr,
    b_ptr,
    c_ptr,
    M,
    N,
    K,
    BM: tl.constexpr,
    BN: tl.constexpr,
    BK: tl.constexpr,
    GROUP: tl.constexpr,
    SUMS: tl.constexpr = tl.float32,
    B_BY_COLUMNS: tl.constexpr = False,
    PRECISION: tl.constexpr = None,
    IMPRECISE: tl.constexpr = None,
):
    total, tile_row, tile_column = sums_of_tile(
        tl.program_id(0), a_ptr, b_ptr, M, N, K, BM, BN, BK, GROUP,
        SUMS, B_BY_COLUMNS, PRECISION, IMPRECISE,
    )  # fmt: skip
    store_tile(c_ptr, total, tile_row, tile_column, M, N, BM, BN)


@jit
def matmul_descriptors_kernel(
    a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr
):
    program = tl.program_id(0)
    rows_of_tiles = tl.cdiv(M, BM)
    columns_of_tiles = tl.cdiv(N, BN)
    in_group = GROUP * columns_of_tiles
    first = program // in_group * GROUP
    group = min(rows_of_tiles - first, GROUP)
    row = (first + program % in_group % group) * BM
    column = program % in_group // group * BN
    total = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, K, BK):
        total = tl.dot(a.load([row, k]), b.load([k, column]), total)
    c.store([row, column], total.to(c.dtype))


@jit
def attention_blocks(
    q,
    k_ptr,
    v_ptr,
    first,
    query,
    begin,
    end,
    scale,
    highest,
    weights,
    total,
    BN: tl.constexpr,
    HEAD: tl.constexpr,
    MASKED: tl.constexpr,
):
    feature = tl.arange(0, HEAD)
    for start in range(begin, end, BN):
        key = start + tl.arange(0, BN)
        keys = (first + key[:, None]) * HEAD + feature[None, :]
        k = tl.load(k_ptr + keys)
        scores = tl.dot(q, tl.trans(k))
        if MASKED:
            scores = tl.where(key[None, :] <= query[:, None], scores, -float("inf"))
        # The scale is positive, so the maximum can be taken before scaling, as in Triton's
        # tutorial 06.
        above = tl.maximum(highest, tl.max(scores, axis=1) * scale)
        shrink = tl.exp2(highest - above)
        powers = tl.exp2(scores * scale - above[:, None])
        weights = weights * shrink + tl.sum(powers, axis=1)
        v = tl.load(v_ptr + keys)
        total = tl.dot(powers.to(tl.float16), v, total * shrink[:, None])
        highest = above
    return highest, weights, total


@jit
def attention_kernel(
    q_ptr,
    k_ptr,
    v_ptr,
    out_ptr,
    log_sum_ptr,
    scale,
    context,
    BM: tl.constexpr,
    BN: tl.constexpr,
    HEAD: tl.constexpr,
    CAUSAL: tl.constexpr,
):
    first = tl.program_id(1) * context
    query = tl.program_id(0) * BM + tl.arange(0, BM)
    queries = (first + query[:, None]) * HEAD + tl.arange(0, HEAD)[None, :]
    q = tl.load(q_ptr + queries)
    highest = tl.full((BM,), -float("inf"), dtype=tl.float32)
    weights = tl.zeros((BM,), dtype=tl.float32)
    total = tl.zeros((BM, HEAD), dtype=tl.float32)
    seen = context
    if CAUSAL:  # first the keys that all queries of the block attend to, then the masked block
        seen = tl.program_id(0) * BM
    highest, weights, total = attention_blocks(
        q, k_ptr, v_ptr, first, query, 0, seen, scale, highest, weights, total, BN, HEAD, False
    )
    if CAUSAL:
        end = seen + BM
        highest, weights, total = attention_blocks(
            q, k_ptr, v_ptr, first, query, seen, end, scale, highest, weights, total, BN, HEAD, True
        )
    tl.store(out_ptr + queries, (total / weights[:, None]).to(tl.float16))
    # The softmax of a score is 2 ** (score - log_sum).
    tl.store(log_sum_ptr + first + query, highest + tl.log2(weights))


@jit
def sin_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    index = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = index < n
    tl.store(out_ptr + index, tl.sin(tl.load(x_ptr + index, mask=inside)), mask=inside)


# The backward pass of attention recomputes the scores from q, k and `log_sum`, a number per query.


@jit
def out_dot_kernel(out_ptr, dout_ptr, delta_ptr, BM: tl.constexpr, HEAD: tl.constexpr):
    row = tl.program_id(0) * BM + tl.arange(0, BM)
    rows = row[:, None] * HEAD + tl.arange(0, HEAD)[None, :]
    out = tl.load(out_ptr + rows).to(tl.float32)
    dout = tl.load(dout_ptr + rows).to(tl.float32)
    tl.store(delta_ptr + row, tl.sum(out * dout, axis=1))


@jit
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
    BM: tl.constexpr,
    BN: tl.constexpr,
    HEAD: tl.constexpr,
    CAUSAL: tl.constexpr,
):
    first = tl.program_id(1) * context
    key = tl.program_id(0) * BN + tl.arange(0, BN)
    feature = tl.arange(0, HEAD)
    keys = (first + key[:, None]) * HEAD + feature[None, :]
    k = tl.load(k_ptr + keys)
    v = tl.load(v_ptr + keys)
    dk = tl.zeros((BN, HEAD), dtype=tl.float32)
    dv = tl.zeros((BN, HEAD), dtype=tl.float32)
    begin = 0
    if CAUSAL:
        begin = tl.program_id(0) * BN // BM * BM
    for start in range(begin, context, BM):
        query = start + tl.arange(0, BM)
        queries = (first + query[:, None]) * HEAD + feature[None, :]
        q = tl.load(q_ptr + queries)
        # Rows of the scores are keys and columns are queries, so that no dot needs a transpose.
        scores = tl.dot(k, tl.trans(q)) * log2_scale
        if CAUSAL:
            scores = tl.where(key[:, None] <= query[None, :], scores, -float("inf"))
        p = tl.exp2(scores - tl.load(log_sum_ptr + first + query)[None, :])
        dout = tl.load(dout_ptr + queries)
        dv = tl.dot(p.to(tl.float16), dout, dv)
        dp = tl.dot(v, tl.trans(dout))
        ds = p * (dp - tl.load(delta_ptr + first + query)[None, :])
        dk = tl.dot(ds.to(tl.float16), q, dk)
    tl.store(dk_ptr + keys, (dk * scale).to(tl.float16))
    tl.store(dv_ptr + keys, dv.to(tl.float16))


@jit
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
    BM: tl.constexpr,
    BN: tl.constexpr,
    HEAD: tl.constexpr,
    CAUSAL: tl.constexpr,
):
    first = tl.program_id(1) * context
    query = tl.program_id(0) * BM + tl.arange(0, BM)
    feature = tl.arange(0, HEAD)
    queries = (first + query[:, None]) * HEAD + feature[None, :]
    q = tl.load(q_ptr + queries)
    dout = tl.load(dout_ptr + queries)
    log_sum = tl.load(log_sum_ptr + first + query)
    delta = tl.load(delta_ptr + first + query)
    dq = tl.zeros((BM, HEAD), dtype=tl.float32)
    end = context
    if CAUSAL:
        end = (tl.program_id(0) + 1) * BM
    for start in range(0, end, BN):
        key = start + tl.arange(0, BN)
        keys = (first + key[:, None]) * HEAD + feature[None, :]
        k = tl.load(k_ptr + keys)
        scores = tl.dot(q, tl.trans(k)) * log2_scale
        if CAUSAL:
            scores = tl.where(key[None, :] <= query[:, None], scores, -float("inf"))
        p = tl.exp2(scores - log_sum[:, None])
        v = tl.load(v_ptr + keys)
        dp = tl.dot(dout, tl.trans(v))
        ds = p * (dp - delta[:, None])
        dq = tl.dot(ds.to(tl.float16), k, dq)
    tl.store(dq_ptr + queries, (dq * scale).to(tl.float16))
