"""Loops for whose dots TMA loads one operand, and threads copy the other, which is gathered."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import tile
import tile.language as tl
from tests.simt.kernels import Kernel, numbers
from tests.simt.synchronization import FAULTS, lowered, synchronizing, without_each
from tile.backends.interp.simulator.thread_kernel import run_threads
from tile.ir.module import Module
from tile.ir.ops import control, memory
from tile.simt.ops import shared
from tile.simt.target import WGMMA

M, N, K = 128, 64, 320


@tile.jit
def gathered(
    a_ptr, b_ptr, c_ptr, rows_ptr, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
    LATE: tl.constexpr,
):  # fmt: skip
    """A matmul of rows of a by number; LATE: the loop loads the numbers."""
    row, column = tl.program_id(0) * BM + tl.arange(0, BM), tl.arange(0, BN)
    source = tl.load(rows_ptr + row)
    total = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, K, BK):
        inner = k + tl.arange(0, BK)
        if LATE:
            source = tl.load(rows_ptr + row + k * 0)
        a = tl.load(a_ptr + source[:, None] * K + inner[None, :])
        b = tl.load(b_ptr + column[None, :] * K + inner[:, None])
        total = tl.dot(a, b, total)
    tl.store(c_ptr + row[:, None] * N + column[None, :], total.to(tl.float16))


def case(bk: int, *, late: bool = False) -> Kernel:
    def arguments() -> list[Any]:
        a, b = numbers(M, K, dtype=np.float16, seed=1), numbers(N, K, dtype=np.float16, seed=2)
        rows = np.random.default_rng(3).permutation(M).astype(np.int32)
        return [a, b, np.zeros((M, N), np.float16), rows, np.int32(N), np.int32(K)]

    signature = {**dict.fromkeys(("a_ptr", "b_ptr", "c_ptr"), "*fp16:16"), "rows_ptr": "*i32:16"}
    signature |= dict.fromkeys("NK", "i32:16")
    constants = {"BM": 64, "BN": N, "BK": bk, "LATE": late}
    return Kernel(gathered, signature, constants, (M // 64, 1, 1), arguments)


def copies(module: Module) -> tuple[bool, bool]:
    """Return if TMA and if cp.async copies tiles."""
    names = {op.name for op in module.walk()}
    return "tma_load" in names, "shared_cp_async" in names


def run(module: Module, kernel: Kernel) -> Any:
    arguments = kernel.arguments()
    run_threads(module, WGMMA, 4, kernel.grid, arguments)
    return arguments[2]


def test_results_and_removals() -> None:
    kernel = case(64)
    module = lowered(kernel, WGMMA, 4, 3)
    assert copies(module) == (True, True)
    plain = lowered(kernel, WGMMA, 4, 3, tma="")
    assert copies(plain) == (False, True)
    result = run(module, kernel)
    np.testing.assert_array_equal(result, run(plain, kernel))
    a, b, _, rows, *_ = kernel.arguments()
    np.testing.assert_allclose(
        np.float32(result), np.float32(a)[rows] @ np.float32(b).T, rtol=1e-2, atol=0.05
    )
    (loop,) = (op for op in module.walk() if op.defn is control.for_)
    # The wait and the barrier after the loop are for copies, of iterations that do not exist.
    idle = [op.block is loop.block and loop.is_before(op) for op in synchronizing(module)]
    for late, (removed, broken) in zip(idle, without_each(module), strict=True):
        if not (late and removed.defn in (shared.cp_async_wait_group, memory.barrier)):
            with pytest.raises(FAULTS[removed.defn]):
                run(broken, kernel)


@pytest.mark.parametrize(("bk", "late"), [(32, False), (64, True)])
def test_kernels_that_stay(bk: int, *, late: bool) -> None:
    """32 bytes of b for each of 128 threads are few; an address may depend on the loop's loads."""
    kernel = case(bk, late=late)
    module = lowered(kernel, WGMMA, 4, 3)
    assert copies(module) == (False, True)
    result = run(module, kernel)
    np.testing.assert_array_equal(result, run(lowered(kernel, WGMMA, 4, 3, tma=""), kernel))


def barriers_in_loop(module: Module) -> int:
    return sum(op.defn is memory.barrier and op.in_loop for op in module.walk())


def test_copies_in_front_of_wgmmas_need_one_barrier() -> None:
    """With six stages; with five, the stage that copies fill has just been read."""
    kernel = replace(case(16), grid=(1, 1, 1))
    module, fewer = (lowered(kernel, WGMMA, 4, stages, tma="") for stages in (6, 5))
    assert (barriers_in_loop(module), barriers_in_loop(fewer)) == (1, 2)
    result = run(module, kernel)
    np.testing.assert_array_equal(result, run(fewer, kernel))
    for removed, broken in without_each(module):
        with pytest.raises(FAULTS[removed.defn]):
            run(broken, kernel)
