"""Clusters of two programs in the simulator: multicast loads, and that each operation is needed."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import tile
import tile.language as tl
from tests.simt.kernels import Kernel, numbers
from tests.simt.test_warp_specialize import EARLY, F16, attention, operations, persistent, product
from tile.backends.interp.simulator.thread_kernel import run_threads
from tile.errors import DeadlockError, ExecutionError, MbarrierError, RaceError
from tile.ir.module import Module
from tile.ir.ops import memory
from tile.simt import ops
from tile.simt.ops.layout_inference import LayoutBuilder
from tile.simt.pass_pipeline import lower
from tile.simt.target import WGMMA


@tile.jit
def grouped(
    a_ptr,
    b_ptr,
    c_ptr,
    M,
    N,
    K,
    programs,
    BM: tl.constexpr,
    BN: tl.constexpr,
    BK: tl.constexpr,
    GROUP: tl.constexpr = 2,
):
    """Tiles in groups of rows, so that adjacent programs have the same columns of B."""
    a = tl.make_tensor_descriptor(a_ptr, [M, K], [K, 1], [BM, BK])
    b = tl.make_tensor_descriptor(b_ptr, [K, N], [N, 1], [BK, BN])
    c = tl.make_tensor_descriptor(c_ptr, [M, N], [N, 1], [BM, BN])
    rows, columns = tl.cdiv(M, BM), tl.cdiv(N, BN)
    for number in tl.range(tl.program_id(0), rows * columns, programs):
        first = number // (GROUP * columns) * GROUP
        height = min(rows - first, GROUP)
        row = (first + number % (GROUP * columns) % height) * BM
        column = number % (GROUP * columns) // height * BN
        total = tl.zeros((BM, BN), dtype=tl.float32)
        for k in range(0, K, BK):
            total = tl.dot(a.load([row, k]), b.load([k, column]), total)
        c.store([row, column], total.to(c.dtype))


@tile.jit
def one_tile(
    a_ptr, b_ptr, c_ptr, M, N, K, programs, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr
):
    """A tile for each program; those with the same columns of B are adjacent."""
    a = tl.make_tensor_descriptor(a_ptr, [M, K], [K, 1], [BM, BK])
    b = tl.make_tensor_descriptor(b_ptr, [K, N], [N, 1], [BK, BN])
    c = tl.make_tensor_descriptor(c_ptr, [M, N], [N, 1], [BM, BN])
    rows = tl.cdiv(M, BM)
    row, column = tl.program_id(0) % rows * BM, tl.program_id(0) // rows * BN
    total = tl.zeros((BM, BN), dtype=tl.float32)
    for k in tl.range(0, K, BK, warp_specialize=True):
        total = tl.dot(a.load([row, k]), b.load([k, column]), total)
    c.store([row, column], total.to(c.dtype))


def gemm(kernel: Any, grid: int, shape: tuple[int, int, int]) -> Kernel:
    m, n, k = shape
    sizes = {**dict.fromkeys("MNK", "i32:16"), "programs": "i32"}

    def arguments() -> list[Any]:
        a = numbers(m, k, dtype=np.float16)
        b = numbers(k, n, dtype=np.float16, seed=1)
        return [a, b, np.zeros((m, n), np.float16), *map(np.int32, (m, n, k, grid))]

    return Kernel(kernel, {**F16, **sizes}, {"BM": 64, "BN": 64, "BK": 32}, (grid, 1, 1), arguments)


def lowered(case: Kernel, stages: int = 2, **options: Any) -> Module:
    module: Module = case.compile("interp").artifact.module.clone()
    lower(module, WGMMA, num_warps=4, num_stages=stages, num_ctas=2, **options)
    return module


def run(case: Kernel, module: Module, arguments: list[Any] | None = None) -> None:
    run_threads(module, WGMMA, 4, case.grid, arguments or case.arguments(), num_ctas=2)


@pytest.mark.parametrize("kernel", [grouped, persistent, one_tile])
@pytest.mark.parametrize(
    ("shape", "programs", "stages"),
    [
        ((256, 128, 160), 2, 3),
        ((192, 192, 96), 2, 2),  # 9 tiles: one program is alone in the last iteration
        ((320, 64, 64), 4, 3),  # 5 tiles of 4 programs
        ((192, 64, 96), 3, 3),  # no clusters
        ((64, 64, 128), 2, 4),  # a program without a tile
        ((128, 64, 0), 2, 3),  # no iteration
    ],
)
def test_results(kernel: Any, shape: tuple[int, int, int], programs: int, stages: int) -> None:
    m, n, k = shape
    a = numbers(m, k or 8, dtype=np.float16)[:, :k]
    b = numbers(k or 8, n, dtype=np.float16, seed=1)[:k]
    c = np.full((m, n), 7, np.float16)
    sizes = {"BM": 64, "BN": 64, "BK": 32}
    grid = m // 64 * (n // 64) if kernel is one_tile else programs
    with tile.backend("interp:wgmma"):
        compiled = kernel[(grid,)](
            *map(np.ascontiguousarray, (a, b)), c, m, n, k, programs, **sizes, num_warps=4,
            num_stages=stages, num_ctas=2,
        )  # fmt: skip
    assert compiled.asm["thread"].count("tma_load_multicast") == 2
    np.testing.assert_allclose(c.astype(np.float32), product(a, b), atol=0.04)


@pytest.mark.parametrize(
    ("kernel", "halves_of_a", "halves_of_b"),
    [(grouped, 0, 16), (persistent, 16, 0)],
)
def test_what_both_load_is_multicast(
    kernel: Any, halves_of_a: int, halves_of_b: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two programs have 2 tiles of 4 iterations each, in rows or columns that are adjacent."""
    from tile.backends.interp.simulator.mbarriers import Mbarriers

    loads: dict[str, int] = {}

    def count(self: Any, use: Any, *rest: Any) -> None:
        name = use.op["ptr"].name
        loads[name] = loads.get(name, 0) + len(use.programs)
        original(self, use, *rest)

    original = Mbarriers.start_load_at_peers
    monkeypatch.setattr(Mbarriers, "start_load_at_peers", count)
    case = gemm(kernel, 2, (128, 128, 128))
    run(case, lowered(case))
    assert (loads.get("a_ptr", 0), loads.get("b_ptr", 0)) == (halves_of_a, halves_of_b)


PEER = (RaceError, MbarrierError, DeadlockError)
FAULTS: dict[object, tuple[type[ExecutionError], ...]] = {
    ops.tma.mbarrier_init: (MbarrierError,),
    ops.tma.mbarrier_arrive_expect_tx: (MbarrierError,),
    ops.tma.mbarrier_wait: EARLY,
    ops.tma.tma_load: (MbarrierError,),
    ops.cluster.tma_load_multicast: (MbarrierError,),
    ops.cluster.mbarrier_arrive_pair: (MbarrierError,),
    ops.cluster.cluster_arrive: PEER,
    ops.cluster.cluster_wait: PEER,
    ops.wgmma.fence_proxy_async: (RaceError,),
    memory.barrier: (RaceError,),
}


@pytest.mark.parametrize("stages", [2, 3])
@pytest.mark.parametrize(("kernel", "rows"), [(grouped, 256), (one_tile, 128)])
def test_what_is_missing_is_reported(kernel: Any, rows: int, stages: int) -> None:
    """Each arrive, wait, expect, barrier, fence and load is needed that runs."""
    case = gemm(kernel, 2, (rows, 64, 256))
    module = lowered(case, stages)
    arguments = case.arguments()
    run(case, module, arguments)
    np.testing.assert_allclose(arguments[2].astype(np.float32), product(*arguments[:2]), atol=0.04)
    removed = 0
    for index in range(sum(op.defn in FAULTS for op in module.walk())):
        broken = module.clone()
        op = [op for op in broken.walk() if op.defn in FAULTS][index]
        if never_runs(op):
            continue
        removed += 1
        op.erase()
        with pytest.raises(FAULTS[op.defn]) as raised:
            run(case, broken)
        assert raised.value.loc is not None
    assert removed > 12


def never_runs(op: Any) -> bool:
    """A whole block of B, or half a block of A: the programs share columns, not rows."""
    kinds = {ops.tma.tma_load: "b_ptr", ops.cluster.tma_load_multicast: "a_ptr"}
    return op.defn in kinds and op["ptr"].name == kinds[op.defn]


def test_an_arrive_at_one_program_alone_is_reported() -> None:
    """A program that arrives on its own mbarrier only leaves its peer waiting."""
    case = gemm(grouped, 2, (128, 64, 256))
    module = lowered(case)
    (arrive,) = [op for op in module.walk() if op.defn is ops.cluster.mbarrier_arrive_pair]
    (init,) = [op for op in module.walk() if op.defn is ops.tma.mbarrier_init and op["count"] > 1]
    LayoutBuilder.before(arrive).op(ops.tma.mbarrier_arrive, *arrive.inputs[:2])
    arrive.erase()
    with pytest.raises(MbarrierError):
        run(case, module)
    # With the count of one program, nothing hangs, but a load overwrites what the peer still reads.
    init.attributes["count"] = 4
    with pytest.raises(EARLY):
        run(case, module)


@tile.jit
def causal(
    a_ptr, b_ptr, c_ptr, M, N, K, programs, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr
):
    """The number of iterations depends on the program."""
    a = tl.make_tensor_descriptor(a_ptr, [M, K], [K, 1], [BM, BK])
    b = tl.make_tensor_descriptor(b_ptr, [K, N], [N, 1], [BK, BN])
    c = tl.make_tensor_descriptor(c_ptr, [M, N], [N, 1], [BM, BN])
    row = tl.program_id(0) * BM
    total = tl.zeros((BM, BN), dtype=tl.float32)
    for k in tl.range(0, row + BM, BK, warp_specialize=True):
        total = tl.dot(a.load([row, k]), b.load([k, 0]), total)
    c.store([row, 0], total.to(c.dtype))


@tile.jit
def one_after_the_other(
    a_ptr, b_ptr, c_ptr, M, N, K, programs, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr
):
    """A program may have more iterations of the first loop, so that they differ in the second."""
    a = tl.make_tensor_descriptor(a_ptr, [M, K], [K, 1], [BM, BK])
    b = tl.make_tensor_descriptor(b_ptr, [K, N], [N, 1], [BK, BN])
    c = tl.make_tensor_descriptor(c_ptr, [M, N], [N, 1], [BM, BN])
    row = tl.program_id(0) * BM
    total = tl.zeros((BM, BN), dtype=tl.float32)
    for k in tl.range(tl.program_id(0) * BK, K, 2 * BK, warp_specialize=True):
        total = tl.dot(a.load([row, k]), b.load([k, 0]), total)
    for k in range(0, K, BK):
        total = tl.dot(a.load([row, k]), b.load([k, 0]), total)
    c.store([row, 0], total.to(c.dtype))


@tile.jit
def by_head(
    a_ptr, b_ptr, c_ptr, M, N, K, programs, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr
):
    """Programs of other axes may have other numbers of iterations."""
    a = tl.make_tensor_descriptor(a_ptr, [M, K], [K, 1], [BM, BK])
    b = tl.make_tensor_descriptor(b_ptr, [K, N], [N, 1], [BK, BN])
    c = tl.make_tensor_descriptor(c_ptr, [M, N], [N, 1], [BM, BN])
    row, column = tl.program_id(0) * BM, tl.program_id(1) * BN
    total = tl.zeros((BM, BN), dtype=tl.float32)
    for k in tl.range(tl.program_id(1) * BK, K, BK, warp_specialize=True):
        total = tl.dot(a.load([row, k]), b.load([k, column]), total)
    c.store([row, column], total.to(c.dtype))


@pytest.mark.parametrize(
    ("kernel", "reason"),
    [
        (causal, "its end or step depends on the program"),
        (one_after_the_other, "another loop follows, after a start by program"),
    ],
)
def test_what_cannot_be_paired_says_why(kernel: Any, reason: str) -> None:
    """And is warp-specialized all the same."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        module = lowered(gemm(kernel, 2, (128, 64, 128)))
    (message,) = [str(each.message) for each in caught]
    assert f"num_ctas=2 multicasts no loads of this loop: {reason}" in message
    assert caught[0].filename.endswith("test_clusters.py")
    assert operations(module, "warp_specialize") == 1
    assert operations(module, "tma_load_multicast", "cluster_wait", "mbarrier_arrive_pair") == 0


def test_programs_of_another_axis_may_differ() -> None:
    case = gemm(by_head, 2, (128, 128, 128))
    module = lowered(case)
    assert operations(module, "tma_load_multicast") == 2
    a, b, c, *rest = case.arguments()
    run_threads(module, WGMMA, 4, (2, 2, 1), [a, b, c, *rest], num_ctas=2)
    expected = product(a, b)
    expected[:, 64:] = product(a[:, 32:], b[32:])[:, 64:]
    np.testing.assert_allclose(c.astype(np.float32), expected, atol=0.04)


def test_other_sizes_of_clusters_only_place_programs() -> None:
    case = gemm(grouped, 4, (256, 64, 128))
    module: Module = case.compile("interp").artifact.module.clone()
    lower(module, WGMMA, num_warps=4, num_stages=2, num_ctas=4)
    assert operations(module, "tma_load_multicast", "cluster_arrive") == 0


def test_a_relaxed_arrive_at_the_end_is_reported() -> None:
    """It does not order arrives on the peer's mbarriers before those are invalidated."""
    case = gemm(grouped, 2, (128, 64, 256))
    module = lowered(case)
    first, last = [op for op in module.walk() if op.defn is ops.cluster.cluster_arrive]
    assert first["relaxed"] and not last["relaxed"]
    last.attributes["relaxed"] = True
    with pytest.raises(RaceError, match="uses an mbarrier of the other program of its cluster"):
        run(case, module)


@pytest.mark.parametrize("stages", [2, 3])
def test_attention(stages: int) -> None:
    """Pairs of programs share K and V, of which a dot releases V an iteration later."""
    n, d, heads, block = 256, 64, 2, 64
    q, k, v = (numbers(heads * n, d, dtype=np.float16, seed=seed) for seed in range(3))
    o = np.zeros_like(q)
    with tile.backend("interp:wgmma"):
        compiled = attention[n // block, heads](
            q, k, v, o, heads * n, n, 0.125 * 1.4427, block, d, num_stages=stages, num_ctas=2
        )
    assert compiled.asm["thread"].count("tma_load_multicast") == 2
    for head in range(heads):
        rows = slice(head * n, (head + 1) * n)
        scores = product(q[rows], k[rows].T) * 0.125
        powers = np.exp(scores - scores.max(1, keepdims=True))
        wanted = powers / powers.sum(1, keepdims=True) @ v[rows].astype(np.float32)
        np.testing.assert_allclose(o[rows].astype(np.float32), wanted, atol=2e-3)
