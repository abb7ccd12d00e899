"""Assumptions about indices decide the width of the accesses, down to the instruction."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tile
import tile.language as tl
from tile.backends.interp.simulator.thread_kernel import run_threads
from tile.ir.module import Module
from tile.simt.target import TARGETS


@tile.jit
def nothing(pid_m, pid_n):
    pass


@tile.jit
def each(pid_m, pid_n):
    tl.assume(pid_m >= 0)
    tl.assume(pid_n >= 0)


@tile.jit
def both(pid_m, pid_n):
    tl.assume((pid_m >= 0) & (-1 < pid_n))


@tile.jit
def joined(pid_m, pid_n):
    tl.assume(pid_m >= 0 and pid_n > -1)


@tile.jit
def chained(pid_m, pid_n):
    tl.assume(0 <= pid_m < 1024)
    tl.assume(not pid_n < 0)


@tile.jit
def widened(pid_m, pid_n):
    tl.assume(pid_m.to(tl.int64) >= 0)
    tl.assume(pid_n.to(tl.int64) >= 0)


@tile.jit
def related(pid_m, pid_n):
    tl.assume(pid_m >= 0)
    tl.assume(pid_n >= pid_m)


@tile.jit
def matmul(
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
    ASSUME: tl.constexpr,
):
    """The dot as tutorials write it, with programs in groups; matrices are stored by rows.

    A is read by columns of a square, so that both of its indices matter.
    """
    pid = tl.program_id(0)
    in_group = GROUP * tl.cdiv(N, BN)
    first = pid // in_group * GROUP
    group = min(tl.cdiv(M, BM) - first, GROUP)
    pid_m = first + pid % in_group % group
    pid_n = pid % in_group // group
    ASSUME(pid_m, pid_n)
    rows = (pid_m * BM + tl.arange(0, BM)) % M
    columns = (pid_n * BN + tl.arange(0, BN)) % N
    k = tl.arange(0, BK)
    a_ptrs = a_ptr + k[None, :] * M + rows[:, None]
    b_ptrs = b_ptr + k[:, None] * N + columns[None, :]
    total = tl.zeros((BM, BN), dtype=tl.float32)
    for left in range(K, 0, -BK):
        a = tl.load(a_ptrs, mask=k[None, :] < left, other=0.0)
        b = tl.load(b_ptrs, mask=k[:, None] < left, other=0.0)
        total = tl.dot(a, b, total)
        a_ptrs += BK * M
        b_ptrs += BK * N
    row = pid_m * BM + tl.arange(0, BM)
    column = pid_n * BN + tl.arange(0, BN)
    inside = (row[:, None] < M) & (column[None, :] < N)
    tl.store(c_ptr + row[:, None] * N + column[None, :], total, mask=inside)


BLOCKS = {"BM": 32, "BN": 64, "BK": 32, "GROUP": 2}


def threads(assume: Any) -> Module:
    """The dot for threads of a machine with asynchronous copies."""
    types = {"a_ptr": "*fp16:16", "b_ptr": "*fp16:16", "c_ptr": "*fp32:16"}
    types |= dict.fromkeys("MNK", "i32:16")
    constants = {**BLOCKS, "ASSUME": assume}
    module: Module = tile.compile(
        matmul, types, constants, {"num_warps": 4}, "interp:mma"
    ).artifact.module
    return module


@pytest.mark.parametrize(
    "assume", [each, both, joined, chained, widened, related], ids=lambda f: f.__name__
)
def test_loads_by_remainders_are_wide(assume: Any) -> None:
    """16 bytes at once: 8 elements of f16."""
    vectors = [op["vector"] for op in threads(assume).walk() if op.name == "shared_cp_async"]
    assert vectors
    assert set(vectors) == {8}


def test_an_index_that_may_be_negative_has_no_facts() -> None:
    module = threads(nothing)
    assert not any(op.name == "shared_cp_async" for op in module.walk())
    vectors = [op["vector"] for op in module.walk() if op.name == "load"]
    assert set(vectors) == {1}


@tile.jit
def rows(x_ptr, y_ptr, N, M: tl.constexpr, COLUMNS: tl.constexpr, MULTIPLE: tl.constexpr):
    if MULTIPLE:
        tl.assume(N % MULTIPLE == 0)
    row = tl.program_id(0) * M + tl.arange(0, M)[:, None]
    column = tl.arange(0, COLUMNS)[None, :]
    inside = column < N
    x = tl.load(x_ptr + row * N + column, mask=inside)
    tl.store(y_ptr + row * N + column, x, mask=inside)


@pytest.mark.parametrize(("multiple", "vector"), [(0, 1), (1, 1), (4, 4), (8, 8), (24, 8), (64, 8)])
def test_rows_of_an_assumed_length_are_read_wide(multiple: int, vector: int) -> None:
    """A length that is not known to be a multiple of 16, as one of 1000 is not."""
    types = {"x_ptr": "*fp16:16", "y_ptr": "*fp16:16", "N": "i32"}
    constants = {"M": 4, "COLUMNS": 1024, "MULTIPLE": multiple}
    compiled = tile.compile(rows, types, constants, {"num_warps": 4}, "interp:mma")
    module: Module = compiled.artifact.module
    vectors = {op["vector"] for op in module.walk() if op.name in ("load", "store")}
    assert vectors == {vector}
    columns = 960
    x = np.random.default_rng(0).standard_normal((8, columns)).astype(np.float16)
    y = np.zeros_like(x)
    run_threads(module, TARGETS["mma"], 4, (2, 1, 1), [x, y, np.int32(columns)])
    np.testing.assert_array_equal(x, y)


def test_the_dot_is_right() -> None:
    m, n, k = 48, 80, 64
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-4, 5, shape).astype(np.float16) for shape in ((k, m), (k, n)))
    c = np.zeros((m, n), np.float32)
    grid = (-(-m // BLOCKS["BM"]) * -(-n // BLOCKS["BN"]), 1, 1)
    sizes = [np.int32(size) for size in (m, n, k)]
    run_threads(threads(each), TARGETS["mma"], 4, grid, [a, b, c, *sizes])
    np.testing.assert_array_equal(c, a.T.astype(np.float32) @ b.astype(np.float32))
