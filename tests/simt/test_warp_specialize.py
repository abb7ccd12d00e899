"""Warp specialization in the simulator: results, and that each mbarrier operation is needed."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import tile
import tile.language as tl
from tests.simt.kernels import Kernel, numbers
from tests.simt.synchronization import assert_each_is_needed, lowered
from tile.backends.interp.simulator.thread_kernel import run_threads
from tile.errors import (
    ArgumentError,
    CopyInFlightError,
    ExecutionError,
    MbarrierError,
    RaceError,
    UndefinedReadError,
    WgmmaInFlightError,
)
from tile.ir.core import Operation
from tile.ir.module import Module
from tile.ir.ops import memory
from tile.simt import ops
from tile.simt.pass_pipeline import lower
from tile.simt.target import WGMMA

F16 = dict.fromkeys(("a_ptr", "b_ptr", "c_ptr"), "*fp16:16")


@tile.jit
def persistent(
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
    WS: tl.constexpr = None,
):
    """A loop over tiles of the result, around that along K."""
    a = tl.make_tensor_descriptor(a_ptr, [M, K], [K, 1], [BM, BK])
    b = tl.make_tensor_descriptor(b_ptr, [K, N], [N, 1], [BK, BN])
    c = tl.make_tensor_descriptor(c_ptr, [M, N], [N, 1], [BM, BN])
    columns = tl.cdiv(N, BN)
    tiles = tl.cdiv(M, BM) * columns
    for number in tl.range(tl.program_id(0), tiles, programs, warp_specialize=WS):
        row = number // columns * BM
        column = number % columns * BN
        total = tl.zeros((BM, BN), dtype=tl.float32)
        for k in range(0, K, BK):
            total = tl.dot(a.load([row, k]), b.load([k, column]), total)
        c.store([row, column], total.to(c.dtype))


@tile.jit
def two_loops(
    a_ptr, b_ptr, c_ptr, M, N, K, programs, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr
):
    """Two loops that share their channels: the first half of K, and the rest."""
    a = tl.make_tensor_descriptor(a_ptr, [M, K], [K, 1], [BM, BK])
    b = tl.make_tensor_descriptor(b_ptr, [K, N], [N, 1], [BK, BN])
    row = tl.program_id(0) * BM
    total = tl.zeros((BM, BN), dtype=tl.float32)
    middle = K // 2 // BK * BK
    for k in tl.range(0, middle, BK, warp_specialize=True):
        total = tl.dot(a.load([row, k]), b.load([k, 0]), total)
    for k in range(middle, K, BK):
        total = tl.dot(a.load([row, k]), b.load([k, 0]), total)
    c = tl.make_tensor_descriptor(c_ptr, [M, N], [N, 1], [BM, BN])
    c.store([row, 0], total.to(c.dtype))


@tile.jit
def attention(q_ptr, k_ptr, v_ptr, o_ptr, rows, N, scale, BLOCK: tl.constexpr, D: tl.constexpr):
    """Two dots an iteration, of which the second stays in flight: a channel each for K and V."""
    q = tl.make_tensor_descriptor(q_ptr, [rows, D], [D, 1], [BLOCK, D])
    k = tl.make_tensor_descriptor(k_ptr, [rows, D], [D, 1], [BLOCK, D])
    v = tl.make_tensor_descriptor(v_ptr, [rows, D], [D, 1], [BLOCK, D])
    o = tl.make_tensor_descriptor(o_ptr, [rows, D], [D, 1], [BLOCK, D])
    head = tl.program_id(1) * N
    first = head + tl.program_id(0) * BLOCK
    query = q.load([first, 0])
    highest = tl.full((BLOCK,), -float("inf"), tl.float32)
    weights = tl.zeros((BLOCK,), tl.float32)
    total = tl.zeros((BLOCK, D), tl.float32)
    for start in tl.range(0, N, BLOCK, warp_specialize=True):
        scores = tl.dot(query, tl.trans(k.load([head + start, 0])))
        above = tl.maximum(highest, tl.max(scores, 1) * scale)
        powers = tl.exp2(scores * scale - above[:, None])
        shrink = tl.exp2(highest - above)
        weights = weights * shrink + tl.sum(powers, 1)
        total = total * shrink[:, None]
        total = tl.dot(powers.to(tl.float16), v.load([head + start, 0]), total)
        highest = above
    o.store([first, 0], (total / weights[:, None]).to(tl.float16))


def operations(module: Module, *names: str) -> int:
    return sum(op.name in names for op in module.walk())


def product(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return a.astype(np.float32) @ b.astype(np.float32)


@pytest.mark.parametrize("kernel", [persistent, two_loops])
@pytest.mark.parametrize(
    ("shape", "programs", "blocks", "warps", "stages"),
    [
        ((256, 64, 160), 3, (64, 64, 32), 4, 3),
        ((256, 64, 160), 2, (128, 64, 32), 8, 2),
        ((70, 56, 40), 2, (64, 64, 32), 4, 4),
        ((128, 64, 0), 1, (64, 64, 32), 4, 3),  # no iteration
        ((64, 64, 32), 1, (64, 64, 32), 4, 5),  # fewer iterations than stages
    ],
)
def test_results(
    kernel: Any,
    shape: tuple[int, int, int],
    programs: int,
    blocks: tuple[int, int, int],
    warps: int,
    stages: int,
) -> None:
    m, n, k = shape
    a = numbers(m, k or 8, dtype=np.float16)[:, :k]
    b = numbers(k or 8, n, dtype=np.float16, seed=1)[:k]
    c = np.full((m, n), 7, np.float16)
    sizes = dict(zip(("BM", "BN", "BK"), blocks, strict=True))
    grid = programs if kernel is persistent else tile.cdiv(m, blocks[0])
    with tile.backend("interp:wgmma"):
        kernel[(grid,)](
            *map(np.ascontiguousarray, (a, b)), c, m, n, k, grid, **sizes, num_warps=warps,
            num_stages=stages,
        )  # fmt: skip
    np.testing.assert_allclose(c.astype(np.float32), product(a, b), atol=0.04)


@pytest.mark.parametrize("stages", [2, 3])
def test_attention(stages: int) -> None:
    n, d, heads, block = 192, 64, 2, 64
    q, k, v = (numbers(heads * n, d, dtype=np.float16, seed=seed) for seed in range(3))
    o = np.zeros_like(q)
    with tile.backend("interp:wgmma"):
        attention[n // block, heads](
            q, k, v, o, heads * n, n, 0.125 * 1.4427, block, d, num_stages=stages
        )
    for head in range(heads):
        rows = slice(head * n, (head + 1) * n)
        scores = product(q[rows], k[rows].T) * 0.125
        powers = np.exp(scores - scores.max(1, keepdims=True))
        wanted = powers / powers.sum(1, keepdims=True) @ v[rows].astype(np.float32)
        np.testing.assert_allclose(o[rows].astype(np.float32), wanted, atol=2e-3)


def gemm(kernel: Any, grid: int, columns: int = 64) -> Kernel:
    m, n, k = 128, columns, 512 if columns == 64 else 128
    sizes = {**dict.fromkeys("MNK", "i32:16"), "programs": "i32"}

    def arguments() -> list[Any]:
        a = numbers(m, k, dtype=np.float16)
        b = numbers(k, n, dtype=np.float16, seed=1)
        return [a, b, np.zeros((m, n), np.float16), *map(np.int32, (m, n, k, grid))]

    return Kernel(kernel, {**F16, **sizes}, {"BM": 64, "BN": n, "BK": 32}, (grid, 1, 1), arguments)


# What is reported where one of these is missing. Without a wait for loads, the program reads too
# early; without one for the program, the producer overwrites too early.
EARLY = (RaceError, CopyInFlightError, WgmmaInFlightError, UndefinedReadError, MbarrierError)
FAULTS: dict[object, tuple[type[ExecutionError], ...]] = {
    ops.tma.mbarrier_init: (MbarrierError,),
    ops.tma.mbarrier_arrive: (MbarrierError,),
    ops.tma.mbarrier_arrive_expect_tx: (MbarrierError,),
    ops.tma.tma_load: (MbarrierError,),
    ops.tma.mbarrier_wait: EARLY,
    ops.wgmma.fence_proxy_async: (RaceError,),
    memory.barrier: (RaceError,),
    ops.tma.tma_store_wait: (CopyInFlightError,),
}


@pytest.mark.parametrize("stages", [2, 3])
@pytest.mark.parametrize(("kernel", "grid"), [(persistent, 1), (two_loops, 2)])
def test_what_is_missing_is_reported(kernel: Any, grid: int, stages: int) -> None:
    """Each wait, arrive, barrier, fence and load between the partitions is needed."""
    case = gemm(kernel, grid)
    module = lowered(case, WGMMA, 4, stages)
    assert operations(module, "warp_specialize") == 1
    assert operations(module, "mbarrier_arrive") == (1 if kernel is persistent else 2)
    run_threads(module, WGMMA, 4, case.grid, case.arguments())
    assert_each_is_needed(module, WGMMA, 4, case, FAULTS)


@pytest.mark.parametrize(
    ("columns", "shared", "strip", "buffers"),
    [(64, 1 << 17, 64, 1), (128, 1 << 17, 64, 2), (256, 1 << 17, 128, 2), (256, 70_000, 64, 2)],
)
def test_strips_of_a_stored_tile(columns: int, shared: int, strip: int, buffers: int) -> None:
    """They are as wide as costs no stage, and each wait, fence and barrier is needed."""
    case = gemm(persistent, 1, columns)
    module = lowered(case, replace(WGMMA, shared_bytes=shared), 4, 2)
    assert operations(module, "warp_specialize") == 1
    assert operations(module, "tma_store") == columns // strip
    mems = {op["mem"] for op in module.walk() if op.defn is ops.tma.tma_store}
    assert len(mems) == buffers and {mem.type.dims for mem in mems} == {(64, strip)}
    kinds = (ops.tma.tma_store_wait, ops.wgmma.fence_proxy_async, memory.barrier)
    count = sum(op.defn in kinds for op in module.walk())
    for index in range(count):
        broken = module.clone()
        [op for op in broken.walk() if op.defn in kinds][index].erase()
        with pytest.raises((CopyInFlightError, RaceError)):
            run_threads(broken, WGMMA, 4, case.grid, case.arguments())
    a, b, c, *rest = case.arguments()
    run_threads(module, WGMMA, 4, case.grid, [a, b, c, *rest])
    np.testing.assert_allclose(c.astype(np.float32), product(a, b), atol=0.04)


@tile.jit
def three_results(
    a_ptr, b_ptr, c_ptr, M, N, K, programs, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr
):
    """Three blocks of each tile are stored one after the other."""
    a = tl.make_tensor_descriptor(a_ptr, [M, K], [K, 1], [BM, BK])
    b = tl.make_tensor_descriptor(b_ptr, [K, N], [N, 1], [BK, BN])
    c = tl.make_tensor_descriptor(c_ptr, [3 * M, N], [N, 1], [BM, BN])
    for number in tl.range(tl.program_id(0), tl.cdiv(M, BM), programs, warp_specialize=True):
        total = tl.zeros((BM, BN), dtype=tl.float32)
        for k in range(0, K, BK):
            total = tl.dot(a.load([number * BM, k]), b.load([k, 0]), total)
        for part in tl.static_range(3):
            c.store([part * M + number * BM, 0], (total * (part + 1)).to(c.dtype))


def stored(kernel: Any, rows: int, results: int = 1) -> Kernel:
    """A kernel that one program runs for 256 x 64 elements of each result, 128 at a time."""
    m, n, k = 256, 64, 64
    sizes = {**dict.fromkeys("MNK", "i32:16"), "programs": "i32"}

    def arguments() -> list[Any]:
        a, b = numbers(m, k, dtype=np.float16), numbers(k, n, dtype=np.float16, seed=1)
        return [a, b, np.zeros((results * m, n), np.float16), *map(np.int32, (m, n, k, 1))]

    return Kernel(kernel, {**F16, **sizes}, {"BM": rows, "BN": n, "BK": 32}, (1, 1, 1), arguments)


STORING = (
    ops.tma.tma_store_wait,
    ops.wgmma.fence_proxy_async,
    ops.order.warpgroup_barrier,
    memory.barrier,
)


@pytest.mark.parametrize("warps", [4, 8])
def test_stores_of_an_iteration_share_two_buffers(warps: int) -> None:
    """The third store waits for the first one, and the first one for the third one before."""
    case = stored(three_results, warps * 16, 3)
    module = lowered(case, WGMMA, warps, 2)
    stores = [op for op in module.walk() if op.defn is ops.tma.tma_store]
    assert len(stores) == 3 and len({op["mem"] for op in stores}) == 2
    waits = [op["pending"] for op in module.walk() if op.defn is ops.tma.tma_store_wait]
    assert waits == [0, 2, 1, 0]
    a, b, c, *rest = case.arguments()
    run_threads(module, WGMMA, warps, case.grid, [a, b, c, *rest])
    expected = np.concatenate([product(a, b) * times for times in (1, 2, 3)])
    np.testing.assert_allclose(c.astype(np.float32), expected, atol=0.1)
    early = module.clone()
    third = [op for op in early.walk() if op.defn is ops.tma.tma_store_wait][2]
    third.attributes["pending"] = 2
    with pytest.raises(CopyInFlightError):
        run_threads(early, WGMMA, warps, case.grid, case.arguments())


def test_warpgroups_store_their_own_rows() -> None:
    """They pass barriers of their own, each of which is needed, and none of the program."""
    case = stored(persistent, 128)
    module = lowered(case, WGMMA, 8, 2)
    (store,) = [op for op in module.walk() if op.defn is ops.tma.tma_store]
    assert store["warpgroups"] == 2
    assert not any(op.defn is memory.barrier for op in store.block)
    a, b, c, *rest = case.arguments()
    run_threads(module, WGMMA, 8, case.grid, [a, b, c, *rest])
    np.testing.assert_allclose(c.astype(np.float32), product(a, b), atol=0.04)
    for index in range(sum(op.defn in STORING for op in module.walk())):
        broken = module.clone()
        [op for op in broken.walk() if op.defn in STORING][index].erase()
        with pytest.raises((CopyInFlightError, RaceError)):
            run_threads(broken, WGMMA, 8, case.grid, case.arguments())


def test_a_thread_that_stores_the_rows_of_all_warpgroups_is_reported() -> None:
    case = stored(persistent, 128)
    module = lowered(case, WGMMA, 8, 2)
    (store,) = [op for op in module.walk() if op.defn is ops.tma.tma_store]
    store.attributes["warpgroups"] = 1
    with pytest.raises(RaceError, match="another thread wrote"):
        run_threads(module, WGMMA, 8, case.grid, case.arguments())


@tile.jit
def two_results(
    a_ptr, b_ptr, c_ptr, M, N, K, programs, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr
):
    """Two blocks are stored at the end."""
    a = tl.make_tensor_descriptor(a_ptr, [M, K], [K, 1], [BM, BK])
    b = tl.make_tensor_descriptor(b_ptr, [K, N], [N, 1], [BK, BN])
    c = tl.make_tensor_descriptor(c_ptr, [2 * M, N], [N, 1], [BM, BN])
    total = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, K, BK):
        total = tl.dot(a.load([0, k]), b.load([k, 0]), total)
    c.store([0, 0], total.to(c.dtype))
    c.store([BM, 0], (total * 2).to(c.dtype))


def test_last_stores_are_waited_for_together() -> None:
    """One fence and barrier are in front of all, and each buffer is its own."""
    case = stored(two_results, 128, 2)
    module = lowered(case, WGMMA, 4, 3)
    stores = [op for op in module.walk() if op.defn is ops.tma.tma_store]
    assert len(stores) == 2 and stores[0].next is not None
    assert len({op["mem"].op["offset"] for op in stores}) == 2
    assert not any(op.defn is memory.barrier for op in between(*stores))
    a, b, c, *rest = case.arguments()
    run_threads(module, WGMMA, 4, case.grid, [a, b, c, *rest])
    expected = product(a, b)[:128]
    np.testing.assert_allclose(c[:128].astype(np.float32), expected, atol=0.04)
    np.testing.assert_allclose(c[128:256].astype(np.float32), expected * 2, atol=0.08)


def between(first: Operation, last: Operation) -> Iterator[Operation]:
    while first.next is not last:
        assert first.next is not None
        first = first.next
        yield first


@tile.jit
def running(
    a_ptr, b_ptr, c_ptr, M, N, K, programs, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr
):
    """Each iteration stores to the block of the one before."""
    a = tl.make_tensor_descriptor(a_ptr, [M, K], [K, 1], [BM, BK])
    b = tl.make_tensor_descriptor(b_ptr, [K, N], [N, 1], [BK, BN])
    c = tl.make_tensor_descriptor(c_ptr, [M, N], [N, 1], [BM, BN])
    row = tl.program_id(0) * BM
    total = tl.zeros((BM, BN), dtype=tl.float32)
    for k in tl.range(0, K, BK, warp_specialize=True):
        total = tl.dot(a.load([row, k]), b.load([k, 0]), total)
        c.store([row, 0], total.to(c.dtype))


def test_stores_to_one_block_are_ordered() -> None:
    """Each is complete before the next one; a wait for its reads alone is reported."""
    case = gemm(running, 2)
    module = lowered(case, WGMMA, 4, 2)
    assert operations(module, "warp_specialize") == 1
    (wait,) = [op for op in module.walk() if op.defn is ops.tma.tma_store_wait]
    assert not wait["read"] and wait["pending"] == 0
    a, b, c, *rest = case.arguments()
    run_threads(module, WGMMA, 4, case.grid, [a, b, c, *rest])
    np.testing.assert_allclose(c.astype(np.float32), product(a, b), atol=0.04)
    wait.attributes["read"] = True
    with pytest.raises(RaceError, match="which an earlier TMA store may still write") as raised:
        run_threads(module, WGMMA, 4, case.grid, case.arguments())
    assert raised.value.loc is not None


def test_an_early_release_is_reported() -> None:
    """The program arrives before the wgmma that reads the stage has been waited for."""
    case = gemm(persistent, 1)
    module = lowered(case, WGMMA, 4, 2)
    (arrive,) = [op for op in module.walk() if op.defn is ops.tma.mbarrier_arrive]
    assert arrive.block is not None and arrive.block.first is not None
    arrive.move_before(arrive.block.first)
    with pytest.raises(EARLY):
        run_threads(module, WGMMA, 4, case.grid, case.arguments())


@tile.jit
def counted(a_ptr, b_ptr, c_ptr, index_ptr, M, N, K, BM: tl.constexpr, BK: tl.constexpr):
    """Addresses from an atomic operation, which may be done only once."""
    a = tl.make_tensor_descriptor(a_ptr, [M, K], [K, 1], [BM, BK])
    b = tl.make_tensor_descriptor(b_ptr, [K, N], [N, 1], [BK, BM])
    total = tl.zeros((BM, BM), dtype=tl.float32)
    for k in tl.range(0, K, BK, warp_specialize=True):
        row = tl.atomic_add(index_ptr, 1)
        total += tl.dot(a.load([row, k]), b.load([k, 0]))
    c = tl.make_tensor_descriptor(c_ptr, [M, N], [N, 1], [BM, BM])
    c.store([0, 0], total.to(c.dtype))


def warnings_of(kernel: Any, signature: dict[str, str], constants: dict[str, int]) -> list[str]:
    module = tile.compile(kernel, signature, constants, {}, "interp").artifact.module.clone()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        lower(module, WGMMA, num_warps=8, num_stages=3)
    assert operations(module, "warp_specialize") == 0
    return [str(each.message) for each in caught]


@pytest.mark.parametrize(
    ("own", "option", "expected"),
    [(None, True, 1), (None, False, 0), (True, False, 1), (False, True, 0), (None, None, 0)],
)
def test_the_option_of_a_launch_is_for_loops_that_do_not_say(
    own: bool | None, option: bool | None, expected: int
) -> None:
    sizes = {"BM": 128, "BN": 256, "BK": 64, "WS": own}
    signature = dict.fromkeys(("a_ptr", "b_ptr", "c_ptr"), "*fp16:16")
    signature |= dict.fromkeys(("M", "N", "K", "programs"), "i32:16")
    module = tile.compile(persistent, signature, sizes, {}, "interp").artifact.module.clone()
    options = {} if option is None else {"warp_specialize": option}
    lower(module, WGMMA, num_warps=8, num_stages=4, **options)
    assert operations(module, "warp_specialize") == expected


def test_a_launch_with_the_option() -> None:
    a, b = numbers(256, 128, dtype=np.float16), numbers(128, 128, dtype=np.float16, seed=1)
    for option in (None, False, True):
        c = np.zeros((256, 128), np.float16)
        with tile.backend("interp:wgmma"):
            kernel = persistent[(2,)](
                a, b, c, 256, 128, 128, 2, BM=128, BN=128, BK=64, warp_specialize=option
            )
        np.testing.assert_allclose(c.astype(np.float32), product(a, b), atol=0.04)
        assert ("warp_specialize {num_warps" in kernel.asm["thread"]) == (option is not False)
    with pytest.raises(
        ArgumentError, match="warp_specialize must be None, False or True, not 'yes'"
    ):
        persistent[(2,)](a, b, c, 256, 128, 128, 2, BM=128, BN=128, BK=64, warp_specialize="yes")


@tile.jit
def in_while(a_ptr, b_ptr, c_ptr, M, N, K, BM: tl.constexpr, BK: tl.constexpr):
    """A loop inside one whose trip count nobody knows."""
    a = tl.make_tensor_descriptor(a_ptr, [M, K], [K, 1], [BM, BK])
    b = tl.make_tensor_descriptor(b_ptr, [K, N], [N, 1], [BK, BM])
    c = tl.make_tensor_descriptor(c_ptr, [M, N], [N, 1], [BM, BM])
    row = 0
    while row < M:
        total = tl.zeros((BM, BM), dtype=tl.float32)
        for k in tl.range(0, K, BK, warp_specialize=True):
            total = tl.dot(a.load([row, k]), b.load([k, 0]), total)
        c.store([row, 0], total.to(c.dtype))
        row += BM


@tile.jit
def indexed(
    a_ptr, b_ptr, c_ptr, index_ptr, M, N, K, BM: tl.constexpr, BK: tl.constexpr, ROWS: tl.constexpr
):
    """Addresses from memory: a scalar, perhaps behind an assertion, or the sum of a tile."""
    a = tl.make_tensor_descriptor(a_ptr, [M, K], [K, 1], [BM, BK])
    b = tl.make_tensor_descriptor(b_ptr, [K, N], [N, 1], [BK, BM])
    if ROWS > 1:
        row = tl.sum(tl.load(index_ptr + tl.arange(0, ROWS)))
    else:
        if not ROWS:
            tl.device_assert(M > 0, "there are rows")
        row = tl.load(index_ptr)
    total = tl.zeros((BM, BM), dtype=tl.float32)
    for k in tl.range(0, K, BK, warp_specialize=True):
        total = tl.dot(a.load([row, k]), b.load([k, 0]), total)
    c = tl.make_tensor_descriptor(c_ptr, [M, N], [N, 1], [BM, BM])
    c.store([row, 0], total.to(c.dtype))


@tile.jit
def without_dots(a_ptr, b_ptr, c_ptr, M, N, K, BM: tl.constexpr, BK: tl.constexpr):
    """TMA copies blocks whose elements threads read."""
    a = tl.make_tensor_descriptor(a_ptr, [M, K], [K, 1], [BM, BK])
    total = tl.zeros((BM, BK), dtype=tl.float32)
    for k in tl.range(0, K, BK, num_stages=3, warp_specialize=True):
        total += a.load([0, k])
    c = tl.make_tensor_descriptor(c_ptr, [M, N], [N, 1], [BM, BK])
    c.store([0, 0], total.to(c.dtype))


SIZES = dict.fromkeys("MNK", "i32:16")
INDEX = {"index_ptr": "*i32"}


@pytest.mark.parametrize(
    ("kernel", "signature", "blocks", "reason"),
    [
        (
            persistent,
            {"programs": "i32"},
            {"BM": 128, "BN": 256, "BK": 128, "WS": True},
            "its channels would",
        ),
        (counted, INDEX, {"BM": 64, "BK": 32}, "no TMA load"),
        (indexed, INDEX, {"BM": 64, "BK": 32, "ROWS": 0}, "the address of a load needs a `load`"),
        (
            indexed,
            {"index_ptr": "*i32:aliased", "c_ptr": "*fp16:16:aliased"},
            {"BM": 64, "BK": 32, "ROWS": 1},
            "the address of a load needs a `load`",
        ),
        (indexed, INDEX, {"BM": 64, "BK": 32, "ROWS": 64}, "the address of a load needs a tile"),
        (in_while, {}, {"BM": 64, "BK": 32}, "it is nested in `while`"),
        (without_dots, {}, {"BM": 64, "BK": 64}, "no wgmma reads what TMA loads"),
    ],
)
def test_what_cannot_be_specialized_says_why(
    kernel: Any, signature: dict[str, str], blocks: dict[str, int], reason: str
) -> None:
    """And keeps its other schedule."""
    (message,) = warnings_of(kernel, {**F16, **SIZES, **signature}, blocks)
    assert f"this loop is not warp-specialized: {reason}" in message


def test_a_producer_loads_a_scalar_of_an_address() -> None:
    """The kernel relies on it that what it stores is not there."""
    a, b = (numbers(128, 64, dtype=np.float16, seed=1), numbers(64, 64, dtype=np.float16, seed=2))
    out, index = np.zeros((128, 64), np.float16), np.array([64], np.int32)
    with tile.backend("interp:wgmma"):
        kernel = indexed[(1,)](a, b, out, index, 128, 64, 64, BM=64, BK=32, ROWS=1)
    thread = kernel.asm["thread"]
    assert "warp_specialize {num_warps" in thread and "disjoint" in thread
    np.testing.assert_allclose(out[64:].astype(np.float32), product(a, b)[64:], atol=0.04)
    assert not out[:64].any()


@tile.jit
def searched(a_ptr, b_ptr, c_ptr, ends_ptr, M, N, K, BM: tl.constexpr, BK: tl.constexpr):
    """A `while` that reads scalars decides which matrix of b a block of rows is multiplied by."""
    a = tl.make_tensor_descriptor(a_ptr, [M, K], [K, 1], [BM, BK])
    b = tl.make_tensor_descriptor(b_ptr, [M, N], [N, 1], [BK, BM])
    c = tl.make_tensor_descriptor(c_ptr, [M, N], [N, 1], [BM, BM])
    group = 0
    for row in tl.range(0, M, BM, warp_specialize=True):
        while tl.load(ends_ptr + group) <= row:
            group += 1
        total = tl.zeros((BM, BM), dtype=tl.float32)
        for k in range(0, K, BK):
            total = tl.dot(a.load([row, k]), b.load([group * K + k, 0]), total)
        c.store([row, 0], total.to(c.dtype))


def test_a_producer_repeats_a_search_for_an_address() -> None:
    a, b = (numbers(256, 64, dtype=np.float16, seed=seed) for seed in (1, 2))
    out, ends = np.zeros((256, 64), np.float16), np.array([64, 64, 192, 256], np.int32)
    with tile.backend("interp:wgmma"):
        kernel = searched[(1,)](a, b, out, ends, 256, 64, 64, BM=64, BK=32)
    assert "warp_specialize {num_warps" in kernel.asm["thread"]
    matrices = b.reshape(4, 64, 64)[[0, 2, 2, 3]]
    expected = np.concatenate([product(*pair) for pair in zip(a.reshape(4, 64, 64), matrices)])
    np.testing.assert_allclose(out.astype(np.float32), expected, atol=0.04)
