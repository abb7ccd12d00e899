"""Multicast in clusters of two CTAs: PTX that ptxas assembles, in launches with and without them."""

from __future__ import annotations

import re
from typing import Any

import pytest

import tile
from tests.backends.nvptx.assembling import assemble
from tests.simt.test_clusters import grouped, one_tile

pytest.importorskip("llvmlite")

SIGNATURE = {**dict.fromkeys(("a_ptr", "b_ptr", "c_ptr"), "*fp16:16"), "programs": "i32"}
SIGNATURE |= dict.fromkeys("MNK", "i32:16")


def ptx_of(kernel: Any, blocks: tuple[int, int, int], **options: Any) -> str:
    sizes = dict(zip(("BM", "BN", "BK"), blocks, strict=True))
    compiled = tile.compile(kernel, SIGNATURE, sizes, options, "nvptx:sm_90a")
    ptx: str = compiled.asm["ptx"]
    return ptx


@pytest.mark.parametrize(
    ("kernel", "blocks", "warps"),
    [
        (grouped, (128, 256, 64), 8),
        (grouped, (64, 64, 32), 4),
        (one_tile, (128, 128, 64), 8),
    ],
)
def test_multicast_assembles(kernel: Any, blocks: tuple[int, int, int], warps: int) -> None:
    """Without spills and serialized wgmmas. Each CTA loads half the TMA boxes of a block."""
    ptx = ptx_of(kernel, blocks, num_warps=warps, num_stages=3, num_ctas=2)
    strips_of_b = max(1, blocks[1] // 64 // 2)
    assert ptx.count(".multicast::cluster") == 1 + strips_of_b
    assert ptx.count("barrier.cluster.arrive") == ptx.count("barrier.cluster.wait") == 2
    assert ptx.count("mapa.shared::cluster.u32") == 1
    assert f"], {2 * warps};" in ptx  # the warps of both CTAs release a stage
    said = assemble(ptx, "sm_90a")
    assert "C75" not in said and " 0 bytes spill stores, 0 bytes spill loads" in said


def test_nothing_of_it_without_clusters() -> None:
    ptx = ptx_of(grouped, (128, 256, 64), num_warps=8, num_stages=3)
    assert not re.search(r"%cluster|barrier\.cluster|multicast|mapa", ptx)
