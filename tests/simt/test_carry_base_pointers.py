"""A matmul of odd strides, whose loop carries one pointer, computes what the others do."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tile
import tile.language as tl


@tile.jit
def matmul(a_ptr, b_ptr, c_ptr, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    columns = tl.program_id(1) * BN + tl.arange(0, BN)
    inner = tl.arange(0, BK)
    a_ptrs = a_ptr + (rows % M)[:, None] * K + inner[None, :]
    b_ptrs = b_ptr + inner[:, None] * N + (columns % N)[None, :]
    total = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(tl.cdiv(K, BK)):
        a = tl.load(a_ptrs, mask=inner[None, :] < K - k * BK, other=0.0)
        b = tl.load(b_ptrs, mask=inner[:, None] < K - k * BK, other=0.0)
        total = tl.dot(a, b, total)
        a_ptrs += BK
        b_ptrs += BK * N
    mask = (rows[:, None] < M) & (columns[None, :] < N)
    tl.store(c_ptr + rows[:, None] * N + columns[None, :], total, mask=mask)


TYPES = {"a_ptr": "*fp16:16", "b_ptr": "*fp16:16", "c_ptr": "*fp32:16"}
TYPES |= dict.fromkeys("MNK", "i32")


def build(target: str) -> Any:
    constants = {"BM": 128, "BN": 128, "BK": 32}
    return tile.compile(matmul, TYPES, constants, {"num_warps": 4, "num_stages": 3}, target)


def test_on_the_simulator() -> None:
    m, n, k = 131, 129, 103
    rng = np.random.default_rng(3)
    a, b = (rng.integers(-4, 5, shape).astype(np.float16) for shape in ((m, k), (k, n)))
    c = np.empty((m, n), np.float32)
    build("interp:wgmma")[2, 2](a, b, c, m, n, k)
    np.testing.assert_array_equal(c, a.astype(np.float32) @ b.astype(np.float32))


def test_the_loop_carries_two_pointers() -> None:
    pytest.importorskip("llvmlite")
    (loop,) = (
        line for line in build("nvptx:sm_90a").asm["thread"].splitlines() if "= for " in line
    )
    assert loop.count("frag<1xptr<f16>>") == 2, loop
    assert "frag<32xptr<f16>>" not in loop


@tile.jit
def transposed(a_ptr, b_ptr, c_ptr, K, B: tl.constexpr):
    m, k = tl.arange(0, B), tl.arange(0, B)
    a_ptrs = a_ptr + m[:, None] * K + k[None, :]
    b_ptrs = b_ptr + m[:, None] * K + k[None, :]
    total = tl.zeros((B, B), dtype=tl.float32)
    for _ in range(tl.cdiv(K, B)):
        a, b = tl.load(a_ptrs), tl.load(b_ptrs)
        total = tl.dot(a, tl.trans(b), total, input_precision="ieee")
        a_ptrs += B
        b_ptrs += B
    tl.store(c_ptr + m[:, None] * B + k[None, :], total)


def test_fma_dots_from_ldmatrix() -> None:
    rng = np.random.default_rng(4)
    a, b = (rng.integers(-4, 5, (32, 64)).astype(np.float32) for _ in range(2))
    types = {"a_ptr": "*fp32:16", "b_ptr": "*fp32:16", "c_ptr": "*fp32:16", "K": "i32:16"}
    c = np.empty((32, 32), np.float32)
    for target in ("interp:mma", "interp:wgmma"):
        tile.compile(transposed, types, {"B": 32}, {"num_warps": 4}, target)[1,](a, b, c, 64)
        np.testing.assert_array_equal(c, a @ b.T)
