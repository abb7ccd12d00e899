"""Kernels with descriptors on the way to threads: as wide accesses as with pointers, and as early."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tile
import tile.language as tl
from tests.simt.kernels import Kernel, numbers
from tests.simt.synchronization import FAULTS, lowered, without_each
from tile.backends.interp.simulator.thread_kernel import run_threads
from tile.ir.core import Operation
from tile.ir.module import Module
from tile.ir.op_definition import Level
from tile.ir.ops import control, memory
from tile.ir.passes import PassManager
from tile.simt import ops
from tile.simt.pass_pipeline import lowering
from tile.simt.target import CP_ASYNC, GENERIC, MMA, PLAIN, TARGETS, WARP64, WGMMA, SimtTarget


@tile.jit
def matmul(a_ptr, b_ptr, c_ptr, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    a = tl.make_tensor_descriptor(a_ptr, [M, K], [K, 1], [BM, BK])
    b = tl.make_tensor_descriptor(b_ptr, [K, N], [N, 1], [BK, BN])
    c = tl.make_tensor_descriptor(c_ptr, [M, N], [N, 1], [BM, BN])
    row = tl.program_id(0) * BM
    column = tl.program_id(1) * BN
    total = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, K, BK):
        total = tl.dot(a.load([row, k]), b.load([k, column]), total)
    c.store([row, column], total.to(c.dtype))


SIGNATURE = {"a_ptr": "*fp16:16", "b_ptr": "*fp16:16", "c_ptr": "*fp16:16"}
BLOCKS = {"BM": 64, "BN": 64, "BK": 32}


def threads(target: SimtTarget, hint: str = ":16") -> Module:
    """The dot lowered; `hint` says what is known of the sizes."""
    sizes = dict.fromkeys(("M", "N", "K"), f"i32{hint}")
    compiled = tile.compile(matmul, {**SIGNATURE, **sizes}, BLOCKS, {}, "interp")
    module = compiled.artifact.module.clone()
    PassManager(lowering(target, num_warps=4, num_stages=3)).run(module, Level.TILE)
    return module


def of(module: Module, defn: Any) -> list[Operation]:
    return [op for op in module.walk() if op.defn is defn]


def outer_loop(module: Module) -> Operation:
    """The loop over the inner axis; dots may have loops of their own in it.

    Where one leaves a slice of its dots to the next, it runs if there is an iteration.
    """
    loops = of(module, control.for_)
    (loop,) = [op for op in loops if not any(outer in loops for outer in op.ancestors())]
    return loop


@pytest.mark.parametrize("hint", [":16", ""])
def test_copies_and_stores_are_as_wide_as_the_rules_of_descriptors_allow(hint: str) -> None:
    """Rows are multiples of 16 bytes long, even where nothing is known of the sizes."""
    module = threads(MMA, hint)
    copies = of(module, ops.thread.shared_cp_async)
    assert len(copies) >= 2
    assert {op["vector"] for op in (*copies, *of(module, memory.store))} == {8}


def test_blocks_are_loaded_iterations_ahead_without_async_copies_too() -> None:
    module = threads(GENERIC)
    before = [op for op in of(module, memory.load) if op.parent is None]
    assert len(before) == 2
    assert {op["vector"] for op in of(module, memory.load)} == {8}


def test_nothing_but_scalars_and_masks_is_computed_in_the_loop() -> None:
    for target in (MMA, PLAIN):
        module = threads(target)
        loop = outer_loop(module)
        products = [op for op in loop.regions[0] if op.name == "mul"]
        assert all(not op.result.type.is_block() for op in products)


def test_targets_with_tma_compute_no_pointers() -> None:
    module = threads(WGMMA, "")
    assert len(of(module, ops.tma.tma_load)) == 6 and len(of(module, ops.tma.tma_store)) == 1
    assert not of(module, memory.load) and not of(module, memory.addptr)


@pytest.mark.parametrize("target", [PLAIN, GENERIC, CP_ASYNC, MMA, WGMMA, WARP64], ids=str)
def test_dots_of_any_sizes(target: SimtTarget) -> None:
    assert target.name in TARGETS
    m, n, k = 70, 88, 40
    random = np.random.default_rng(0)
    a = random.standard_normal((m, k)).astype(np.float16)
    b = random.standard_normal((k, n)).astype(np.float16)
    guard = np.full((m + 8, n), 7, np.float16)
    with tile.backend(f"interp:{target}"):
        matmul[tile.cdiv(m, 64), tile.cdiv(n, 64)](a, b, guard, m, n, k, **BLOCKS)
    wanted = a.astype(np.float32) @ b.astype(np.float32)
    np.testing.assert_allclose(guard[:m].astype(np.float32), wanted, atol=0.02)
    assert (guard[m:] == 7).all()


@tile.jit
def persistent(
    a_ptr, b_ptr, c_ptr, M, N, K, programs, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr
):
    """A loop around: barriers are made and ended in each of its iterations."""
    a = tl.make_tensor_descriptor(a_ptr, [M, K], [K, 1], [BM, BK])
    b = tl.make_tensor_descriptor(b_ptr, [K, N], [N, 1], [BK, BN])
    c = tl.make_tensor_descriptor(c_ptr, [M, N], [N, 1], [BM, BN])
    columns = tl.cdiv(N, BN)
    tiles = tl.cdiv(M, BM) * columns
    for number in tl.range(tl.program_id(0), tiles, programs, warp_specialize=False):
        row = number // columns * BM
        column = number % columns * BN
        total = tl.zeros((BM, BN), dtype=tl.float32)
        for k in range(0, K, BK):
            total = tl.dot(a.load([row, k]), b.load([k, column]), total)
        c.store([row, column], total.to(c.dtype))


@tile.jit
def one_by_one(
    a_ptr, b_ptr, c_ptr, M, N, K, programs, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr
):
    """Two loops, of which the second fills memory that the first one's result went through."""
    a = tl.make_tensor_descriptor(a_ptr, [M, K], [K, 1], [BM, BK])
    b = tl.make_tensor_descriptor(b_ptr, [K, N], [N, 1], [BK, BN])
    c = tl.make_tensor_descriptor(c_ptr, [M, N], [N, 1], [BM, BN])
    column = tl.program_id(0) * BN
    total = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, K, BK):
        total = tl.dot(a.load([0, k]), b.load([k, column]), total)
    c.store([0, column], total.to(c.dtype))
    total = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, K, BK):
        total = tl.dot(a.load([BM, k]), b.load([k, column]), total)
    c.store([BM, column], total.to(c.dtype))


M, N, K = 128, 128, 160


def several(kernel: Any, grid: int) -> Kernel:
    """A kernel with a dot of 128 by 128 in tiles of 64 by 64."""
    sizes = {**dict.fromkeys("MNK", "i32:16"), "programs": "i32"}
    return Kernel(kernel, {**SIGNATURE, **sizes}, BLOCKS, (grid, 1, 1), arguments)


def arguments() -> list[Any]:
    a = numbers(M, K, dtype=np.float16)
    b = numbers(K, N, dtype=np.float16, seed=1)
    return [a, b, np.zeros((M, N), np.float16), *map(np.int32, (M, N, K, 1))]


@pytest.mark.parametrize("stages", [2, 3])
@pytest.mark.parametrize(("function", "grid"), [(persistent, 1), (one_by_one, 2)])
def test_barriers_are_used_again(function: Any, grid: int, stages: int) -> None:
    """And each barrier, wait and fence is needed."""
    module = lowered(several(function, grid), WGMMA, 4, stages)
    launched = arguments()
    run_threads(module, WGMMA, 4, (grid, 1, 1), launched)
    wanted = launched[0].astype(np.float32) @ launched[1].astype(np.float32)
    np.testing.assert_allclose(launched[2].astype(np.float32), wanted, atol=0.04)
    assert len(of(module, ops.tma.mbarrier_init)) == (1 if function is persistent else 2)
    for removed, broken in without_each(module):
        with pytest.raises(FAULTS[removed.defn]):
            run_threads(broken, WGMMA, 4, (grid, 1, 1), arguments())


@pytest.mark.parametrize(
    ("blocks", "warps"),
    [
        ((64, 16, 16), 4),  # rows of 32 bytes
        ((64, 32, 64), 4),
        ((128, 256, 64), 8),  # four strips
        ((64, 64, 128), 4),
        ((512, 16, 16), 8),  # more rows than one copy brings
        ((16, 64, 32), 4),  # too few rows for wgmma: threads copy
    ],
)
def test_blocks_of_any_size(blocks: tuple[int, int, int], warps: int) -> None:
    m, n, k = 100, 72, 88
    random = np.random.default_rng(0)
    a, b = (random.integers(-3, 4, s).astype(np.float16) for s in ((m, k), (k, n)))
    c = np.zeros((m, n), np.float16)
    sizes = dict(zip(("BM", "BN", "BK"), blocks))
    grid = tile.cdiv(m, blocks[0]), tile.cdiv(n, blocks[1])
    with tile.backend("interp:wgmma"):
        matmul[grid](a, b, c, m, n, k, **sizes, num_warps=warps)
    np.testing.assert_array_equal(c.astype(np.float32), a.astype(np.float32) @ b)
