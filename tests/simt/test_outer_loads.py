"""Loads of a loop around, for the wgmmas of its inner loops, which a producer issues."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tile
import tile.language as tl
from tests.simt.kernels import Kernel, numbers
from tests.simt.synchronization import lowered
from tests.simt.test_warp_specialize import FAULTS
from tile.backends.interp.simulator.thread_kernel import run_threads
from tile.ir.core import Operation
from tile.ir.module import Module
from tile.simt.ops import tma
from tile.simt.ops.warp_specialize import warp_specialize
from tile.simt.target import WGMMA

TILES, KEYS, SIZE = 3, 192, 64


@tile.jit
def weighted(
    q_ptr, k_ptr, sums_ptr, out_ptr, tiles, keys, SIZE: tl.constexpr, USE: tl.constexpr
):  # fmt: skip
    """Sums of keys, weighted by the powers of their scores, for the queries of each tile."""
    q_source = tl.make_tensor_descriptor(q_ptr, [tiles * 64, SIZE], [SIZE, 1], [64, SIZE])
    k_source = tl.make_tensor_descriptor(k_ptr, [keys, SIZE], [SIZE, 1], [64, SIZE])
    for at in tl.range(tl.program_id(0), tiles, tl.num_programs(0), warp_specialize=True):
        row = at
        if USE == "loaded":
            row = tl.load(sums_ptr + at).to(tl.int32)
        q = q_source.load([row * 64, 0])
        total = tl.zeros((64, SIZE), tl.float32)
        for key in range(0, keys, 64):
            k = k_source.load([key, 0])
            p = tl.exp2(tl.dot(q, tl.trans(k)))
            total = tl.dot(p.to(tl.float16), k, total)
        if USE == "other":
            total += q
        rows = (at * 64 + tl.arange(0, 64))[:, None] * SIZE + tl.arange(0, SIZE)[None, :]
        tl.store(out_ptr + rows, total)


def case(use: str = "", programs: int = 2) -> Kernel:
    def arguments() -> list[Any]:
        q = numbers(TILES * 64, SIZE, dtype=np.float16, seed=1) / 8
        k = numbers(KEYS, SIZE, dtype=np.float16, seed=2)
        order = np.arange(TILES, dtype=np.float32)
        sizes = (np.int32(TILES), np.int32(KEYS))
        return [q, k, order, np.zeros((TILES * 64, SIZE), np.float32), *sizes]

    signature = {"q_ptr": "*fp16:16", "k_ptr": "*fp16:16", "sums_ptr": "*fp32:16"}
    signature |= {"out_ptr": "*fp32:16", "tiles": "i32", "keys": "i32:16"}
    return Kernel(weighted, signature, {"SIZE": SIZE, "USE": use}, (programs, 1, 1), arguments)


def result(module: Module, kernel: Kernel) -> np.ndarray:
    arguments = kernel.arguments()
    run_threads(module, WGMMA, 4, kernel.grid, arguments)
    return arguments[3]


def producer_loads(module: Module) -> int:
    """The number of TMA loads in the text of the producer."""
    (partition,) = [op for op in module.walk() if op.defn is warp_specialize]
    return sum(op.defn is tma.tma_load for op in partition.walk())


@pytest.mark.parametrize(("use", "loads"), [("", 2), ("other", 1), ("loaded", 2)])
@pytest.mark.parametrize("stages", [2, 3])
def test_results(use: str, loads: int, stages: int) -> None:
    """A tile with other users is loaded by the program."""
    kernel = case(use)
    module = lowered(kernel, WGMMA, 4, stages)
    assert producer_loads(module) == loads
    q, k, *_ = (x.astype(np.float64) for x in kernel.arguments())
    expected = np.exp2(q @ k.T) @ k + (q if use == "other" else 0)
    np.testing.assert_allclose(result(module, kernel), expected, rtol=4e-3, atol=0.05)


def test_no_tile() -> None:
    kernel = case(programs=TILES + 1)
    q, k, *_ = (x.astype(np.float64) for x in kernel.arguments())
    module = lowered(kernel, WGMMA, 4, 2)
    np.testing.assert_allclose(result(module, kernel), np.exp2(q @ k.T) @ k, rtol=4e-3, atol=0.05)


def test_what_is_missing_is_reported() -> None:
    kernel = case(programs=1)
    module = lowered(kernel, WGMMA, 4, 2)

    def checked(module: Module) -> list[Operation]:
        return [op for op in module.walk() if op.defn in FAULTS]

    for index in range(len(checked(module))):
        broken = module.clone()
        removed = checked(broken)[index]
        removed.erase()
        with pytest.raises(FAULTS[removed.defn]):
            result(broken, kernel)
