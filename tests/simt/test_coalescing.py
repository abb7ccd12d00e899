"""Accesses of kernels are as wide as what is known of them allows."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.simt.kernels import KERNELS
from tests.simt.laid_out import module_of
from tile.analysis.axis_info import axis_info
from tile.ir.types import F16, F32, I8, Tile
from tile.simt.assign.coalesce import (
    ContiguousRun,
    TileAccess,
    coalesced_layout,
    default_layout,
    distributed_layout,
    memory_accesses,
    vector_width_of,
)
from tile.simt.assign.layout_cost import access_cost, conversion_cost
from tile.simt.layouts.axes import vector_width
from tile.simt.layouts.blocked import warp_striped
from tile.simt.layouts.linear_layout import LinearLayout
from tile.simt.ops.layout_inference import check_distributed
from tile.simt.target import GENERIC, TARGETS


def accesses_of(name: str) -> dict[str, TileAccess]:
    """Return the access information of a kernel, by operation and shape."""
    kernel = module_of(KERNELS[name]).kernel
    accesses = memory_accesses(kernel, axis_info(kernel), GENERIC)
    return {f"{op.name} {'x'.join(map(str, one.shape))}": one for op, one in accesses.items()}


def test_matmul_is_wide() -> None:
    accesses = accesses_of("matmul_f16")
    assert accesses["load 64x32"] == TileAccess((64, 32), (1, 0), 8, 32, 2)
    assert accesses["load 32x64"] == TileAccess((32, 64), (1, 0), 8, 64, 2)
    assert accesses["store 64x64"] == TileAccess((64, 64), (1, 0), 4, 64, 4)


def test_a_mask_that_ends_anywhere_limits_the_width() -> None:
    assert accesses_of("softmax")["load 1024"] == TileAccess(
        (1024,), (0,), 1, 1024, 4, combined=frozenset({0})
    )


@pytest.mark.parametrize("name", KERNELS)
def test_consecutive_registers_are_contiguous(name: str) -> None:
    """A layout has the vectors that were found, where there are elements enough for all threads."""
    kernel = module_of(KERNELS[name]).kernel
    for target in TARGETS.values():
        accesses = memory_accesses(kernel, axis_info(kernel), target)
        for op, layout in coalesced_layout(accesses, target, 4).items():
            one = accesses[op]
            check_distributed(layout, one.shape)
            share = op.inputs[0].type.numel // (4 * target.warp_size)  # type: ignore[attr-defined]
            if one.ranked and share:
                assert layout == warp_striped(*one.shape, target.warp_size, 4)
            elif one.order is not None and share:
                # Of f16 next to f32, as many as are in a vector of f32; next to accesses that take
                # elements one by one, such as atomic ones, whatever costs all of them least.
                together = [
                    other.vector for other in accesses.values() if other.connected == one.connected
                ]
                width = min(share, *together, 4)
                assert vector_width(layout, one.order[0], 16) >= width


@pytest.mark.parametrize("ty", [Tile((64, 64), F16), Tile((1,), F32), Tile((4, 2, 8), F32)])
def test_tiles_have_a_layout_anyway(ty: Tile) -> None:
    layout = default_layout(ty, GENERIC, 4)
    check_distributed(layout, ty.shape)


def test_loads_in_a_loop_are_wide_whatever_is_stored_behind_it() -> None:
    kernel = module_of(KERNELS["attention"]).kernel
    accesses = memory_accesses(kernel, axis_info(kernel), GENERIC)
    for op, layout in coalesced_layout(accesses, GENERIC, 4).items():
        if op.parent is not None:
            assert vector_width(layout, 1, 8) == 8


ALIGNED, OFF, ANYWHERE = (
    ContiguousRun(4, 1024, 4),
    ContiguousRun(4, 1024, 1),
    ContiguousRun(4, 1, 1),
)


@pytest.mark.parametrize(
    ("runs", "width"),
    [
        ([ALIGNED, ALIGNED], 4),
        ([ALIGNED, OFF, ALIGNED], 1),
        ([ALIGNED] * 20 + [OFF], 4),  # one that skips costs less than twenty narrow ones
        ([ALIGNED, ANYWHERE], 4),  # what is scattered is so at any width
        ([ContiguousRun(2, 512, 8), ContiguousRun(4, 512, 4)], 4),
        ([ContiguousRun(2, 512, 8), ContiguousRun(2, 512, 8)], 8),
        ([ContiguousRun(4, 512, 4), ContiguousRun(4, 512, 2)], 2),
    ],
)
def test_the_width_that_costs_least(runs: list[ContiguousRun], width: int) -> None:
    assert vector_width_of(runs, 16, GENERIC) == width
    assert vector_width_of(runs, 1, GENERIC) == 1


RUNS = st.builds(
    lambda itemsize, length, vector: ContiguousRun(
        itemsize, length, min(length, vector, 16 // itemsize)
    ),
    st.sampled_from([1, 2, 4, 8]),
    st.sampled_from([1, 2, 4, 64, 1024]),
    st.sampled_from([1, 2, 4, 8, 16]),
)


@settings(max_examples=200, deadline=None)
@given(st.lists(RUNS, min_size=2, max_size=2))
def test_no_layout_of_its_own_would_pay(runs: list[ContiguousRun]) -> None:
    """Two accesses in one layout cost less than each in its best and a conversion between."""
    share = 16

    def cost(run: ContiguousRun, width: int) -> float:
        apart = width if run.length > width else None
        return share * access_cost(run.itemsize, min(run.vector, width), apart, GENERIC)

    common = vector_width_of(runs, share, GENERIC)
    together = sum(cost(run, common) for run in runs)
    apart = sum(cost(run, vector_width_of([run], share, GENERIC)) for run in runs)
    tile = Tile((128 * share,), I8 if 1 in (run.itemsize for run in runs) else F16)
    single = distributed_layout((128 * share,), (0,), 1, 32, 4)
    converted = conversion_cost(tile, single, default(tile), GENERIC.tuning)
    assert together <= apart + converted


def default(tile: Tile) -> LinearLayout:
    return default_layout(tile, GENERIC, 4)
