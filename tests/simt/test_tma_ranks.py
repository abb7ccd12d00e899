"""Kernels on descriptors of more than two axes: TMA loads and stores as of two."""

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
from tile.backends.nvptx.launch_metadata import LaunchMetadata, LaunchValue
from tile.errors import ArgumentError
from tile.ir.module import Module
from tile.simt import ops
from tile.simt.target import WGMMA


@tile.jit
def batched(a_ptr, b_ptr, c_ptr, B, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """A matmul of matrices in an array of three axes; b is transposed in memory."""
    a = tl.make_tensor_descriptor(a_ptr, [B, M, K], [M * K, K, 1], [1, BM, BK])
    b = tl.make_tensor_descriptor(b_ptr, [B, N, K], [N * K, K, 1], [1, BN, BK])
    c = tl.make_tensor_descriptor(c_ptr, [B, M, N], [M * N, N, 1], [1, BM, BN])
    row, column, batch = tl.program_id(0) * BM, tl.program_id(1) * BN, tl.program_id(2)
    total = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, K, BK):
        x = a.load([batch, row, k]).reshape(BM, BK)
        y = b.load([batch, column, k]).reshape(BN, BK)
        total = tl.dot(x, tl.trans(y), total)
    c.store([batch, row, column], total.to(c.dtype).reshape(1, BM, BN))


@tile.jit
def images(x_ptr, w_ptr, y_ptr, N, H, W, C, K, P: tl.constexpr, BK: tl.constexpr, BC: tl.constexpr):
    """A convolution by 1 x 1: of blocks of P x P pixels, which are the rows of a dot."""
    x = tl.make_tensor_descriptor(
        x_ptr, [N, H, W, C], [H * W * C, W * C, C, 1], [1, P, P, BC]
    )  # fmt: skip
    w = tl.make_tensor_descriptor(w_ptr, [C, K], [K, 1], [BC, BK])
    y = tl.make_tensor_descriptor(
        y_ptr, [N, H, W, K], [H * W * K, W * K, K, 1], [1, P, P, BK]
    )  # fmt: skip
    i, j = tl.program_id(0) * P, tl.program_id(1) * P
    total = tl.zeros((P * P, BK), dtype=tl.float32)
    for c in range(0, C, BC):
        pixels = x.load([tl.program_id(2), i, j, c]).reshape(P * P, BC)
        total = tl.dot(pixels, w.load([c, 0]), total)
    y.store([tl.program_id(2), i, j, 0], total.to(y.dtype).reshape(1, P, P, BK))


def pointers(*names: str) -> dict[str, str]:
    return dict.fromkeys(names, "*fp16:16")


def batched_case(b: int, m: int, n: int, k: int) -> Kernel:
    def arguments() -> list[Any]:
        x, y = (numbers(b, s, k, dtype=np.float16, seed=s) for s in (m, n))
        return [x, y, np.zeros((b, m, n), np.float16), *map(np.int32, (b, m, n, k))]

    sizes = {"B": "i32", **dict.fromkeys("MNK", "i32:8")}
    signature = {**pointers("a_ptr", "b_ptr", "c_ptr"), **sizes}
    grid = (tile.cdiv(m, 64), tile.cdiv(n, 64), b)
    return Kernel(batched, signature, {"BM": 64, "BN": 64, "BK": 32}, grid, arguments)


def images_case() -> Kernel:
    n, h, w, c, k = 2, 12, 20, 80, 32

    def arguments() -> list[Any]:
        x = numbers(n, h, w, c, dtype=np.float16)
        weights = numbers(c, k, dtype=np.float16, seed=1)
        return [x, weights, np.zeros((n, h, w, k), np.float16), *map(np.int32, (n, h, w, c, k))]

    sizes = {**dict.fromkeys("NHW", "i32"), **dict.fromkeys("CK", "i32:8")}
    signature = {**pointers("x_ptr", "w_ptr", "y_ptr"), **sizes}
    return Kernel(images, signature, {"P": 8, "BK": 32, "BC": 16}, (2, 3, n), arguments)


CASES = {"batched": batched_case(2, 72, 88, 144), "images": images_case()}


def wanted(case: Kernel) -> np.ndarray:
    a, b, *_ = (np.asarray(value, np.float32) for value in case.arguments())
    return a @ (b.swapaxes(-1, -2) if b.ndim == 3 else b)


def count(module: Module, *names: str) -> int:
    return sum(op.name in names for op in module.walk())


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("stages", [2, 3])
def test_results_and_removals(name: str, stages: int) -> None:
    """Nothing but TMA copies, and each barrier, wait, expect and fence is needed."""
    case = CASES[name]
    module = lowered(case, WGMMA, 4, stages)
    assert count(module, "tma_load") == 2 * stages and count(module, "tma_store") == 1
    assert not count(module, "load", "store", "shared_cp_async", "shared_load")
    arguments = case.arguments()
    run_threads(module, WGMMA, 4, case.grid, arguments)
    np.testing.assert_allclose(arguments[2].astype(np.float32), wanted(case), atol=0.05)
    for removed, broken in without_each(module):
        with pytest.raises(FAULTS[removed.defn]):
            run_threads(broken, WGMMA, 4, case.grid, case.arguments())


@pytest.mark.parametrize(("name", "rank", "boxes"), [("batched", 3, (2, 1)), ("images", 4, (1, 1))])
def test_ptx(name: str, rank: int, boxes: tuple[int, int]) -> None:
    artifact = CASES[name].compile("nvptx:sm_90a", num_stages=2).artifact
    ptx = artifact.stages["ptx"]
    load = f"cp.async.bulk.tensor.{rank}d.shared::cluster.global.mbarrier::complete_tx::bytes"
    store = f"cp.async.bulk.tensor.{rank}d.global.shared::cta.bulk_group"
    assert ptx.count(load) == 2 * boxes[0] and ptx.count(store) == boxes[1]
    assert "ld.global" not in ptx and "st.global" not in ptx
    assemble(ptx, "sm_90a")


def test_maps_multiply_arguments() -> None:
    artifact = CASES["images"].compile("nvptx:sm_90a").artifact
    (image, *_) = LaunchMetadata.of(artifact.launch_metadata).maps
    n, h, w, c, _ = range(3, 8)
    assert image.extents == tuple(LaunchValue((at,), 1, 32) for at in (n, h, w, c))
    assert [{*value.parameters} for value in image.strides] == [{h, w, c}, {w, c}, {c}]
    assert image.box_dim == (1, 8, 8, 16) and image.swizzle == 32
    arguments = [0, 0, 0, 2, 12, 20, 80, 32]
    assert [value.value(arguments) for value in image.strides] == [12 * 20 * 80, 20 * 80, 80]


def test_launch_values_wrap_as_in_the_kernel() -> None:
    value = LaunchValue((0, 1), 3, 32)
    assert value.value([1 << 20, 1 << 11]) == -(1 << 31)
    assert LaunchValue((0, 1), 3).value([1 << 20, 1 << 11]) == 3 << 31


@tile.jit
def flat(x_ptr, y_ptr, M, N, B: tl.constexpr, D: tl.constexpr):
    """The columns of a block, one after the other."""
    x = tl.make_tensor_descriptor(x_ptr, [M, N], [N, 1], [B, D])
    y = tl.make_tensor_descriptor(y_ptr, [M * N], [1], [B * D])
    row = tl.program_id(0) * B
    y.store([row * D], tl.trans(x.load([row, 0])).reshape(B * D))


@tile.jit
def transposed(x_ptr, y_ptr, M, N, B: tl.constexpr, D: tl.constexpr):
    """The transpose of a block."""
    x = tl.make_tensor_descriptor(x_ptr, [M, N], [N, 1], [B, D])
    y = tl.make_tensor_descriptor(y_ptr, [N, M], [M, 1], [D, B])
    row = tl.program_id(0) * B
    y.store([0, row], tl.trans(x.load([row, 0])))


def stores(kernel: Any, element: str, dtype: Any) -> Kernel:
    m, n = 112, 32

    def arguments() -> list[Any]:
        array = np.random.default_rng(0).integers(-9, 9, (m, n)).astype(dtype)
        out = np.zeros((m * n,) if kernel is flat else (n, m), dtype)
        return [array, out, np.int32(m), np.int32(n)]

    signature = {"x_ptr": f"*{element}:16", "y_ptr": f"*{element}:16", "M": "i32:16", "N": "i32:16"}
    return Kernel(kernel, signature, {"B": 64, "D": 32}, (2, 1, 1), arguments)


STORES = {
    "f32": stores(transposed, "fp32", np.float32),
    "f64": stores(transposed, "fp64", np.float64),
    "i8": stores(transposed, "i8", np.int8),
    "i32": stores(transposed, "i32", np.int32),
    "rank 1": stores(flat, "fp32", np.float32),
}


@pytest.mark.parametrize("name", STORES)
def test_stores_of_any_element(name: str) -> None:
    case = STORES[name]
    assert not count(lowered(case, WGMMA, 4, 2), "tma_store")
    module = lowered(case, WGMMA, 4, 2, tma="stores")
    assert count(module, "tma_store") == 1 and not count(module, "store")
    arguments = case.arguments()
    run_threads(module, WGMMA, 4, case.grid, arguments)
    x, y, *_ = arguments
    blocks = [x[:64].T.ravel(), np.pad(x[64:], ((0, 16), (0, 0))).T.ravel()]
    expected = np.concatenate(blocks)[: y.size] if y.ndim == 1 else x.T
    np.testing.assert_array_equal(y, expected)
    kinds = {ops.tma.tma_store_wait, ops.wgmma.fence_proxy_async}
    reported = 0
    for removed, broken in without_each(module):
        if removed.defn in kinds:
            reported += 1
            with pytest.raises(FAULTS[removed.defn]):
                run_threads(broken, WGMMA, 4, case.grid, case.arguments())
    assert reported == 2
    ptx = case.compile("nvptx:sm_90a", tma="stores").artifact.stages["ptx"]
    assert "st.global" not in ptx
    assemble(ptx, "sm_90a")


def test_the_option_names_uses() -> None:
    case = STORES["f32"]
    names = r"joined by \+, of pointers, reduce, stores, strips, not 'load'"
    with pytest.raises(ArgumentError, match=names):
        case.compile("interp", tma="stores+load")
    with pytest.raises(
        ArgumentError, match=r"tma is a text such as 'stores\+pointers' or None, not True"
    ):
        case.compile("interp", tma=True)
