"""Shift convolutions of runs of channels, whose filters TMA loads, on a simulated H100."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

import numpy as np
import pytest

import tile
import tile.ops
from tile.ops.core.division import divisor
from tile.ops.core.tables import ANY, Table
from tile.ops.image import shift_tables
from tile.ops.image.shift_conv import shift_conv_reference
from tile.ops.image.shift_kernel import shift_conv_kernel


@pytest.fixture(autouse=True)
def no_plans() -> Iterator[None]:
    plans = cast(Any, tile.ops.shift_conv).plans
    plans.clear()
    yield
    plans.clear()


def arguments(channels: int) -> tuple[np.ndarray, ...]:
    random = np.random.default_rng(channels)
    x, filters = (random.integers(-3, 4, n) for n in ((2, 7, 5, channels), (72, channels)))
    runs = random.integers(-2, 3, (2, channels // 8))
    down, right = (np.repeat(run, 8).astype(np.int32) for run in runs)
    return x.astype(np.float16), filters.astype(np.float16), down, right


@pytest.mark.parametrize("swapped", [False, True])
@pytest.mark.parametrize("stored", [False, True])
@pytest.mark.parametrize(("channels", "pixels"), [(64, 64), (40, 16), (72, 32)])
def test_results(
    swapped: bool, stored: bool, channels: int, pixels: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not swapped:
        pixels = 64
    config = {"BLOCK_M": pixels, "BLOCK_N": 64, "BLOCK_K": 32, "num_warps": 4, "num_stages": 3}
    table = Table({(ANY, ANY, ANY): {**config, "SWAPPED": swapped, "STORED": stored}}, {})
    monkeypatch.setattr(shift_tables, "DESCRIBED", table)
    some = arguments(channels)
    with tile.backend("interp:wgmma"):
        result = tile.ops.shift_conv(*some, 8)
    np.testing.assert_array_equal(result, shift_conv_reference(*some))


@pytest.mark.parametrize("swapped", [False, True])
def test_tiles_of_two_parts(swapped: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    config = {"BLOCK_M": 64, "REST": 64, "BLOCK_N": 64, "BLOCK_K": 32, "SWAPPED": swapped}
    if swapped:
        config |= {"BLOCK_M": 32, "REST": 16}
    options = {"CACHE": ".ca", "SPREAD": True, "EARLY": True, "launch_pdl": True}
    options |= {"num_warps": 4, "num_stages": 3, "max_programs": 2}
    table = Table({(ANY, ANY, ANY): {**config, **options}}, {})
    monkeypatch.setattr(shift_tables, "DESCRIBED", table)
    some = arguments(64)
    with tile.backend("interp:wgmma"):
        result = tile.ops.shift_conv(*some, 8)
    np.testing.assert_array_equal(result, shift_conv_reference(*some))


def test_both_kinds_of_copies() -> None:
    pytest.importorskip("llvmlite")
    x, filters, down, right = arguments(64)
    shape = {"RUN": 8, "DESCRIBED": True, "WIDE": False, "SWAPPED": True}
    shape |= {
        "STORED": True,
        "CACHE": "",
        "SPREAD": False,
        "EARLY": True,
        "REST": 0,
        "FILTERS": 72,
        "CHANNELS": 64,
    }
    kinds = {"PRECISION": "ieee", "SUMS": tile.language.float32}
    blocks = {"BLOCK_M": 32, "BLOCK_N": 64, "BLOCK_K": 32, "launch_pdl": True}
    arrays = x, filters, down, right, np.empty((2, 7, 5, 72), np.float16)
    sizes = 7, 5, (divisor(7), divisor(5), divisor(2)), 70
    with tile.backend("nvptx:sm_90a"):
        kernel = shift_conv_kernel.warmup(*arrays, *sizes, grid=(1,), **shape, **kinds, **blocks)
    text = kernel.asm["ptx"]
    assert "cp.async.bulk.tensor.2d.shared" in text and "cp.async.cg.shared.global" in text
    assert "cp.async.bulk.tensor.2d.global" in text and "st.global" not in text
    assert text.count("cp.async.bulk.prefetch.L2") == 4
    assert text.rindex("cp.async.bulk.prefetch.L2") < text.index("griddepcontrol.wait")
