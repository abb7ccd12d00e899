"""Dots of 8-bit floats that threads add up: producers, and registers."""

from __future__ import annotations

import warnings
from typing import Any

import pytest

import tile
import tile.language as tl
from tests.backends.nvptx.assembling import assemble

SIGNATURE = {
    **dict.fromkeys(("a_ptr", "b_ptr"), "*fp8e4nv:16"),
    "c_ptr": "*bf16:16",
    **dict.fromkeys("MNK", "i32:16"),
}


@tile.jit
def matmul(
    a_ptr,
    b_ptr,
    c_ptr,
    M,
    N,
    K,
    BM: tl.constexpr,
    BN: tl.constexpr,
    LIMIT: tl.constexpr = 128,
    COLUMNS: tl.constexpr = 256,
):
    a = tl.make_tensor_descriptor(a_ptr, [M, K], [K, 1], [BM, 128])
    b = tl.make_tensor_descriptor(b_ptr, [N, K], [K, 1], [BN, 128])
    columns = tl.cdiv(N, BN)
    row, column = tl.program_id(0) // columns * BM, tl.program_id(0) % columns * BN
    total = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, K, 128):
        x, y = a.load([row, k]), tl.trans(b.load([column, k]))
        total = tl.dot(x, y, total, max_num_imprecise_acc=LIMIT)
    rows, columns = row + tl.arange(0, BM), column + tl.arange(0, BN)
    inside = (tl.arange(0, BN) < COLUMNS)[None, :]
    tl.store(c_ptr + rows[:, None] * N + columns[None, :], total.to(tl.bfloat16), mask=inside)


def has_producer(bm: int, bn: int, warps: int, limit: int = 128, **options: Any) -> bool:
    constants = {"BM": bm, "BN": bn, "LIMIT": limit}
    options = {"num_warps": warps, "num_stages": 3, **options}
    text = tile.compile(matmul, SIGNATURE, constants, options, "nvptx:sm_90a").asm["ptx"]
    return "setmaxnreg" in text


def test_one_warpgroup_adds_while_the_other_multiplies() -> None:
    assert has_producer(128, 128, 8)


def test_without_a_second_warpgroup_or_additions_there_is_none() -> None:
    assert not has_producer(64, 128, 4)
    assert not has_producer(128, 128, 8, limit=1 << 30)
    assert not has_producer(128, 128, 8, warp_specialize=False)


def test_registers_for_a_producer() -> None:
    """Sixteen warps with two tiles of sums have none left."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert not has_producer(128, 256, 16)
    reason = "tiles of a thread take 128 registers, and a producer leaves 112 to each thread of 16"
    with pytest.warns(RuntimeWarning, match=reason):
        assert not has_producer(128, 256, 16, warp_specialize=True)


@pytest.mark.parametrize("warp_specialize", [None, False])
def test_two_tiles_of_sums_do_not_spill(warp_specialize: bool | None) -> None:
    """A thread adds up 128 columns at a time, of the 256 that it holds sums of."""
    constants = {"BM": 128, "BN": 256}
    options = {"num_warps": 8, "num_stages": 3, "warp_specialize": warp_specialize}
    ptx = str(tile.compile(matmul, SIGNATURE, constants, options, "nvptx:sm_90a").asm["ptx"])
    assert ptx.count("wgmma.mma_async.sync.aligned.m64n128k32") == 8
    said = assemble(ptx, "sm_90a")
    assert "C75" not in said and " 0 bytes spill stores, 0 bytes spill loads" in said


def test_columns_that_are_no_power_of_two() -> None:
    """Others are not computed, and a thread holds two tiles of the sums of 160."""
    constants = {"BM": 128, "BN": 256, "COLUMNS": 160}
    options = {"num_warps": 8, "num_stages": 4}
    ptx = str(tile.compile(matmul, SIGNATURE, constants, options, "nvptx:sm_90a").asm["ptx"])
    assert ptx.count("wgmma.mma_async.sync.aligned.m64n160k32") == 4
    assert "m64n256" not in ptx
    said = assemble(ptx, "sm_90a")
    assert "C75" not in said and " 0 bytes spill stores, 0 bytes spill loads" in said
