"""Conversions that go change no values, leave legal IR, and never are more than there were."""

from __future__ import annotations

import random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.fuzz.generate import Case, modules
from tests.fuzz.running import assert_same, interpret
from tests.simt.kernels import KERNELS
from tests.simt.laid_out import assert_equal, conversions, module_of, run
from tile.ir.module import Module
from tile.ir.op_definition import Level
from tile.ir.types import Tile
from tile.ir.verifier import verify
from tile.simt.assign.assign_layouts import assign_layouts
from tile.simt.assign.coalesce import distributed_layout
from tile.simt.assign.remove_conversions import remove_conversions
from tile.simt.layouts.dims import LANE, WARP
from tile.simt.ops.layout import convert_layout
from tile.simt.ops.layout_inference import LayoutBuilder, layout_of
from tile.simt.target import GENERIC, MMA, SimtTarget
from tile.transforms.descriptors_to_pointers import descriptors_to_pointers
from tile.transforms.region_utils import CONTROL_FLOW_OPS

SETTINGS = settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))


def scramble(module: Module, seed: int, share: float) -> None:
    """Convert some operands to other layouts and back, so that no value changes its own."""
    chosen = random.Random(seed)
    for op in list(module.walk()):
        for index, value in enumerate(op.operands):
            if value is None or not isinstance(value.type, Tile) or chosen.random() > share:
                continue
            own = layout_of(value)
            order = tuple(chosen.sample(range(value.type.rank), value.type.rank))
            lanes, warps = own.in_size(LANE), own.in_size(WARP)
            other = distributed_layout(
                value.type.shape, order, chosen.choice([1, 2, 4]), lanes, warps
            )
            assert op.block is not None
            b = LayoutBuilder(op.block, op, op.loc)
            op.set_operand(index, b.convert(b.convert(value, other), own))


@SETTINGS
@given(case=modules(), seed=st.integers(0, 9), warps=st.sampled_from([1, 4]))
def test_random_kernels_keep_their_semantics(case: Case, seed: int, warps: int) -> None:
    wanted = interpret(case.module, case)
    descriptors_to_pointers(case.module)
    assign_layouts(case.module, target=GENERIC, num_warps=warps)
    plain = conversions(case.module)
    scramble(case.module, seed, 0.3)
    remove_conversions(case.module, target=GENERIC)
    verify(case.module, Level.LAID_OUT)
    assert conversions(case.module) <= plain
    assert_same(case, interpret(case.module, case), wanted)


@pytest.mark.parametrize("target", [GENERIC, MMA], ids=str)
@pytest.mark.parametrize("name", ["matmul_f16", "softmax", "row_sums", "attention", "pairs"])
def test_kernels_keep_their_semantics(name: str, target: SimtTarget) -> None:
    kernel = KERNELS[name]
    module = module_of(kernel)
    wanted = run(module, kernel)
    assign_layouts(module, target=target, num_warps=4)
    plain = conversions(module)
    scramble(module, 0, 0.5)
    remove_conversions(module, target=target)
    verify(module, Level.LAID_OUT)
    assert conversions(module) <= plain
    assert_equal(run(module, kernel), wanted)


@pytest.mark.parametrize("name", KERNELS)
def test_kernels_are_legal_behind_it(name: str) -> None:
    for warps in (1, 8):
        module = module_of(KERNELS[name])
        assign_layouts(module, target=MMA, num_warps=warps)
        plain = conversions(module)
        remove_conversions(module, target=MMA)
        verify(module, Level.LAID_OUT)
        assert conversions(module) <= plain


@pytest.mark.parametrize("target", [GENERIC, MMA], ids=str)
@pytest.mark.parametrize("name", KERNELS)
def test_conversions_are_at_the_lines_of_what_they_convert(name: str, target: SimtTarget) -> None:
    """None is at the line of a loop or branch, which hands on what others compute and use."""
    for warps in (1, 8):
        module = module_of(KERNELS[name])
        loops = {op.loc for op in module.walk() if op.defn in CONTROL_FLOW_OPS}
        assign_layouts(module, target=target, num_warps=warps)
        for _ in range(2):
            locations = [op.loc for op in module.walk() if op.defn is convert_layout]
            assert None not in locations
            assert not loops.intersection(locations)
            remove_conversions(module, target=target)
