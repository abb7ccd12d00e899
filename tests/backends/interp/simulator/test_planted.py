"""Remove any barrier or wait from a compiled kernel, and the simulator reports a fault.

This shows that the simulator detects the faults that matter, and that no barrier is redundant.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tile
import tile.language as tl
from tile.backends.interp.simulator.thread_kernel import run_threads
from tile.errors import CopyInFlightError, RaceError
from tile.ir.module import Module
from tile.simt.target import TARGETS

KINDS = {"barrier": RaceError, "cp_async_wait_group": CopyInFlightError}


@tile.jit
def ranked(x_ptr, o_ptr, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i)
    tl.store(o_ptr + i, tl.sort(x) + tl.cumsum(x, 0) / tl.sum(x, 0))


@tile.jit
def matmul(a_ptr, b_ptr, c_ptr, n, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    rm = tl.program_id(0) * BM + tl.arange(0, BM)[:, None]
    rn = tl.program_id(1) * BN + tl.arange(0, BN)[None, :]
    rk = tl.arange(0, BK)
    acc = tl.zeros((BM, BN), tl.float32)
    for k in range(0, n, BK):
        a = tl.load(a_ptr + rm * n + (rk + k)[None, :])
        b = tl.load(b_ptr + (rk + k)[:, None] * n + rn)
        acc += tl.dot(a, b)
    tl.store(c_ptr + rm * n + rn, acc)


@tile.jit
def transposed_in_buffer(x_ptr, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i)
    tl.store(x_ptr + BLOCK - 1 - i, x)


def lowered(kernel: Any, target: str, *arguments: Any, **constants: Any) -> Module:
    """The THREAD IR of a kernel."""
    with tile.backend(f"interp:{target}"):
        module: Module = kernel.warmup(*arguments, **constants).artifact.module
    return module


def check(module: Module, target: str, arguments: list[Any]) -> int:
    """Run a kernel without each barrier or wait, one at a time; return how many there are."""
    run_threads(module, TARGETS[target], 4, (1, 1, 1), arguments)
    count = sum(op.name in KINDS for op in module.walk())
    for number in range(count):
        planted = module.clone()
        op = [op for op in planted.walk() if op.name in KINDS][number]
        error = KINDS[op.name]
        op.erase()
        with pytest.raises(error):
            run_threads(planted, TARGETS[target], 4, (1, 1, 1), arguments)
    return count


@pytest.mark.parametrize("target", ["plain", "generic", "warp64"])
def test_sorting_and_summing(target: str) -> None:
    x = np.random.default_rng(0).random(256).astype(np.float32)
    arguments = [x, np.zeros_like(x)]
    assert check(lowered(ranked, target, *arguments, BLOCK=256), target, arguments) >= 3


@pytest.mark.parametrize("target", ["generic", "cp_async", "mma"])
def test_matmul(target: str) -> None:
    rng = np.random.default_rng(0)
    a, b = (rng.random((128, 128)).astype(np.float16) for _ in range(2))
    arguments = [a, b, np.zeros((128, 128), np.float32)]
    module = lowered(matmul, target, *arguments, 128, BM=64, BN=64, BK=32)
    assert check(module, target, [*arguments, np.int32(128)]) >= 3


def test_global_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILE_INTERP_RACES", "1")
    x = np.arange(256, dtype=np.float32)
    module = lowered(transposed_in_buffer, "generic", x, BLOCK=256)
    assert check(module, "generic", [x]) == 1


def test_threads_that_copy_a_tile_smaller_than_the_program() -> None:
    """Several threads hold each element, and one of them copies it; if all do, it is reported."""
    n, block = 32, 16
    a, b = (
        np.random.default_rng(seed).integers(0, 9, (n, n)).astype(np.float32) for seed in (0, 1)
    )
    c = np.zeros((n, n), np.float32)
    arguments = [a, b, c, np.int32(n)]
    module = lowered(matmul, "cp_async", a, b, c, n, BM=block, BN=block, BK=block, num_warps=16)
    run_threads(module, TARGETS["cp_async"], 16, (2, 2, 1), arguments)
    np.testing.assert_array_equal(c, a @ b)
    copies = [op for op in module.walk() if op.name == "shared_cp_async"]
    assert copies
    for number in range(len(copies)):
        planted = module.clone()
        op = [op for op in planted.walk() if op.name == "shared_cp_async"][number]
        assert op["active"] is not None
        op.set_operand(4, None)
        with pytest.raises(RaceError, match="copies to one shared-memory address from several"):
            run_threads(planted, TARGETS["cp_async"], 16, (1, 1, 1), arguments)
