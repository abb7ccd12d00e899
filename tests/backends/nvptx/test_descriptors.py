"""Kernels with descriptors as PTX that ptxas assembles."""

from __future__ import annotations

import pytest

import tile
from tests.backends.nvptx.assembling import ARCHITECTURES, assemble
from tests.simt.test_descriptors import SIGNATURE, matmul


def compiled(arch: str) -> str:
    """Return the PTX of a matmul that accesses all memory through descriptors."""
    sizes = dict.fromkeys(("M", "N", "K"), "i32")
    blocks = {"BM": 128, "BN": 128, "BK": 64}
    options = {"num_warps": 8, "num_stages": 3}
    kernel = tile.compile(matmul, {**SIGNATURE, **sizes}, blocks, options, f"nvptx:{arch}")
    ptx = kernel.asm["ptx"]
    assert isinstance(ptx, str)
    return ptx


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_a_matmul_is_assembled_without_spills(arch: str) -> None:
    assert "0 bytes spill stores, 0 bytes spill loads" in assemble(compiled(arch), arch)


def test_descriptor_blocks_are_copied_16_bytes_at_a_time() -> None:
    ptx = compiled("sm_80")
    assert "cp.async.cg.shared.global" in ptx
    assert "st.global.v4.b32" in ptx
    assert "cp.async.ca" not in ptx
