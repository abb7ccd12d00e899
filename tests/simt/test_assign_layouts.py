"""Layouts change no values, hold at the level's rules, and fit the machine."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.fuzz.generate import Case, modules
from tests.fuzz.running import assert_same, interpret
from tests.simt.kernels import KERNELS
from tests.simt.laid_out import assert_equal, conversions, module_of, run
from tile.ir.module import Module
from tile.ir.op_definition import Level
from tile.ir.parser import parse_module
from tile.ir.printer import print_module
from tile.ir.types import F32, Tile
from tile.ir.verifier import verify
from tile.simt.assign.assign_layouts import assign_layouts
from tile.simt.assign.coalesce import distributed_layout
from tile.simt.assign.dot_layouts import fma_accumulator_layout, mma_warps, square_grid
from tile.simt.assign.layout_cost import conversion_cost
from tile.simt.layouts.conversion import Renaming, plan_conversion
from tile.simt.layouts.dims import LANE, REGISTER, WARP
from tile.simt.layouts.mma_fragments import MmaShape, Operand, matrix_layout
from tile.simt.ops.layout import convert_layout
from tile.simt.ops.layout_inference import check_distributed, layout_of
from tile.simt.ops.mma import mma_dot
from tile.simt.target import GENERIC, MMA, TARGETS, SimtTarget
from tile.simt.tuning import TUNING
from tile.transforms.descriptors_to_pointers import descriptors_to_pointers

SETTINGS = settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
MACHINES = st.sampled_from(sorted(TARGETS.items()))
WARPS = st.sampled_from([1, 2, 4, 8, 32])
EXTENTS = st.sampled_from([1, 2, 4, 8, 16, 32, 64, 128])

# How many conversions each kernel takes with 4 warps: of operands to dots, of what dots give to
# stores, of what is transposed.
EXPECTED = {
    "transpose": 1,
    "matmul_f32": 3,
    "matmul_f16": 3,
    "softmax": 0,
    "row_sums": 0,
    "column_sums": 0,
    "running_sum": 0,
    "sorting": 0,
    "gathering": 0,
    "counting": 0,
    "greatest": 0,
    "pairs": 0,
}


def laid_out(module: Module, target: SimtTarget, num_warps: int) -> Module:
    assign_layouts(module, target=target, num_warps=num_warps)
    verify(module, Level.LAID_OUT)
    return module


@SETTINGS
@given(case=modules(), machine=MACHINES, warps=WARPS)
def test_random_kernels_keep_their_semantics(
    case: Case, machine: tuple[str, SimtTarget], warps: int
) -> None:
    wanted = interpret(case.module, case)
    descriptors_to_pointers(case.module)
    module = laid_out(case.module, machine[1], warps)
    text = print_module(module)
    read = parse_module(text)
    verify(read, Level.LAID_OUT)
    assert print_module(read) == text
    assert_same(case, interpret(read, case), wanted)


@pytest.mark.parametrize("name", KERNELS)
def test_kernels_are_laid_out_for_all_machines(name: str) -> None:
    kernel = KERNELS[name]
    module = module_of(kernel)
    for target in TARGETS.values():
        for warps in (1, 4, 32):
            copy = laid_out(module.clone(), target, warps)
            for op in copy.walk():
                for value in op.results:
                    if isinstance(value.type, Tile):
                        layout = layout_of(value)
                        assert layout.in_size(LANE) == target.warp_size
                        assert layout.in_size(WARP) == warps


@pytest.mark.parametrize("name", ["matmul_f16", "softmax", "row_sums", "attention", "pairs"])
@pytest.mark.parametrize("machine", ["generic", "mma"])
def test_kernels_keep_their_semantics(name: str, machine: str) -> None:
    kernel = KERNELS[name]
    module = module_of(kernel)
    wanted = run(module, kernel)
    assert_equal(run(laid_out(module, TARGETS[machine], 4), kernel), wanted)


@pytest.mark.parametrize(("name", "count"), EXPECTED.items())
def test_conversions_are_few(name: str, count: int) -> None:
    for target in (GENERIC, MMA):
        assert conversions(laid_out(module_of(KERNELS[name]), target, 4)) == count


def test_what_attention_multiplies_keeps_its_registers() -> None:
    """The weights of the first dot are the left operand of the second, by names alone."""
    module = laid_out(module_of(KERNELS["attention"]), MMA, 4)
    _, second = (op for op in module.walk() if op.defn is mma_dot)
    left = second.inputs[0].op
    assert left is not None
    assert left.defn is not convert_layout or isinstance(
        plan_conversion(layout_of(left.inputs[0]), layout_of(left.result), 16), Renaming
    )


# -- layouts that are chosen


@SETTINGS
@given(
    shape=st.lists(EXTENTS, min_size=1, max_size=3).map(tuple),
    data=st.data(),
    vector=st.sampled_from([1, 2, 4, 8]),
    lanes=st.sampled_from([32, 64]),
    warps=WARPS,
)
def test_any_tile_can_be_spread(
    shape: tuple[int, ...], data: st.DataObject, vector: int, lanes: int, warps: int
) -> None:
    order = tuple(data.draw(st.permutations(range(len(shape)))))
    layout = distributed_layout(shape, order, vector, lanes, warps)
    check_distributed(layout, shape)
    assert (layout.in_size(LANE), layout.in_size(WARP)) == (lanes, warps)


@SETTINGS
@given(m=EXTENTS, n=EXTENTS, batch=st.sampled_from([(), (1,), (2,), (8,)]), warps=WARPS)
def test_any_dot_can_be_shared_by_threads(
    m: int, n: int, batch: tuple[int, ...], warps: int
) -> None:
    shape = (*batch, m, n)
    layout = fma_accumulator_layout(shape, 32, warps)
    check_distributed(layout, shape)
    # No thread is idle while another has several elements.
    elements = m * n * (batch[0] if batch else 1)
    assert layout.in_size(REGISTER) == max(1, elements // (32 * warps))


@SETTINGS
@given(
    m=st.sampled_from([16, 32, 64, 128]),
    n=st.sampled_from([8, 16, 64, 256]),
    warps=WARPS,
    rows=st.booleans(),
)
def test_any_dot_can_be_shared_by_warps(m: int, n: int, warps: int, rows: bool) -> None:
    shape = MmaShape(16, 8, 16, 16)
    grid = mma_warps((m, n), shape, warps, rows=rows)
    assert grid[0] * grid[1] == warps
    for operand, extents in zip(Operand, ((m, 32), (32, n), (m, n)), strict=True):
        check_distributed(matrix_layout(extents, shape, operand, grid), extents)


@pytest.mark.parametrize(
    ("extents", "least", "count", "grid"),
    [
        ((128, 128), (16, 8), 4, (2, 2)),
        ((128, 256), (16, 8), 8, (2, 4)),
        ((256, 64), (16, 8), 4, (4, 1)),
        ((16, 128), (16, 8), 4, (1, 4)),
        ((16, 16), (16, 8), 8, (4, 2)),  # two have a slice each; the others, copies
        ((64, 64), (1, 1), 32, (8, 4)),
    ],
)
def test_sub_tiles_are_square(
    extents: tuple[int, int], least: tuple[int, int], count: int, grid: tuple[int, int]
) -> None:
    assert square_grid(extents, least, count) == grid


@SETTINGS
@given(shape=st.tuples(EXTENTS, EXTENTS), data=st.data())
def test_only_what_renames_registers_is_free(shape: tuple[int, int], data: st.DataObject) -> None:
    orders = st.sampled_from([(0, 1), (1, 0)])
    vectors = st.sampled_from([1, 2, 4])
    source, result = (
        distributed_layout(shape, data.draw(orders), data.draw(vectors), 32, 2) for _ in "ab"
    )
    ty = Tile(shape, F32)
    if conversion_cost(ty, source, result, TUNING) == 0:
        assert isinstance(plan_conversion(source, result, 32), Renaming)
