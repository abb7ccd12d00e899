"""Kernels all the way from Python to code that ptxas assembles, without spills."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.backends.nvptx.assembling import ARCHITECTURES, assemble
from tests.simt.kernels import KERNELS


@pytest.mark.parametrize("arch", ARCHITECTURES)
@pytest.mark.parametrize("name", KERNELS)
def test_kernels(name: str, arch: str) -> None:
    said = assemble(KERNELS[name].compile(f"nvptx:{arch}").asm["ptx"], arch)
    assert "0 bytes spill stores, 0 bytes spill loads" in said


@pytest.mark.parametrize("depth", [16, 64])
def test_large_products_of_threads_fit_their_registers(depth: int) -> None:
    large = replace(KERNELS["matmul_f32"], constants={"BM": 128, "BN": 128, "BK": depth})
    said = assemble(large.compile("nvptx:sm_75", num_warps=8).asm["ptx"], "sm_75")
    assert "0 bytes spill stores, 0 bytes spill loads" in said


def test_products_of_f16_are_matrix_instructions_fed_by_copies() -> None:
    ptx = KERNELS["matmul_f16"].compile("nvptx:sm_90a").asm["ptx"]
    assert "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32" in ptx
    assert "cp.async.cg.shared.global" in ptx
    assert "ldmatrix.sync.aligned.m8n8.x4.shared.b16" in ptx
    assert "ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16" in ptx


def test_sums_in_memory_are_added_in_vectors_between_fences() -> None:
    """Of f32 relaxed, and of f16 acquiring and releasing, one instruction a thread."""
    ptx = KERNELS["adding"].compile("nvptx:sm_90a").asm["ptx"]
    assert ptx.count("red.relaxed.gpu.global.add.v4.f32") == 2
    assert ptx.count("red.relaxed.gpu.global.add.noftz.v4.f16x2") == 1
    assert ptx.count("fence.acq_rel.gpu") == 2
    assert "atom." not in ptx


def test_integers_of_a_warp_are_combined_at_once() -> None:
    ptx = KERNELS["combining"].compile("nvptx:sm_80").asm["ptx"]
    assert ptx.count("redux.sync.") == 4
    assert "shfl" not in ptx


def test_accumulators_are_stored_as_matrices() -> None:
    assert "stmatrix" in KERNELS["matmul_into_f16"].compile("nvptx:sm_90").asm["ptx"]
    assert "stmatrix" not in KERNELS["matmul_into_f16"].compile("nvptx:sm_80").asm["ptx"]
