"""Dots that threads add up: in parts of columns if a thread has too few registers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tile
import tile.language as tl
from tests.simt.kernels import Kernel, numbers
from tests.simt.synchronization import lowered
from tile.backends.interp.simulator.thread_kernel import run_threads
from tile.ir.core import Operation
from tile.ir.module import Module
from tile.simt import ops
from tile.simt.target import WGMMA

E4M3 = ml_dtypes.float8_e4m3fn
FEW = replace(WGMMA, registers=255)
PLENTY = replace(WGMMA, registers=400)
TYPES = {
    **dict.fromkeys(("a_ptr", "b_ptr"), "*fp8e4nv:16"), "scale_ptr": "*fp32:16", "c_ptr": "*fp32:16"
}  # fmt: skip


@tile.jit
def promoted(
    a_ptr, b_ptr, scale_ptr, c_ptr, K, BM: tl.constexpr, BN: tl.constexpr, HOW: tl.constexpr
):
    row, column, inner = tl.arange(0, BM), tl.arange(0, BN), tl.arange(0, 64)
    total = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, K, 64):
        a = tl.load(a_ptr + row[:, None] * K + k + inner[None, :])
        b = tl.load(b_ptr + column[None, :] * K + k + inner[:, None])
        if HOW == "scaled":
            scale = tl.load(scale_ptr + k // 64 * BM + row)
            total += tl.dot(a, b, max_num_imprecise_acc=64) * scale[:, None]
        elif HOW == "read":
            part = tl.dot(a, b, max_num_imprecise_acc=64)
            total += part * tl.max(part, axis=1)[:, None]
        else:
            total = tl.dot(a, b, total, max_num_imprecise_acc=64)
    inside = (row < BM)[:, None] & (column < (160 if HOW == "padded" else BN))[None, :]
    tl.store(c_ptr + row[:, None] * BN + column[None, :], total, mask=inside)


def kernel(how: str, bm: int = 64, bn: int = 256, k: int = 192) -> Kernel:
    def arguments() -> list[Any]:
        a, b = numbers(bm, k, dtype=E4M3), numbers(bn, k, dtype=E4M3, seed=1)
        scale = np.float32(2) ** np.arange(-2, 1).repeat(bm).astype(np.float32)
        return [a, b, scale, np.zeros((bm, bn), np.float32), np.int32(k)]

    types, sizes = {**TYPES, "K": "i32:16"}, {"BM": bm, "BN": bn, "HOW": how}
    return Kernel(promoted, types, sizes, (1, 1, 1), arguments)


def dots(module: Module) -> list[Operation]:
    return [op for op in module.walk() if op.defn is ops.wgmma.wgmma]


@pytest.mark.parametrize("how", ["added", "scaled"])
@pytest.mark.parametrize("warp_specialize", [False, True])
def test_results_are_the_same(how: str, warp_specialize: bool) -> None:
    results = []
    for target, count in ((PLENTY, 1), (FEW, 2)):
        case = kernel(how)
        module = lowered(case, target, 4, 3, warp_specialize=warp_specialize)
        assert [op["shape"][1] for op in dots(module)] == [256 // count] * count
        arguments = case.arguments()
        run_threads(module, target, 4, (1, 1, 1), arguments)
        results.append(arguments[3])
    np.testing.assert_array_equal(*results)
    a, b, scale, _, k = case.arguments()
    scales = scale.reshape(-1, 64).T if how == "scaled" else np.ones((64, k // 64))
    wanted = np.einsum(
        "mgk,ngk,mg->mn",
        *(x.astype(np.float64).reshape(len(x), -1, 64) for x in (a, b)),
        scales,
    )
    np.testing.assert_allclose(results[0], wanted, rtol=0, atol=2e-2)


def test_what_is_read_otherwise_stays_whole() -> None:
    """A sum over the columns needs all of them."""
    module = lowered(kernel("read"), FEW, 4, 3)
    assert [op["shape"][1] for op in dots(module)] == [256]


def test_narrow_tiles_stay_whole() -> None:
    module = lowered(kernel("added", bn=128), replace(FEW, registers=120), 4, 3)
    assert [op["shape"][1] for op in dots(module)] == [64, 64]
    module = lowered(kernel("added", bn=64), replace(FEW, registers=60), 4, 3)
    assert [op["shape"][1] for op in dots(module)] == [64]


def test_dots_of_used_columns_stay_whole() -> None:
    """160 of 256 columns take 80 registers of a thread twice."""
    case = kernel("padded")
    module = lowered(case, FEW, 4, 3)
    assert [(op["shape"][1], op["columns"]) for op in dots(module)] == [(256, 160)]
    arguments = case.arguments()
    run_threads(module, FEW, 4, (1, 1, 1), arguments)
    a, b, _, result, _ = arguments
    wanted = a.astype(np.float64) @ b.astype(np.float64).T
    np.testing.assert_allclose(result[:, :160], wanted[:, :160], rtol=0, atol=2e-2)
    assert not result[:, 160:].any()
