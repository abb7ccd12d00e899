"""Dots that become transposes of dots whose `a` operand threads load from an MN-major buffer."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import tile
import tile.language as tl
from tests.simt.kernels import KERNELS, Kernel, numbers
from tests.simt.synchronization import FAULTS, lowered, without_each
from tests.simt.test_warp_specialize import FAULTS as PRODUCER_FAULTS
from tile.backends.interp.simulator.thread_kernel import run_threads
from tile.ir.module import Module
from tile.ir.shared_type import Shared
from tile.simt.ops import wgmma
from tile.simt.target import WGMMA

PLAIN = replace(WGMMA, tuning=replace(WGMMA.tuning, transposed_dots=False))


@tile.jit
def persistent_kernel(
    a_ptr, b_ptr, bias_ptr, c_ptr, M, N, K, a_row, a_inner, b_inner, b_column,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    columns = tl.cdiv(N, BN)
    inner = tl.arange(0, BK)
    for number in tl.range(tl.program_id(0), tl.cdiv(M, BM) * columns, tl.num_programs(0)):
        row = number // columns * BM + tl.arange(0, BM)
        column = number % columns * BN + tl.arange(0, BN)
        total = tl.zeros((BM, BN), dtype=tl.float32)
        for half in range(2):
            for k in range(half * K // 2, (half + 1) * K // 2, BK):
                a = tl.load(a_ptr + row[:, None] * a_row + (k + inner)[None, :] * a_inner)
                b = tl.load(b_ptr + (k + inner)[:, None] * b_inner + column[None, :] * b_column)
                total = tl.dot(a, b, total, input_precision="tf32")
        total += tl.load(bias_ptr + column)[None, :]
        tl.store(c_ptr + row[:, None] * N + column[None, :], total)


@tile.jit
def persistent_blocks(
    a_ptr, b_ptr, c_ptr, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr
):
    a = tl.make_tensor_descriptor(a_ptr, [M, K], [K, 1], [BM, BK])
    b = tl.make_tensor_descriptor(b_ptr, [K, N], [N, 1], [BK, BN])
    columns = tl.cdiv(N, BN)
    for number in tl.range(tl.program_id(0), tl.cdiv(M, BM) * columns, tl.num_programs(0)):
        row, column = number // columns * BM, number % columns * BN
        total = tl.zeros((BM, BN), dtype=tl.float32)
        for k in range(0, K, BK):
            total = tl.dot(a.load([row, k]), b.load([k, column]), total, input_precision="tf32")
        rows, cols = row + tl.arange(0, BM), column + tl.arange(0, BN)
        tl.store(c_ptr + rows[:, None] * N + cols[None, :], total)


@tile.jit
def ragged(a_ptr, b_ptr, c_ptr, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    rows = tl.program_id(0) * BM + tl.arange(0, BM)[:, None]
    columns = tl.program_id(1) * BN + tl.arange(0, BN)[None, :]
    total = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, K, BK):
        inner = k + tl.arange(0, BK)
        a_in, b_in = (rows < M) & (inner < K)[None, :], (inner < K)[:, None] & (columns < N)
        a = tl.load(a_ptr + rows * K + inner[None, :], mask=a_in, other=0.0)
        b = tl.load(b_ptr + inner[:, None] * N + columns, mask=b_in, other=0.0)
        total = tl.dot(a, b, total, input_precision="tf32")
    total += tl.maximum(total, 0.0)
    tl.store(c_ptr + rows * N + columns, total, mask=(rows < M) & (columns < N))


M, N, K = 128, 64, 128
BLOCKS = Kernel(
    persistent_blocks,
    {
        **dict.fromkeys(("a_ptr", "b_ptr", "c_ptr"), "*fp32:16"),
        **dict.fromkeys(("M", "N", "K"), "i32:16"),
    },
    {"BM": 64, "BN": 64, "BK": 32},
    (1, 1, 1),
    lambda: [
        numbers(M, K),
        numbers(K, N, seed=1),
        np.zeros((M, N), np.float32),
        *[np.int32(size) for size in (M, N, K)],
    ],
)


def persistent(a_by_rows: bool, b_by_rows: bool) -> Kernel:
    """A kernel for matrices of some major orders; strides of 1 are constants."""
    a_strides = ("i32:16", "1") if a_by_rows else ("1", "i32:16")
    b_strides = ("i32:16", "1") if b_by_rows else ("1", "i32:16")
    names = [p.name for p in persistent_kernel.parameters if not p.is_constexpr]
    types = ["*fp32:16"] * 4 + ["i32:16"] * 3 + [*a_strides, *b_strides]
    strides = {"a_row": K, "a_inner": 1, "b_inner": N, "b_column": 1}
    if not a_by_rows:
        strides |= {"a_row": 1, "a_inner": M}
    if not b_by_rows:
        strides |= {"b_inner": 1, "b_column": K}
    signature = {name: ty for name, ty in zip(names, types, strict=True) if ty != "1"}
    ones = {name: 1 for name, ty in zip(names, types, strict=True) if ty == "1"}

    def arguments() -> list[Any]:
        arrays = [numbers(M * K), numbers(K * N, seed=1), numbers(N, seed=2)]
        sizes = [np.int32(size) for size in (M, N, K)]
        others = [np.int32(value) for name, value in strides.items() if name not in ones]
        return [*arrays, np.zeros((M, N), np.float32), *sizes, *others]

    constants = {"BM": 64, "BN": 64, "BK": 32, **ones}
    return Kernel(persistent_kernel, signature, constants, (1, 1, 1), arguments)


def operands(module: Module) -> set[tuple[bool, ...]]:
    """Say of each wgmma's operands if they are in shared memory."""
    dots = [op for op in module.walk() if op.defn is wgmma.wgmma]
    return {tuple(isinstance(x.type, Shared) for x in op.inputs[:2]) for op in dots}


def run(kernel: Kernel, module: Module, target: Any, result: int) -> Any:
    arguments = kernel.arguments()
    run_threads(module, target, 4, kernel.grid, arguments)
    return arguments[result]


@pytest.mark.parametrize("a_by_rows", [True, False])
@pytest.mark.parametrize("b_by_rows", [True, False])
def test_major_orders(a_by_rows: bool, b_by_rows: bool) -> None:
    """Through loops in loops, which carry the transposed accumulator."""
    kernel = persistent(a_by_rows, b_by_rows)
    module = lowered(kernel, WGMMA, 4, 3)
    in_registers = a_by_rows == b_by_rows or not a_by_rows
    assert operands(module) == {(not in_registers, True)}
    result = run(kernel, module, WGMMA, 3)
    a, b, bias = kernel.arguments()[:3]
    a = a.reshape(M, K) if a_by_rows else a.reshape(K, M).T
    b = b.reshape(K, N) if b_by_rows else b.reshape(N, K).T
    np.testing.assert_allclose(result, a @ b + bias, rtol=1e-2, atol=1e-1)


def test_nothing_is_stored_again() -> None:
    """The loop waits for the copies only, and its dots stay in flight into the next iteration."""
    kernel = KERNELS["matmul_tf32"]
    plain, transposed = (lowered(kernel, target, 4, 3) for target in (PLAIN, WGMMA))
    assert operands(plain) == {(True, True)}
    assert operands(transposed) == {(False, True)}
    waits = [op["pending"] for op in transposed.walk() if op.defn is wgmma.wgmma_wait]
    assert waits == [0, 0]  # before the registers of the operand are written
    result, expected = run(kernel, transposed, WGMMA, 2), run(kernel, plain, PLAIN, 2)
    np.testing.assert_allclose(result, expected, rtol=1e-2, atol=1e-1)


def test_each_wait_is_needed() -> None:
    """Both operands are copied by TMA."""
    kernel = KERNELS["matmul_tf32"]
    module = lowered(kernel, WGMMA, 4, 3)
    assert not any(op.name == "shared_cp_async" for op in module.walk())
    for removed, broken in without_each(module):
        with pytest.raises(FAULTS[removed.defn]):
            run(kernel, broken, WGMMA, 2)


@pytest.mark.parametrize("stages", [2, 3])
def test_a_producer_issues_both_operands(stages: int) -> None:
    """Its program reads one of them by threads; each wait and arrive is needed."""
    module = lowered(BLOCKS, WGMMA, 4, stages)
    assert any(op.name == "warp_specialize" for op in module.walk())
    assert operands(module) == {(False, True)}
    a, b = BLOCKS.arguments()[:2]
    np.testing.assert_allclose(run(BLOCKS, module, WGMMA, 2), a @ b, rtol=1e-2, atol=1e-1)
    count = sum(op.defn in PRODUCER_FAULTS for op in module.walk())
    for index in range(count):
        broken = module.clone()
        removed = [op for op in broken.walk() if op.defn in PRODUCER_FAULTS][index]
        removed.erase()
        with pytest.raises(PRODUCER_FAULTS[removed.defn]):
            run(BLOCKS, broken, WGMMA, 2)


@pytest.mark.parametrize(("m", "n", "k"), [(70, 100, 50), (130, 72, 33)])
@pytest.mark.parametrize(("rows", "columns", "warps"), [(64, 64, 4), (128, 64, 8), (64, 128, 8)])
def test_ragged_edges(m: int, n: int, k: int, rows: int, columns: int, warps: int) -> None:
    a, b, c = numbers(m, k), numbers(k, n, seed=1), np.zeros((m, n), np.float32)
    with tile.backend("interp:wgmma"):
        ragged[(tile.cdiv(m, rows), tile.cdiv(n, columns))](
            a, b, c, m, n, k, BM=rows, BN=columns, BK=32, num_warps=warps, num_stages=3
        )
    product = a @ b
    np.testing.assert_allclose(c, product + np.maximum(product, 0), rtol=1e-2, atol=1e-1)
