"""Descriptions of machines."""

from __future__ import annotations

from typing import Any

import pytest

from tile.errors import ArgumentValueError
from tile.ir.types import BF16, F16, F32, I8, I32
from tile.simt.layouts.mma_fragments import MmaShape
from tile.simt.target import GENERIC, MMA, TARGETS, WGMMA, SimtTarget

FIELDS: dict[str, Any] = {
    "name": "x",
    "warp_size": 32,
    "shared_bytes": 1,
    "registers": 64,
    "max_threads": 256,
}


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"warp_size": 24}, "warp_size of target x is a power of two, not 24"),
        ({"mma_shapes": (MmaShape(3, 3, 3, 3),)}, "no mma instruction is m3n3k3"),
        ({"wgmma_shapes": (MmaShape(3, 3, 3, 3),)}, "no mma instruction is m3n3k3"),
        (
            {"warp_size": 64, "wgmma_shapes": (MmaShape(64, 8, 16, 16),)},
            "wgmma_shapes of target x take warps of 32, not of 64",
        ),
        (
            {"warp_size": 64, "has_ldmatrix": True},
            "has_ldmatrix of target x take warps of 32, not of 64",
        ),
    ],
)
def test_wrong_fields_are_refused(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ArgumentValueError, match=message):
        SimtTarget(**{**FIELDS, **fields})


def test_targets_are_looked_up_by_name() -> None:
    assert SimtTarget.parse("generic") is GENERIC
    assert [str(target) for target in TARGETS.values()] == list(TARGETS)
    with pytest.raises(ArgumentValueError, match="no target is named 'moon'; there are plain"):
        SimtTarget.parse("moon")


def test_what_groups_of_warps_multiply() -> None:
    assert WGMMA.has_wgmma(F16, F16) and WGMMA.has_wgmma(I8, I32)
    assert not WGMMA.has_wgmma(BF16, F16)
    assert not MMA.has_wgmma(F16, F32)
