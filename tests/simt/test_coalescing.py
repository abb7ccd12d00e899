"""Accesses of kernels are as wide as what is known of them allows."""

from __future__ import annotations

import pytest

from tests.simt.kernels import KERNELS
from tests.simt.laid_out import module_of
from tile.analysis.axis_info import axis_info
from tile.ir.types import F16, F32, Tile
from tile.simt.coalescing import Access, accesses, coalesced, default_layout
from tile.simt.layout_rules import check_distributed
from tile.simt.layouts.axes import vector_width
from tile.simt.target import GENERIC, TARGETS


def found(name: str) -> dict[str, Access]:
    """What is known of the accesses of a kernel, by operation and shape."""
    kernel = module_of(KERNELS[name]).kernel
    known = accesses(kernel, axis_info(kernel), GENERIC)
    return {f"{op.name} {'x'.join(map(str, access.shape))}": access for op, access in known.items()}


def test_matmul_is_wide() -> None:
    known = found("matmul_f16")
    assert known["load 64x32"] == Access((64, 32), (1, 0), 8, 8)
    assert known["load 32x64"] == Access((32, 64), (1, 0), 8, 8)
    assert known["store 64x64"] == Access((64, 64), (1, 0), 4, 4)


def test_a_mask_that_ends_anywhere_limits_the_width() -> None:
    assert found("softmax")["load 1024"] == Access((1024,), (0,), 1, 4)


@pytest.mark.parametrize("name", KERNELS)
def test_registers_in_a_row_are_neighbours(name: str) -> None:
    """A layout has the vectors that were found, where there are elements enough for all threads."""
    kernel = module_of(KERNELS[name]).kernel
    for target in TARGETS.values():
        known = accesses(kernel, axis_info(kernel), target)
        for op, layout in coalesced(known, target, 4).items():
            access = known[op]
            check_distributed(layout, access.shape)
            share = op.inputs[0].type.numel // (4 * target.warp_size)  # type: ignore[attr-defined]
            if access.order is not None and share:
                # Of f16 beside f32, as many as are in a vector of f32.
                width = min(share, access.vector, 4)
                assert vector_width(layout, access.order[0], access.most) >= width


@pytest.mark.parametrize("ty", [Tile((64, 64), F16), Tile((1,), F32), Tile((4, 2, 8), F32)])
def test_tiles_have_a_layout_anyway(ty: Tile) -> None:
    layout = default_layout(ty, GENERIC, 4)
    check_distributed(layout, ty.shape)


def test_loads_in_a_loop_are_wide_whatever_is_stored_behind_it() -> None:
    kernel = module_of(KERNELS["attention"]).kernel
    known = accesses(kernel, axis_info(kernel), GENERIC)
    for op, layout in coalesced(known, GENERIC, 4).items():
        if op.parent is not None:
            assert vector_width(layout, 1, 8) == 8
