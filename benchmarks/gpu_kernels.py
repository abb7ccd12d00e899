"""Kernels for a GPU, one text for this project's compiler and for Triton's.

`benchmarks/gpu.py` loads this file twice: the environment variable TILE_PEER says for which.
"""

from __future__ import annotations

import os

if os.environ.get("TILE_PEER") == "triton":
    import triton as compiler
    import triton.language as tl
else:
    import tile as compiler
    import tile.language as tl

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
def layer_norm_kernel(x_ptr, out_ptr, weight_ptr, bias_ptr, columns, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    column = tl.arange(0, BLOCK)
    inside = column < columns
    x = tl.load(x_ptr + row * columns + column, mask=inside, other=0.0).to(tl.float32)
    mean = tl.sum(x, axis=0) / columns
    centred = tl.where(inside, x - mean, 0.0)
    scale = 1 / tl.sqrt(tl.sum(centred * centred, axis=0) / columns + eps)
    weight = tl.load(weight_ptr + column, mask=inside)
    bias = tl.load(bias_ptr + column, mask=inside)
    out = centred * scale * weight + bias
    tl.store(out_ptr + row * columns + column, out.to(tl.float16), mask=inside)


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
):
    program = tl.program_id(0)
    rows_of_tiles = tl.cdiv(M, BM)
    columns_of_tiles = tl.cdiv(N, BN)
    in_group = GROUP * columns_of_tiles
    first = program // in_group * GROUP
    group = min(rows_of_tiles - first, GROUP)
    tile_row = first + program % in_group % group
    tile_column = program % in_group // group
    rows = (tile_row * BM + tl.arange(0, BM)) % M
    columns = (tile_column * BN + tl.arange(0, BN)) % N
    rows = tl.max_contiguous(tl.multiple_of(rows, BM), BM)
    columns = tl.max_contiguous(tl.multiple_of(columns, BN), BN)
    inner = tl.arange(0, BK)
    a_ptrs = a_ptr + rows[:, None] * K + inner[None, :]
    b_ptrs = b_ptr + inner[:, None] * N + columns[None, :]
    total = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(tl.cdiv(K, BK)):
        a = tl.load(a_ptrs, mask=inner[None, :] < K - k * BK, other=0.0)
        b = tl.load(b_ptrs, mask=inner[:, None] < K - k * BK, other=0.0)
        total = tl.dot(a, b, total)
        a_ptrs += BK
        b_ptrs += BK * N
    row = tile_row * BM + tl.arange(0, BM)
    column = tile_column * BN + tl.arange(0, BN)
    mask = (row[:, None] < M) & (column[None, :] < N)
    tl.store(c_ptr + row[:, None] * N + column[None, :], total.to(tl.float16), mask=mask)


@jit
def attention_kernel(
    q_ptr,
    k_ptr,
    v_ptr,
    out_ptr,
    scale,
    context,
    BM: tl.constexpr,
    BN: tl.constexpr,
    HEAD: tl.constexpr,
):
    first = tl.program_id(1) * context
    query = tl.program_id(0) * BM + tl.arange(0, BM)
    feature = tl.arange(0, HEAD)
    q = tl.load(q_ptr + (first + query[:, None]) * HEAD + feature[None, :])
    highest = tl.full((BM,), -float("inf"), dtype=tl.float32)
    weights = tl.zeros((BM,), dtype=tl.float32)
    total = tl.zeros((BM, HEAD), dtype=tl.float32)
    for start in range(0, context, BN):
        key = start + tl.arange(0, BN)
        k = tl.load(k_ptr + (first + key[:, None]) * HEAD + feature[None, :])
        scores = tl.dot(q, tl.trans(k)) * scale
        above = tl.maximum(highest, tl.max(scores, axis=1))
        shrink = tl.exp2(highest - above)
        powers = tl.exp2(scores - above[:, None])
        weights = weights * shrink + tl.sum(powers, axis=1)
        v = tl.load(v_ptr + (first + key[:, None]) * HEAD + feature[None, :])
        total = tl.dot(powers.to(tl.float16), v, total * shrink[:, None])
        highest = above
    out = (total / weights[:, None]).to(tl.float16)
    tl.store(out_ptr + (first + query[:, None]) * HEAD + feature[None, :], out)
