"""Kernels whose producer warps issue TMA loads of other kinds: each synchronization is needed."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("llvmlite")

import tile
import tile.language as tl
from tests.simt.kernels import Kernel
from tests.simt.synchronization import lowered
from tests.simt.test_tma_im2col import case as convolution
from tests.simt.test_tma_ranks import batched_case
from tests.simt.test_tma_reduce import CASES as REDUCTIONS
from tests.simt.test_warp_specialize import FAULTS
from tile.backends.interp.simulator.thread_kernel import run_threads
from tile.errors import MbarrierError
from tile.simt import ops
from tile.simt.target import WGMMA


@tile.jit
def batched(a_ptr, b_ptr, c_ptr, B, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """A persistent matmul of matrices in an array of three axes."""
    a = tl.make_tensor_descriptor(a_ptr, [B, M, K], [M * K, K, 1], [1, BM, BK])
    b = tl.make_tensor_descriptor(b_ptr, [B, N, K], [N * K, K, 1], [1, BN, BK])
    c = tl.make_tensor_descriptor(c_ptr, [B, M, N], [M * N, N, 1], [1, BM, BN])
    columns = tl.cdiv(N, BN)
    tiles = tl.cdiv(M, BM) * columns
    for number in tl.range(tl.program_id(0), B * tiles, tl.num_programs(0), warp_specialize=True):
        batch, rest = number // tiles, number % tiles
        row, column = rest // columns * BM, rest % columns * BN
        total = tl.zeros((BM, BN), dtype=tl.float32)
        for k in range(0, K, BK):
            x = a.load([batch, row, k]).reshape(BM, BK)
            y = b.load([batch, column, k]).reshape(BN, BK)
            total = tl.dot(x, tl.trans(y), total)
        c.store([batch, row, column], total.to(c.dtype).reshape(1, BM, BN))


def three_axes() -> Kernel:
    case = batched_case(2, 72, 88, 144)
    return Kernel(batched, case.signature, case.constants, (1, 1, 1), case.arguments)


CASES: dict[str, tuple[Kernel, str]] = {
    "three axes": (three_axes(), ""),
    "reductions": (REDUCTIONS["producer"], "reduce"),
    "im2col mode": (convolution((1, 7, 1, 1, 1), c=24, WS=True), ""),
}
KINDS: dict[object, Any] = {**FAULTS, ops.tma.tma_load_im2col: (MbarrierError,)}


@pytest.mark.parametrize("name", CASES)
def test_what_is_missing_is_reported(name: str) -> None:
    case, uses = CASES[name]
    module = lowered(case, WGMMA, 4, 2, tma=uses)
    assert any(op.name == "warp_specialize" for op in module.walk())
    run_threads(module, WGMMA, 4, case.grid, case.arguments())
    kinds = {op.defn for op in module.walk()} & KINDS.keys()
    assert {ops.tma.mbarrier_arrive, ops.tma.mbarrier_wait} <= kinds
    count = sum(op.defn in KINDS for op in module.walk())
    for index in range(count):
        broken = module.clone()
        removed = [op for op in broken.walk() if op.defn in KINDS][index]
        removed.erase()
        with pytest.raises(KINDS[removed.defn]):
            run_threads(broken, WGMMA, 4, case.grid, case.arguments())
