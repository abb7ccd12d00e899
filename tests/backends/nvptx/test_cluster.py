"""Multicast in clusters of two CTAs: PTX that ptxas assembles, in launches with and without them."""

from __future__ import annotations

import re
from typing import Any

import pytest

import tile
from tests.backends.interp.test_cluster_gather import shared_rows
from tests.backends.nvptx.assembling import assemble
from tests.simt.test_clusters import grouped, one_tile
from tile.backends.nvptx.fast_launch import LaunchAttributes
from tile.errors import ArgumentValueError, UnsupportedError

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


def test_numbers_of_clusters_are_written_by_stores_that_mbarriers_count() -> None:
    """So no barrier of the cluster, but for one at the start, waits for stores to other memory."""
    signature = {"x_ptr": "*fp32:16", "y_ptr": "*fp32:16", "blocks": "i32"}
    sizes, options = {"SIZE": 4, "BLOCK": 128}, {"num_ctas": 4, "num_warps": 2}
    compiled = tile.compile(shared_rows, signature, sizes, options, "nvptx:sm_90a")
    ptx = compiled.asm["ptx"]
    order = re.findall(r"barrier\.cluster\.(?:arrive\.relaxed|arrive|wait)", ptx)
    assert order == ["barrier.cluster.arrive.relaxed", "barrier.cluster.wait"]
    assert ptx.index(order[0]) < ptx.index(order[1]) < ptx.index("st.async")
    assert ptx.count("mbarrier.init") == 4  # two stages of each exchange
    assert ptx.count("st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.b32") == 3
    assert ".local" not in ptx  # registers count the exchanges
    assemble(ptx, "sm_90a")
    assert compiled.artifact.launch_metadata["gathers"]


def test_devices_without_clusters_gather_no_numbers() -> None:
    signature = {"x_ptr": "*fp32:16", "y_ptr": "*fp32:16", "blocks": "i32"}
    sizes = {"SIZE": 2, "BLOCK": 128}
    with pytest.raises(UnsupportedError, match="has no clusters"):
        tile.compile(shared_rows, signature, sizes, {"num_ctas": 2}, "nvptx:sm_80")


def test_launches_without_clusters_are_refused_if_these_are_required() -> None:
    attributes = LaunchAttributes("k", 2, required=True)
    assert attributes.size_for(4) == 2
    with pytest.raises(ArgumentValueError, match="3 programs along axis 0 of the grid are no mul"):
        attributes.packed(3)
