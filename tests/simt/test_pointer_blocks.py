"""Loads and stores through pointers that are proven to be those of TMA blocks."""

from __future__ import annotations

import warnings
from dataclasses import replace
from pathlib import Path
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
from tile.ir.module import Module
from tile.simt.target import WGMMA

BM, BN, BK = 64, 64, 32


@tile.jit
def masked(a_ptr, b_ptr, c_ptr, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """All indices are masked, and computed from the induction variable."""
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    columns = tl.program_id(1) * BN + tl.arange(0, BN)
    total = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, K, BK):
        inner = k + tl.arange(0, BK)
        in_a = (rows < M)[:, None] & (inner < K)[None, :]
        in_b = (inner < K)[:, None] & (N > columns)[None, :]
        a = tl.load(a_ptr + rows[:, None] * K + inner[None, :], mask=in_a, other=0)
        b = tl.load(b_ptr + inner[:, None] * N + columns[None, :], mask=in_b, other=0)
        total = tl.dot(a, b, total)
    in_c = (rows < M)[:, None] & (columns < N)[None, :]
    tl.store(c_ptr + rows[:, None] * N + columns[None, :], total.to(tl.float16), mask=in_c)


@tile.jit
def tutorial(
    a_ptr, b_ptr, c_ptr, M, N, K, am, ak, bk, bn, cm, cn, BM: tl.constexpr, BN: tl.constexpr,
    BK: tl.constexpr, GROUP: tl.constexpr,
):  # fmt: skip
    """The matmul of Triton's tutorial: rows modulo M, and pointers that the loop advances."""
    program = tl.program_id(0)
    tiles_m, tiles_n = tl.cdiv(M, BM), tl.cdiv(N, BN)
    in_group = GROUP * tiles_n
    first = program // in_group * GROUP
    group = min(tiles_m - first, GROUP)
    row = first + program % in_group % group
    column = program % in_group // group
    tl.assume(row >= 0)
    tl.assume(column >= 0)
    rows = (row * BM + tl.arange(0, BM)) % M
    columns = (column * BN + tl.arange(0, BN)) % N
    inner = tl.arange(0, BK)
    a_ptrs = a_ptr + (rows[:, None] * am + inner[None, :] * ak)
    b_ptrs = b_ptr + (inner[:, None] * bk + columns[None, :] * bn)
    total = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(tl.cdiv(K, BK)):
        a = tl.load(a_ptrs, mask=inner[None, :] < K - k * BK, other=0.0)
        b = tl.load(b_ptrs, mask=inner[:, None] < K - k * BK, other=0.0)
        total = tl.dot(a, b, total)
        a_ptrs += BK * ak
        b_ptrs += BK * bk
    c = total.to(tl.float16)
    rows = row * BM + tl.arange(0, BM)
    columns = column * BN + tl.arange(0, BN)
    c_ptrs = c_ptr + cm * rows[:, None] + cn * columns[None, :]
    tl.store(c_ptrs, c, mask=(rows[:, None] < M) & (columns[None, :] < N))


@tile.jit
def hinted(a_ptr, b_ptr, c_ptr, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """Remainders that are stated to count up, of b in one way and of a in the other; no masks."""
    tl.assume(M % BM == 0)
    row, column = tl.program_id(0) * BM, tl.program_id(1) * BN
    rows = (row + tl.arange(0, BM)) % M
    columns = tl.max_contiguous(tl.multiple_of((column + tl.arange(0, BN)) % N, BN), BN)
    inner = tl.arange(0, BK)
    a_ptrs = a_ptr + rows[:, None] * K + inner[None, :]
    b_ptrs = b_ptr + inner[:, None] * N + columns[None, :]
    total = tl.zeros((BM, BN), dtype=tl.float32)
    for _ in range(0, K, BK):
        total = tl.dot(tl.load(a_ptrs), tl.load(b_ptrs), total)
        a_ptrs += BK
        b_ptrs += BK * N
    rows, columns = row + tl.arange(0, BM), column + tl.arange(0, BN)
    tl.store(c_ptr + rows[:, None] * N + columns[None, :], total.to(tl.float16))


@tile.jit
def shifted(x_ptr, w_ptr, y_ptr, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """A convolution of three rows: the first rows of a block may lie before the array."""
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    columns = tl.program_id(1) * BN + tl.arange(0, BN)
    total = tl.zeros((BM, BN), dtype=tl.float32)
    for shift in tl.static_range(3):
        moved = rows + (shift - 1)
        inside = (moved >= 0) & (moved < M)
        for k in range(0, K, BK):
            inner = k + tl.arange(0, BK)
            in_x, in_w = inside[:, None] & (inner < K)[None, :], (inner < K)[:, None]
            x = tl.load(x_ptr + moved[:, None] * K + inner[None, :], mask=in_x)
            w = tl.load(w_ptr + inner[:, None] * N + columns[None, :], mask=in_w)
            total = tl.dot(x, w, total)
    in_y = (rows < M)[:, None] & (columns < N)[None, :]
    tl.store(y_ptr + rows[:, None] * N + columns[None, :], total.to(tl.float16), mask=in_y)


@tile.jit
def batched(
    a_ptr, b_ptr, c_ptr, M, N, K, ab, bb, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr
):  # fmt: skip
    """Matmuls of matrices that follow each other: a by a stride, b transposed, c by its extents."""
    batch = tl.program_id(2).to(tl.int64)
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    columns = tl.program_id(1) * BN + tl.arange(0, BN)
    inner = tl.arange(0, BK)
    a_ptrs = a_ptr + batch * ab + (rows % M)[:, None] * K + inner[None, :]
    b_ptrs = b_ptr + batch * bb + inner[:, None] + (columns % N)[None, :] * K
    total = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, K, BK):
        a = tl.load(a_ptrs, mask=inner[None, :] < K - k, other=0.0)
        b = tl.load(b_ptrs, mask=inner[:, None] < K - k, other=0.0)
        total = tl.dot(a, b, total)
        a_ptrs += BK
        b_ptrs += BK
    in_c = (rows < M)[:, None] & (columns < N)[None, :]
    c_ptrs = c_ptr + batch * M * N + rows[:, None] * N + columns[None, :]
    tl.store(c_ptrs, total.to(tl.float16), mask=in_c)


@tile.jit
def padded(a_ptr, b_ptr, c_ptr, M, N, K, bk, bn, BM: tl.constexpr, BK: tl.constexpr):
    """A matmul with tiles of 256 columns, of which 128 and 16 are stored."""
    rows, columns = tl.program_id(0) * BM, tl.program_id(1) * 144
    row, column, inner = tl.arange(0, BM), columns + tl.arange(0, 256), tl.arange(0, BK)
    a_ptrs = a_ptr + ((rows + row) % M)[:, None] * K + inner[None, :]
    b_ptrs = b_ptr + inner[:, None] * bk + (column % N)[None, :] * bn
    total = tl.zeros((BM, 256), dtype=tl.float32)
    for k in range(0, K, BK):
        a = tl.load(a_ptrs, mask=inner[None, :] < K - k, other=0.0)
        b = tl.load(b_ptrs, mask=inner[:, None] < K - k, other=0.0)
        total = tl.dot(a, b, total)
        a_ptrs += BK
        b_ptrs += BK * bk
    total = total.to(tl.float16)
    low, high = tl.split(total.reshape(BM, 2, 128).permute(0, 2, 1))
    c_ptrs = c_ptr + (rows + row)[:, None] * N
    column = columns + tl.arange(0, 128)
    inside = (rows + row < M)[:, None]
    tl.store(c_ptrs + column[None, :], low, mask=inside & (column < N)[None, :])
    last = columns + 128 + tl.arange(0, 16)
    for _ in tl.static_range(3):
        high, _ = tl.split(high.reshape(BM, 2, high.shape[1] // 2).permute(0, 2, 1))
    tl.store(c_ptrs + last[None, :], high, mask=inside & (last < N)[None, :])


@tile.jit
def weighted(w_ptr, x_ptr, sums_ptr, y_ptr, N, K: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr):
    """As in the gradients of attention, with a number of each row that the loop loads."""
    first = tl.program_id(0) * N
    rows, inner = tl.arange(0, BM), tl.arange(0, K)
    w = tl.load(w_ptr + rows[:, None] * K + inner[None, :])
    total = tl.zeros((BM, K), tl.float32)
    for start in range(0, N, BN):
        row = start + tl.arange(0, BN)
        x = tl.load(x_ptr + (first + row[:, None]) * K + inner[None, :])
        scores = tl.dot(w, tl.trans(x))
        p = tl.exp2(scores - tl.load(sums_ptr + first + row)[None, :])
        total = tl.dot(p.to(tl.float16), x, total)
    at = (tl.program_id(0) * BM + rows)[:, None] * K + inner[None, :]
    tl.store(y_ptr + at, total.to(tl.float16))


POINTERS = dict.fromkeys(("a_ptr", "b_ptr", "c_ptr"), "*fp16:16")
BLOCKS = {"BM": BM, "BN": BN, "BK": BK}


def wanted(m: int, n: int, k: int) -> tuple[Any, Any, Any]:
    a, b = numbers(m, k, dtype=np.float16, seed=1), numbers(k, n, dtype=np.float16, seed=2)
    return a, b, a.astype(np.float32) @ b.astype(np.float32)


def case(kernel: Any, m: int, n: int, k: int, **constants: Any) -> Kernel:
    def arguments() -> list[Any]:
        a, b, _ = wanted(m, n, k)
        return [a, b, np.zeros((m, n), np.float16), *map(np.int32, (m, n, k))]

    names = [parameter.name for parameter in kernel.parameters[:3]]
    signature = {**dict.fromkeys(names, "*fp16:16"), **dict.fromkeys("MNK", "i32:8")}
    grid = (tile.cdiv(m, BM), tile.cdiv(n, BN), 1)
    return Kernel(kernel, signature, {**BLOCKS, **constants}, grid, arguments)


def tutorial_case(m: int, n: int, k: int, *, by_columns: bool = False) -> Kernel:
    """A matmul of arrays by rows, or of arrays by columns with the result by rows."""

    def arguments() -> list[Any]:
        a, b, _ = wanted(m, n, k)
        if by_columns:
            a, b = np.ascontiguousarray(a.T), np.ascontiguousarray(b.T)
        strides = (m, k) if by_columns else (k, n)
        return [a, b, np.zeros((m, n), np.float16), *map(np.int32, (m, n, k, *strides, n))]

    strides = {"am": "i32:8", "ak": "i32:8", "bk": "i32:8", "bn": "i32:8", "cm": "i32:8"}
    ones = {"cn": 1, **dict.fromkeys(("am", "bk") if by_columns else ("ak", "bn"), 1)}
    strides = {name: ty for name, ty in strides.items() if name not in ones}
    signature = {**POINTERS, **dict.fromkeys("MNK", "i32:8"), **strides}
    grid = (tile.cdiv(m, BM) * tile.cdiv(n, BN), 1, 1)
    return Kernel(tutorial, signature, {**BLOCKS, "GROUP": 2, **ones}, grid, arguments)


def batched_case(count: int, m: int, n: int, k: int) -> Kernel:
    def arguments() -> list[Any]:
        a = numbers(count, m, k, dtype=np.float16, seed=1)
        b = numbers(count, n, k, dtype=np.float16, seed=2)
        return [
            a, b, np.zeros((count, m, n), np.float16), *map(np.int32, (m, n, k, m * k, n * k))
        ]  # fmt: skip

    signature = {**POINTERS, **dict.fromkeys([*"MNK", "ab", "bb"], "i32:8")}
    grid = (tile.cdiv(m, BM), tile.cdiv(n, BN), count)
    return Kernel(batched, signature, BLOCKS, grid, arguments)


def padded_case(m: int, n: int, k: int, *, by_columns: bool) -> Kernel:
    """A matmul with b by rows or by columns."""

    def arguments() -> list[Any]:
        a, b, _ = wanted(m, n, k)
        b = np.ascontiguousarray(b.T) if by_columns else b
        stride = k if by_columns else n
        return [a, b, np.zeros((m, n), np.float16), *map(np.int32, (m, n, k, stride))]

    name, one = ("bn", "bk") if by_columns else ("bk", "bn")
    signature = {**POINTERS, **dict.fromkeys([*"MNK", name], "i32:8")}
    grid = (tile.cdiv(m, BM), tile.cdiv(n, 144), 1)
    return Kernel(padded, signature, {"BM": BM, "BK": 64, one: 1}, grid, arguments)


CASES = {
    "masked": case(masked, 72, 88, 144),
    "tutorial": tutorial_case(136, 88, 144),
    "tutorial, whole blocks": tutorial_case(128, 64, 96),
    "tutorial, by columns": tutorial_case(136, 88, 144, by_columns=True),
    "hinted": case(hinted, 128, 64, 96),
}


def count(module: Module, *names: str) -> int:
    return sum(op.name in names for op in module.walk())


def run(module: Module, case: Kernel) -> np.ndarray:
    arguments = case.arguments()
    run_threads(module, WGMMA, 4, case.grid, arguments)
    return arguments[2]


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("stages", [2, 3])
def test_results_and_removals(name: str, stages: int) -> None:
    """TMA copies all blocks, results are the same to the bit, and each barrier is needed."""
    case = CASES[name]
    module = lowered(case, WGMMA, 4, stages, tma="pointers")
    assert count(module, "tma_load") == 2 * stages and count(module, "tma_store") == 1
    assert not count(module, "load", "store", "shared_cp_async", "shared_load")
    plain = lowered(case, WGMMA, 4, stages, tma="")
    assert not count(plain, "tma_load", "tma_store")
    result = run(module, case)
    np.testing.assert_array_equal(result, run(plain, case))
    *_, expected = wanted(*map(int, case.arguments()[3:6]))
    np.testing.assert_allclose(result.astype(np.float32), expected, atol=0.05)
    if stages == 2 and name == "tutorial":
        for removed, broken in without_each(module):
            with pytest.raises(FAULTS[removed.defn]):
                run(broken, case)


@pytest.mark.parametrize("name", CASES)
def test_a_producer_copies_blocks(name: str) -> None:
    """The loop loses the pointers that it carried, as nothing of the program needs them."""
    case = CASES[name]
    module = lowered(case, WGMMA, 4, 3, warp_specialize=True)
    assert count(module, "warp_specialize") == 1 and count(module, "tma_load")
    plain = lowered(case, WGMMA, 4, 3, tma="")
    np.testing.assert_array_equal(run(module, case), run(plain, case))


@pytest.mark.parametrize("by_columns", [False, True])
def test_columns_that_are_not_stored_are_not_loaded(by_columns: bool) -> None:
    """TMA loads whole strips of 64 columns, or as many rows as columns are stored."""
    case = padded_case(72, 184, 200, by_columns=by_columns)
    module = lowered(case, WGMMA, 4, 2, tma="pointers")
    extents = {op["extents"] for op in module.walk() if op.name == "tma_load"}
    assert extents == {(), (144, 64) if by_columns else (64, 144)}
    sizes = {op["size"] for op in module.walk() if op.name == "mbarrier_arrive_expect_tx"}
    assert sizes == {(BM + (144 if by_columns else 192)) * 64 * 2}
    assert count(module, "tma_store") == 2 and not count(module, "load", "store")
    result = run(module, case)
    np.testing.assert_array_equal(result, run(lowered(case, WGMMA, 4, 2, tma=""), case))
    *_, expected = wanted(72, 184, 200)
    np.testing.assert_allclose(result.astype(np.float32), expected, atol=0.1)


def test_blocks_may_start_before_the_array() -> None:
    kernel = case(shifted, 72, 64, 64)
    module = lowered(kernel, WGMMA, 4, 2, tma="pointers")
    assert count(module, "tma_load") and not count(module, "load", "shared_cp_async")
    result = run(module, kernel)
    np.testing.assert_array_equal(result, run(lowered(kernel, WGMMA, 4, 2, tma=""), kernel))
    a, b, _ = wanted(72, 64, 64)
    padded = np.pad(a, ((1, 1), (0, 0))).astype(np.float32)
    expected = sum(padded[i : i + 72] @ b.astype(np.float32) for i in range(3))
    np.testing.assert_allclose(result.astype(np.float32), expected, atol=0.1)


def test_matrices_in_larger_arrays() -> None:
    """The block has an axis more, whose index has no bound."""
    kernel = batched_case(2, 72, 88, 80)
    module = lowered(kernel, WGMMA, 4, 2, tma="pointers")
    assert count(module, "tma_load") == 4 and count(module, "tma_store") == 1
    assert not count(module, "load", "store", "shared_cp_async")
    result = run(module, kernel)
    np.testing.assert_array_equal(result, run(lowered(kernel, WGMMA, 4, 2, tma=""), kernel))
    a, b, *_ = kernel.arguments()
    expected = a.astype(np.float32) @ b.astype(np.float32).swapaxes(1, 2)
    np.testing.assert_allclose(result.astype(np.float32), expected, atol=0.05)
    maps = LaunchMetadata.of(
        kernel.compile("nvptx:sm_90a", tma="pointers").artifact.launch_metadata
    ).maps
    unbounded = LaunchValue((), -(1 << 31), 32)
    m, n, k, ab, bb = (LaunchValue((at,), 1, 32) for at in range(3, 8))
    assert [one.extents for one in maps] == [
        (unbounded, m, k),
        (unbounded, n, k),
        (unbounded, m, n),
    ]
    assert [one.strides[-1] for one in maps] == [k, k, n]
    assert [one.strides[0] for one in maps[:2]] == [ab, bb]
    assert set(maps[2].strides[0].parameters) == {3, 4}


WEIGHTED = Kernel(
    weighted,
    {
        **dict.fromkeys(("w_ptr", "x_ptr", "y_ptr"), "*fp16:16"),
        "sums_ptr": "*fp32:16",
        "N": "i32:8",
    },
    {"K": 64, "BM": 64, "BN": 64},
    (2, 1, 1),
    lambda: [
        numbers(64, 64, dtype=np.float16, seed=1) / 8,
        numbers(2 * 192, 64, dtype=np.float16, seed=2),
        numbers(2 * 192, dtype=np.float32, seed=3) + 4,
        np.zeros((2 * 64, 64), np.float16),
        np.int32(192),
    ],
)


@pytest.mark.parametrize("specialized", [False, True])
def test_vectors(specialized: bool) -> None:
    """TMA copies a loop's vectors with its matrices, and each barrier is needed."""
    module = lowered(WEIGHTED, WGMMA, 4, 2, warp_specialize=specialized)
    assert count(module, "tma_load") == (2 if specialized else 4)
    assert count(module, "warp_specialize") == specialized
    assert not count(module, "shared_cp_async")

    def result(module: Module) -> np.ndarray:
        arguments = WEIGHTED.arguments()
        run_threads(module, WGMMA, 4, WEIGHTED.grid, arguments)
        return arguments[3]

    plain = lowered(WEIGHTED, WGMMA, 4, 2, tma="")
    assert not count(plain, "tma_load")
    np.testing.assert_array_equal(result(module), result(plain))
    w, x, sums, *_ = WEIGHTED.arguments()
    wide = x.reshape(2, 192, 64).astype(np.float64)
    p = np.exp2(w.astype(np.float64) @ wide.swapaxes(1, 2) - sums.reshape(2, 1, 192))
    np.testing.assert_allclose(result(module).reshape(2, 64, 64), p @ wide, atol=0.02, rtol=0.01)
    if not specialized:
        for removed, broken in without_each(module):
            with pytest.raises(FAULTS[removed.defn]):
                result(broken)


def test_vectors_whose_stages_are_not_aligned_for_tma() -> None:
    """Those of 64 bytes, of which the second one would begin at a multiple of 64, are copied by threads."""
    narrow = replace(WEIGHTED, constants={**WEIGHTED.constants, "BN": 16})
    module = lowered(narrow, WGMMA, 4, 2, warp_specialize=False)
    assert count(module, "tma_load") == 2 and count(module, "shared_cp_async")
    arguments = narrow.arguments()
    run_threads(module, WGMMA, 4, narrow.grid, arguments)
    assert arguments[3].any()


def test_maps_of_vectors() -> None:
    """A vector is a block of a matrix, whose rows are along the axis of the programs."""
    artifact = WEIGHTED.compile("nvptx:sm_90a", num_stages=2).artifact
    sums = next(
        one
        for one in LaunchMetadata.of(artifact.launch_metadata).maps
        if len(one.extents) == 2 and one.strides == (LaunchValue((4,), 1, 32),)
    )
    assert sums.extents == (LaunchValue((), -(1 << 31), 32),) * 2
    assert "cp.async.cg" not in artifact.stages["ptx"]
    assemble(artifact.stages["ptx"], "sm_90a")


@pytest.mark.parametrize("name", CASES)
def test_ptx(name: str) -> None:
    artifact = CASES[name].compile("nvptx:sm_90a", num_stages=3, tma="pointers").artifact
    ptx = artifact.stages["ptx"]
    assert "cp.async.bulk.tensor.2d.shared::cluster.global" in ptx
    assert "ld.global" not in ptx and "st.global" not in ptx and "cp.async.cg" not in ptx
    assemble(ptx, "sm_90a")


def test_maps() -> None:
    artifact = CASES["tutorial"].compile("nvptx:sm_90a", tma="pointers").artifact
    a, b, c = LaunchMetadata.of(artifact.launch_metadata).maps
    m, n, k, am, bk, cm = (LaunchValue((at,), 1, 32) for at in range(3, 9))
    assert (a.extents, a.strides) == ((m, k), (am,))
    assert (b.extents, b.strides) == ((k, n), (bk,))
    assert (c.extents, c.strides) == ((m, n), (cm,))


def test_machines_without_tma_load_through_pointers() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        artifact = CASES["masked"].compile("nvptx:sm_80", tma="pointers").artifact
    assert "cp.async.bulk" not in artifact.stages["ptx"]


@tile.jit
def faulty(
    a_ptr, b_ptr, c_ptr, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
    FAULT: tl.constexpr,
):  # fmt: skip
    """A matmul whose loads of a are not those of blocks, each for another reason."""
    row, column = tl.program_id(0) * BM, tl.program_id(1) * BN
    rows = (row + tl.arange(0, BM)) % M
    if FAULT == "start":
        rows = (row + 1 + tl.arange(0, BM)) % M
    if FAULT == "negative":
        rows = (row + K - N + tl.arange(0, BM)) % M  # K is N, which is not known
    columns = column + tl.arange(0, BN)
    inner = tl.arange(0, BK)
    a_ptrs = a_ptr + rows[:, None] * K + inner[None, :]
    total = tl.zeros((BM, BN), dtype=tl.float32)
    end = K
    if FAULT == "end":
        end = K - 1
    for k in range(0, K, BK):
        in_a = inner[None, :] < end - k
        if FAULT == "still":
            in_a = inner[None, :] < K
        if FAULT == "rows":
            in_a = in_a & (rows < M // 2)[:, None]
        a = tl.load(a_ptrs, mask=in_a, other=0)
        in_b = (k + inner < K)[:, None] & (columns < N)[None, :]
        b = tl.load(b_ptr + (k + inner)[:, None] * N + columns[None, :], mask=in_b, other=0)
        if FAULT == "sum":
            a += tl.sum(a, axis=0)[None, :]
        if FAULT == "dots":
            a = tl.dot(a, tl.dot(tl.trans(a), a).to(a.dtype)).to(a.dtype)
        total = tl.dot(a, b, total)
        if FAULT == "advance":
            a_ptrs += tl.maximum(k // K + BK, BK)
        else:
            a_ptrs += BK
    rows = row + tl.arange(0, BM)
    in_c = columns[None, :] < N
    if FAULT == "store":
        in_c = (rows[:, None] < M + 8) & in_c
    elif FAULT == "start":
        in_c = (rows[:, None] + 1 < M + 1) & in_c
    elif FAULT != "no mask":
        in_c = (rows[:, None] < M) & in_c
    if FAULT == "flip":
        total = tl.flip(total, 0)
    tl.store(c_ptr + rows[:, None] * N + columns[None, :], total.to(tl.float16), mask=in_c)


REMAINDERS = "its indices are remainders, of which the block has those below the divisor, and "
FAULTY = {
    "start": f"{REMAINDERS}store uses them, as its mask does not leave them out",
    "negative": "`rem` is not that of a start, which is not negative, plus an index",
    "end": "the bound of the mask, from the array's start, is not known when the kernel is",
    "still": "the bound of the mask, from the array's start, is not known when the kernel is",
    "rows": "the mask compares a remainder",
    "sum": f"{REMAINDERS}reduce uses them",
    "dots": f"{REMAINDERS}dot uses them, as it sums over them",
    "advance": "a loop does not add the same in each iteration",
    "store": f"{REMAINDERS}store uses them, as its mask does not leave them out",
    "no mask": f"{REMAINDERS}store uses them, as its mask does not leave them out",
    "flip": f"{REMAINDERS}flip uses them",
}


@pytest.mark.parametrize("fault", FAULTY)
def test_other_loads_stay(fault: str) -> None:
    """They are warned of at their line, and results are the same."""
    kernel = case(faulty, 72, 64, 64, FAULT=fault)
    if fault in ("store", "no mask"):  # these write rows after the last one
        kernel = case(faulty, 128, 64, 64, FAULT=fault)
    with pytest.warns(RuntimeWarning, match="not proven to be that of a TMA block") as warned:
        module = lowered(kernel, WGMMA, 4, 2, tma="pointers")
    line = next(n for n, text in enumerate(SOURCE, 1) if "tl.load(a_ptrs, mask=in_a" in text)
    assert [(w.lineno, FAULTY[fault] in str(w.message)) for w in warned] == [(line, True)]
    assert count(module, "load", "shared_cp_async")
    plain = lowered(kernel, WGMMA, 4, 2, tma="")
    np.testing.assert_array_equal(run(module, kernel), run(plain, kernel))


@tile.jit
def accumulated(a_ptr, b_ptr, c_ptr, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """Sums of matmuls of one tile and those before it: rows after the last one count for the next."""
    columns = tl.arange(0, BN)
    total = tl.zeros((BM, BN), dtype=tl.float32)
    for row in range(0, M, BM):
        rows, inner = row + tl.arange(0, BM), tl.arange(0, BK)
        for k in range(0, K, BK):
            in_a, in_b = inner[None, :] < K - k, inner[:, None] < K - k
            a = tl.load(a_ptr + (rows % M)[:, None] * K + (k + inner)[None, :], mask=in_a, other=0)
            b = tl.load(b_ptr + (k + inner)[:, None] * N + columns[None, :], mask=in_b, other=0)
            total = tl.dot(a, b, total)
        in_c = (rows < M)[:, None] & (columns < N)[None, :]
        tl.store(c_ptr + rows[:, None] * N + columns[None, :], total.to(tl.float16), mask=in_c)


def test_rows_that_another_iteration_uses() -> None:
    kernel = case(accumulated, 168, 64, 64)
    kernel = replace(kernel, grid=(1, 1, 1))
    with pytest.warns(RuntimeWarning, match="as another iteration has them, too"):
        module = lowered(kernel, WGMMA, 4, 2, tma="pointers")
    np.testing.assert_array_equal(
        run(module, kernel), run(lowered(kernel, WGMMA, 4, 2, tma=""), kernel)
    )


SOURCE = Path(__file__).read_text().splitlines()
