"""Atomic operations on descriptor blocks as TMA reductions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("llvmlite")

import tile
import tile.language as tl
from tests.backends.nvptx.assembling import assemble
from tests.simt.kernels import Kernel, numbers
from tests.simt.synchronization import FAULTS, lowered, without_each
from tile.backends.interp.simulator.thread_kernel import run_threads
from tile.backends.nvptx.launch_metadata import LaunchMetadata
from tile.errors import VectorAccessError
from tile.ir.module import Module
from tile.ir.ops import memory
from tile.ir.ops.memory import RMWKind
from tile.simt import ops
from tile.simt.ops.tma import REDUCE_ELEMENTS
from tile.simt.pass_pipeline import lower
from tile.simt.target import WGMMA

REDUCE = "cp.reduce.async.bulk.tensor.{}d.global.shared::cta.{}.bulk_group"


@tile.jit
def split_k(a_ptr, b_ptr, c_ptr, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """A matmul whose programs along axis 2 add parts of the sums."""
    a = tl.make_tensor_descriptor(a_ptr, [M, K], [K, 1], [BM, BK])
    b = tl.make_tensor_descriptor(b_ptr, [K, N], [N, 1], [BK, BN])
    c = tl.make_tensor_descriptor(c_ptr, [M, N], [N, 1], [BM, BN])
    row, column = tl.program_id(0) * BM, tl.program_id(1) * BN
    total = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(tl.program_id(2) * BK, K, BK * tl.num_programs(2)):
        total = tl.dot(a.load([row, k]), b.load([k, column]), total)
    c.atomic_add([row, column], total)


@tile.jit
def each_iteration(
    a_ptr, b_ptr, c_ptr, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
    WS: tl.constexpr = None,
):  # fmt: skip
    """A matmul whose iterations add their dots in memory, as dQ of attention."""
    a = tl.make_tensor_descriptor(a_ptr, [M, K], [K, 1], [BM, BK])
    b = tl.make_tensor_descriptor(b_ptr, [K, N], [N, 1], [BK, BN])
    c = tl.make_tensor_descriptor(c_ptr, [M, N], [N, 1], [BM, BN])
    row, column = tl.program_id(0) * BM, tl.program_id(1) * BN
    for k in tl.range(0, K, BK, warp_specialize=WS):
        c.atomic_add([row, column], tl.dot(a.load([row, k]), b.load([k, column])))


@tile.jit
def two_loops(
    a_ptr, b_ptr, c_ptr, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr
):  # fmt: skip
    """The same in two loops with a producer, which add to one array."""
    a = tl.make_tensor_descriptor(a_ptr, [M, K], [K, 1], [BM, BK])
    b = tl.make_tensor_descriptor(b_ptr, [K, N], [N, 1], [BK, BN])
    c = tl.make_tensor_descriptor(c_ptr, [M, N], [N, 1], [BM, BN])
    row, column = tl.program_id(0) * BM, tl.program_id(1) * BN
    for k in tl.range(0, 2 * BK, BK, warp_specialize=True):
        c.atomic_add([row, column], tl.dot(a.load([row, k]), b.load([k, column])))
    for k in range(2 * BK, K, BK):
        c.atomic_add([row, column], tl.dot(a.load([row, k]), b.load([k, column])))


@tile.jit
def after_stores(
    a_ptr, b_ptr, c_ptr, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr
):  # fmt: skip
    """A store, then reductions to the block that it wrote."""
    a = tl.make_tensor_descriptor(a_ptr, [M, K], [K, 1], [BM, BK])
    b = tl.make_tensor_descriptor(b_ptr, [K, N], [N, 1], [BK, BN])
    c = tl.make_tensor_descriptor(c_ptr, [M, N], [N, 1], [BM, BN])
    row, column = tl.program_id(0) * BM, tl.program_id(1) * BN
    c.store([row, column], tl.full((BM, BN), 1.0, tl.float32))
    for k in tl.range(0, K, BK, warp_specialize=True):
        c.atomic_add([row, column], tl.dot(a.load([row, k]), b.load([k, column])))


M, N, K = 112, 88, 144
SIGNATURE = {"a_ptr": "*fp16:16", "b_ptr": "*fp16:16", "c_ptr": "*fp32:16"}
SIGNATURE |= dict.fromkeys("MNK", "i32:8")


def arguments() -> list[Any]:
    a = numbers(M, K, dtype=np.int8).astype(np.float16) % 8
    b = numbers(K, N, dtype=np.int8, seed=1).astype(np.float16) % 8
    return [a, b, np.ones((M, N), np.float32), *map(np.int32, (M, N, K))]


def case(kernel: Any, programs: int, **constants: Any) -> Kernel:
    blocks = {"BM": 64, "BN": 64, "BK": 32, **constants}
    return Kernel(kernel, SIGNATURE, blocks, (2, 2, programs), arguments)


CASES = {
    "split_k": case(split_k, 3),
    "each_iteration": case(each_iteration, 1),
    "producer": case(each_iteration, 1, WS=True),
}


def count(module: Module, *names: str) -> int:
    return sum(op.name in names for op in module.walk())


@pytest.mark.parametrize("stages", [2, 3])
@pytest.mark.parametrize("name", CASES)
def test_results_and_removals(name: str, stages: int) -> None:
    kernel = CASES[name]
    assert not count(lowered(kernel, WGMMA, 4, stages), "tma_reduce")
    module = lowered(kernel, WGMMA, 4, stages, tma="reduce")
    assert count(module, "tma_reduce") == 1 and not count(module, "atomic_rmw")
    assert count(module, "warp_specialize") == (name == "producer")
    launched = arguments()
    run_threads(module, WGMMA, 4, kernel.grid, launched)
    expected = launched[0].astype(np.float32) @ launched[1].astype(np.float32) + 1
    np.testing.assert_array_equal(launched[2], expected)
    kinds = {memory.barrier, ops.wgmma.fence_proxy_async, ops.tma.tma_store_wait}
    removals = [each for each in without_each(module) if each[0].defn in kinds]
    assert len(removals) >= 5
    for removed, broken in removals:
        with pytest.raises(FAULTS[removed.defn]):
            run_threads(broken, WGMMA, 4, kernel.grid, arguments())


def test_reductions_in_two_loops_overlap() -> None:
    """Sums to one array have no order among each other."""
    kernel = case(two_loops, 1)
    module = lowered(kernel, WGMMA, 4, 2, tma="reduce")
    assert count(module, "tma_reduce") == 2 and count(module, "warp_specialize") == 1
    assert all(op["read"] for op in module.walk() if op.defn is ops.tma.tma_store_wait)
    launched = arguments()
    run_threads(module, WGMMA, 4, kernel.grid, launched)
    expected = launched[0].astype(np.float32) @ launched[1].astype(np.float32) + 1
    np.testing.assert_array_equal(launched[2], expected)


def test_reductions_after_stores_wait() -> None:
    """Both may not be in flight at a time."""
    kernel = case(after_stores, 1)
    with pytest.warns(RuntimeWarning, match="not a TMA reduction: other operations may access"):
        module = lowered(kernel, WGMMA, 4, 2, tma="reduce+stores")
    assert count(module, "warp_specialize") == 1
    launched = arguments()
    run_threads(module, WGMMA, 4, kernel.grid, launched)
    expected = launched[0].astype(np.float32) @ launched[1].astype(np.float32) + 1
    np.testing.assert_array_equal(launched[2], expected)


@pytest.mark.parametrize(("uses", "expected"), [({}, 4), ({"tma": "reduce"}, 3)])
def test_the_buffer_is_in_the_budget_of_the_loop(uses: dict[str, str], expected: int) -> None:
    """The loop has fewer stages of 24 KiB, so that the buffer of 128 KiB fits as well."""
    blocks = {"BM": 128, "BN": 256, "BK": 32}
    kernel = Kernel(each_iteration, SIGNATURE, blocks, (1, 1, 1), arguments)
    module: Module = kernel.compile("interp").artifact.module.clone()
    lower(module, WGMMA, num_warps=8, num_stages=7, **uses)
    allocs = [op for op in module.walk() if op.defn is ops.shared.local_alloc]
    assert max(op.result.type.stages for op in allocs) == expected


@tile.jit
def combine(x_ptr, y_ptr, M, N, B: tl.constexpr, D: tl.constexpr, KIND: tl.constexpr):
    x = tl.make_tensor_descriptor(x_ptr, [M, N], [N, 1], [B, D])
    y = tl.make_tensor_descriptor(y_ptr, [M, N], [N, 1], [B, D])
    row = tl.program_id(0) * B
    value = x.load([row, 0])
    if KIND == "add":
        y.atomic_add([row + 6, 16], value)
    elif KIND == "min":
        y.atomic_min([row + 6, 16], value)
    elif KIND == "max":
        y.atomic_max([row + 6, 16], value)
    elif KIND == "and":
        y.atomic_and([row + 6, 16], value)
    elif KIND == "or":
        y.atomic_or([row + 6, 16], value)
    else:
        y.atomic_xor([row + 6, 16], value)


def test_a_reduction_that_tma_does_not_have() -> None:
    """Threads combine, and a warning says why."""
    signature = {"x_ptr": "*fp64:16", "y_ptr": "*fp64:16", "M": "i32", "N": "i32:8"}
    constants = {"B": 64, "D": 32, "KIND": "add"}
    module = tile.compile(combine, signature, constants, {}, "interp").artifact.module.clone()
    with pytest.warns(RuntimeWarning, match="TMA has no add of f64") as caught:
        lower(module, WGMMA, num_warps=4, tma="reduce")
    assert not count(module, "tma_reduce") and count(module, "atomic_rmw") == 1
    assert caught[0].filename.endswith("test_tma_reduce.py")


@tile.jit
def before(y_ptr, M, N, first, ASSUMED: tl.constexpr, B: tl.constexpr, D: tl.constexpr):
    y = tl.make_tensor_descriptor(y_ptr, [M, N], [N, 1], [B, D])
    if ASSUMED:
        tl.assume(first >= 0)
    y.atomic_add([first, 0], tl.full((B, D), 1, tl.int32))


def before_the_array(assumed: bool) -> Kernel:
    def arguments() -> list[Any]:
        return [np.zeros((70, 40), np.int32), *map(np.int32, (70, 40, -3))]

    signature = {"y_ptr": "*i32:16", "M": "i32", "N": "i32:8", "first": "i32"}
    return Kernel(before, signature, {"ASSUMED": assumed, "B": 64, "D": 32}, (1, 1, 1), arguments)


def test_blocks_that_may_begin_before_an_array() -> None:
    """TMA does not reduce them, so threads do, and a warning tells what would change that."""
    kernel = before_the_array(assumed=False)
    with pytest.warns(RuntimeWarning, match=r"axis 0 may be negative.* tl.assume\(index >= 0\)"):
        module = lowered(kernel, WGMMA, 4, 2, tma="reduce")
    assert not count(module, "tma_reduce")
    launched = kernel.arguments()
    run_threads(module, WGMMA, 4, kernel.grid, launched)
    assert launched[0][:61, :32].all() and launched[0].sum() == 61 * 32


def test_a_reduction_before_an_array_is_reported() -> None:
    """The assumption is wrong."""
    kernel = before_the_array(assumed=True)
    module = lowered(kernel, WGMMA, 4, 2, tma="reduce")
    assert count(module, "tma_reduce") == 1
    with pytest.raises(VectorAccessError, match="with the index -3 along axis 0"):
        run_threads(module, WGMMA, 4, kernel.grid, kernel.arguments())


FUNCTIONS = {
    "add": np.add,
    "min": np.minimum,
    "max": np.maximum,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
}
DTYPES = {"f32": np.float32, "f16": np.float16, "i32": np.int32, "u32": np.uint32}
DTYPES |= {"i64": np.int64, "u64": np.uint64}


@pytest.mark.parametrize(("kind", "element"), [
    (kind, element) for kind in REDUCE_ELEMENTS for element in REDUCE_ELEMENTS[kind]
], ids=str)  # fmt: skip
def test_every_kind_and_element(kind: RMWKind, element: Any) -> None:
    """Blocks of which a part is out of bounds, and instructions that ptxas assembles."""
    name, m, n = element.alias, 70, 40
    signature = {"x_ptr": f"*{name}:16", "y_ptr": f"*{name}:16", "M": "i32", "N": "i32:8"}
    constants = {"B": 64, "D": 32, "KIND": str(kind)}
    dtype = DTYPES.get(element.ir_name)

    def arguments() -> list[Any]:
        x, y = (np.random.default_rng(s).integers(0, 100, (m, n)).astype(dtype) for s in (0, 1))
        return [x, y, np.int32(m), np.int32(n)]

    kernel = Kernel(combine, signature, constants, (2, 1, 1), arguments)
    artifact = kernel.compile("nvptx:sm_90a", tma="reduce").artifact
    ptx = artifact.stages["ptx"]
    assert ptx.count(REDUCE.format(2, kind)) == 1 + (element.bits == 64)
    assemble(ptx, "sm_90a")
    (described,) = LaunchMetadata.of(artifact.launch_metadata).maps
    unsigned = kind is RMWKind.ADD and element.ir_name == "i64"
    assert described.element == ("u64" if unsigned else element.ir_name)
    if dtype is None:
        return
    module = lowered(kernel, WGMMA, 4, 2, tma="reduce")
    assert count(module, "tma_reduce") == 1
    x, y, *rest = arguments()
    expected = y.copy()
    target = expected[6:, 16:]
    target[...] = FUNCTIONS[str(kind)](target, x[: m - 6, : n - 16])
    run_threads(module, WGMMA, 4, kernel.grid, [x, y, *rest])
    np.testing.assert_array_equal(y, expected)
