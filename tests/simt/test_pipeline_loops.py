"""Pipelined loops compute what they did, and read nothing that they did not."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tile
import tile.language as tl
from tests.evaluate import evaluate
from tests.sampling import sample
from tests.simt.kernels import KERNELS
from tests.simt.pipeline_loops.copying import SharedMemory, run
from tests.simt.pipeline_loops.dots import ATTENTION, COLUMNS, ROWS, WIDTH, Dot
from tile.backends.interp.simulator.thread_kernel import run_threads
from tile.ir.builder import Builder
from tile.ir.module import Module
from tile.ir.op_definition import Level, OpDef
from tile.ir.ops import control, memory
from tile.ir.parser import parse_module
from tile.ir.passes import PassManager
from tile.ir.shared_type import Shared
from tile.ir.types import I8, I16, U8, Scalar
from tile.ir.verifier import verify
from tile.simt.layouts.axes import permute_axes
from tile.simt.layouts.blocked import blocked
from tile.simt.layouts.dims import OFFSET
from tile.simt.layouts.linear_layout import LinearLayout
from tile.simt.layouts.mma_fragments import fma_operand_layouts
from tile.simt.layouts.shared_access import shared_access
from tile.simt.memory.allocate_shared import allocate_shared
from tile.simt.memory.expose_shared import expose_shared
from tile.simt.ops import shared, tma, wgmma
from tile.simt.pass_pipeline import lower, lowering
from tile.simt.schedule.async_ops import issue_stage
from tile.simt.schedule.expand_schedules import expand_schedules
from tile.simt.schedule.pipeline_loops import pipeline_loops
from tile.simt.schedule.pipeline_loops.buffer_layouts import copy_layout
from tile.simt.schedule.trip_count import TripCount
from tile.simt.target import CP_ASYNC, GENERIC, MMA, PLAIN, WGMMA, SimtTarget

# Copies; tiles that stay in registers, where shuffles convert them, and tiles that are stored; those
# alone.
TARGETS = [CP_ASYNC, GENERIC, PLAIN]
TYPES = {"f32": np.float32, "f16": np.float16, "i32": np.int32, "i64": np.int64, "i16": np.int16}


def parsed(dot: Dot) -> Module:
    module = parse_module(dot.text())
    verify(module, Level.LAID_OUT)
    return module


def pipelined(dot: Dot, target: SimtTarget, num_stages: int) -> Module:
    module = parsed(dot)
    pipeline_loops(module, target=target, num_stages=num_stages)
    expand_schedules(module)
    verify(module, Level.LAID_OUT)
    return module


def count(module: Module, defn: Any) -> int:
    return sum(op.defn is defn for op in module.walk())


def arguments_of(dot: Dot, bounds: dict[str, int]) -> list[Any]:
    """Two matrices that end where the last tile does, what is stored to, and the bounds."""
    random, dtype = np.random.default_rng(0), TYPES[dot.dtype]
    a, b = (
        random.standard_normal(shape).astype(dtype) for shape in ((ROWS, WIDTH), (WIDTH, COLUMNS))
    )
    numbers = [n for name, n in bounds.items() if getattr(dot, name) is None]
    c = np.full((ROWS, COLUMNS), np.nan, np.float32)
    return [a, b, c, *map(TYPES[dot.count], numbers)]


def result(module: Module, dot: Dot, bounds: dict[str, int]) -> tuple[Any, SharedMemory]:
    """Return what a kernel stores."""
    arguments = arguments_of(dot, bounds)
    machine = run(module, arguments)
    return arguments[2], machine


def check(dot: Dot, target: SimtTarget, num_stages: int, bounds: dict[str, int]) -> SharedMemory:
    wanted, _ = result(parsed(dot), dot, bounds)
    actual, machine = result(pipelined(dot, target, num_stages), dot, bounds)
    assert np.array_equal(wanted, actual)
    return machine


BOUNDS = [
    {"lower": 0, "upper": 64, "step": 16},
    {"lower": 0, "upper": 0, "step": 16},
    {"lower": 32, "upper": 16, "step": 16},
    {"lower": 16, "upper": 32, "step": 16},
    {"lower": 0, "upper": 31, "step": 16},
    {"lower": 0, "upper": 33, "step": 16},
    {"lower": 48, "upper": 0, "step": -16},
    {"lower": 48, "upper": -1, "step": -16},
    {"lower": 0, "upper": 48, "step": -16},
    {"lower": 0, "upper": 64, "step": 48},
]
FORMS = {
    "index": Dot(),
    "index-mask": Dot(masked=True),
    "carried": Dot(carried=True),
    "carried-mask": Dot(carried=True, masked=True),
}


@pytest.mark.parametrize(
    ("name", "bounds", "target"),
    sample(itertools.product(FORMS, BOUNDS), TARGETS),
    ids=lambda value: "-".join(map(str, value.values())) if isinstance(value, dict) else str(value),
)
def test_any_number_of_iterations(name: str, bounds: dict[str, int], target: SimtTarget) -> None:
    """Bounds that are numbers, and such that only a launch knows."""
    form = FORMS[name]
    dynamic = replace(form, step=None)
    mixed = replace(form, step=bounds["step"])
    bounded = replace(form, **bounds)
    iterations = len(range(*bounds.values()))
    for dot in (dynamic, mixed, bounded):
        machine = check(dot, target, 3, bounds)
        assert machine.copied == (2 * iterations if target is CP_ASYNC else 0)
        # Without bounds that are numbers, each iteration stores for the next one, which may be none.
        stores = 1 + (0 if dot is bounded and iterations < 2 else iterations)
        assert machine.stored == (0 if target is CP_ASYNC else stores * (1 + (target is PLAIN)))


STAGES = [
    *((number, CP_ASYNC) for number in range(6)),
    *sample(range(6), [GENERIC, PLAIN]),
]


@pytest.mark.parametrize(("num_stages", "target"), STAGES, ids=str)
def test_any_number_of_stages(target: SimtTarget, num_stages: int) -> None:
    """As many iterations are under way as there are stages, less that which is being worked on."""
    for bounds, carried in itertools.product(BOUNDS[:4], (False, True)):
        machine = check(Dot(carried=carried), target, num_stages, bounds)
        copies = target is CP_ASYNC and num_stages >= 2
        assert machine.most_pending == (max(1, num_stages - 1) if copies else 0)


KINDS = [
    Dot(nested=True),
    Dot(nested=True, carried=True),
    Dot(repeats=2),
    Dot(repeats=2, nested=True, carried=True),
    Dot(dtype="f16"),
    Dot(other=None),
    Dot(other=1.5),
    Dot(other=-0.0),
    Dot(count="i64"),
    Dot(count="i16", step=None),
]


@pytest.mark.parametrize(("dot", "target"), sample(KINDS, TARGETS), ids=str)
def test_any_kernel(dot: Dot, target: SimtTarget) -> None:
    for bounds in BOUNDS[:4]:
        check(dot, target, 4, bounds)


@pytest.mark.parametrize("num_stages", [2, 3, 4])
@pytest.mark.parametrize("target", TARGETS, ids=str)
def test_attention(target: SimtTarget, num_stages: int) -> None:
    """Two loads that feed two dots, one of them transposed, one by carried pointers."""
    module = parse_module(ATTENTION)
    verify(module, Level.LAID_OUT)
    pipeline_loops(module, target=target, num_stages=num_stages)
    expand_schedules(module)
    verify(module, Level.LAID_OUT)
    assert count(module, shared.local_alloc) == (0 if target is GENERIC else 2)
    random = np.random.default_rng(0)
    for rows in (16, 32, 80):
        q = random.standard_normal((16, 16)).astype(np.float32)
        k, v = (random.standard_normal((rows, 16)).astype(np.float32) for _ in range(2))
        out = np.zeros((16, 16), np.float32)
        run(module, [q, k, v, out, np.int32(rows)])
        powers = np.exp(q @ k.T)
        assert np.allclose(out, powers @ v / powers.sum(1, keepdims=True), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("num_stages", [2, 4])
@pytest.mark.parametrize("target", TARGETS, ids=str)
def test_a_schedule_does_not_change_what_a_loop_computes(
    target: SimtTarget, num_stages: int
) -> None:
    """A lowered loop has the same results before its schedule is expanded."""
    for bounds, carried in itertools.product(BOUNDS[:4], (False, True)):
        dot = Dot(carried=carried, masked=True)
        module = parsed(dot)
        pipeline_loops(module, target=target, num_stages=num_stages)
        verify(module, Level.LAID_OUT)
        assert any(op.schedule is not None for op in module.walk())
        wanted, _ = result(parsed(dot), dot, bounds)
        actual, _ = result(module, dot, bounds)
        assert np.array_equal(wanted, actual)


def test_loops_are_pipelined_once() -> None:
    for target in TARGETS:
        module = pipelined(Dot(repeats=2), target, 3)
        before = str(list(module.walk()))
        pipeline_loops(module, target=target, num_stages=3)
        expand_schedules(module)
        assert str(list(module.walk())) == before


@pytest.mark.parametrize(
    ("issue", "stages", "free", "expected"),
    [
        (shared.local_cp_async, 4, 1, -3),
        (tma.tma_load, 2, 1, -1),
        (tma.tma_load, 3, 2, -1),  # a dot of the iteration before reads a stage
        (memory.load, 1, 0, -1),
        (memory.load, 2, 0, -1),
    ],
)
def test_stages_follow_from_latencies(issue: OpDef, stages: int, free: int, expected: int) -> None:
    assert issue_stage(issue, stages, free) == expected


def test_fewer_stages_where_memory_is_short() -> None:
    """32x16 and 16x32 elements of 4 bytes are 4 KiB a stage."""
    for size, stages in ((16 << 10, 4), (15 << 10, 3), (8 << 10, 2)):
        module = pipelined(Dot(), replace(CP_ASYNC, shared_bytes=size), 4)
        allocs = [op for op in module.walk() if op.defn is shared.local_alloc]
        assert [op.result.type.stages for op in allocs] == [stages] * 2


def test_a_stage_less_where_a_second_program_fits_then() -> None:
    """Not if registers suffice for one program only, or if that takes two stages less."""
    few = 32 * 255  # registers: those of one program of 32 threads
    for size, registers, stages in (
        (24, 1 << 16, 3),
        (23, 1 << 16, 4),
        (32, 1 << 16, 4),
        (24, few, 4),
    ):
        target = replace(CP_ASYNC, shared_bytes=size << 10, register_file=registers)
        module = pipelined(Dot(), target, 4)
        allocs = [op for op in module.walk() if op.defn is shared.local_alloc]
        assert [op.result.type.stages for op in allocs] == [stages] * 2


@tile.jit
def promoted(a_ptr, b_ptr, c_ptr, K, IS_PROMOTED: tl.constexpr):
    at = tl.arange(0, 64)
    total = tl.zeros((64, 64), dtype=tl.float32)
    for k in range(0, K, 64):
        a = tl.load(a_ptr + at[:, None] * K + (k + at)[None, :])
        b = tl.load(b_ptr + at[None, :] * K + (k + at)[:, None])
        total = total + tl.dot(a, b) * 2.0 if IS_PROMOTED else tl.dot(a, b, total)
    tl.store(c_ptr + at[:, None] * 64 + at[None, :], total)


@pytest.mark.parametrize(
    ("is_promoted", "size", "stages"),
    [
        (True, 100, 3),
        (False, 100, 4),  # its wgmmas keep the tensor cores busy
        (True, 95, 4),  # 3 stages are 48 KiB, so that there is one program in any case
        (True, 128, 4),  # two programs fit
    ],
)
def test_a_stage_less_of_wgmmas_that_an_iteration_waits_for(
    is_promoted: bool, size: int, stages: int
) -> None:
    types = {"a_ptr": "*fp16:16", "b_ptr": "*fp16:16", "c_ptr": "*fp32:16", "K": "i32:16"}
    kernel = tile.compile(promoted, types, {"IS_PROMOTED": is_promoted}, {}, "interp")
    module = kernel.artifact.module.clone()
    target = replace(WGMMA, has_tma=False, shared_bytes=size << 10)
    lower(module, target, num_warps=4, num_stages=4)
    allocs = [op for op in module.walk() if op.defn is shared.local_alloc]
    assert max(op.result.type.stages for op in allocs) == stages


@pytest.mark.parametrize("size", [8, 7, 4, 3, 1])
def test_one_iteration_ahead_where_memory_is_short(size: int) -> None:
    """Two stages are of 8 KiB here, and in one the next tiles take the place of these."""
    target = replace(PLAIN, shared_bytes=size << 10)
    module = pipelined(Dot(), target, 3)
    stages = [op.result.type.stages for op in module.walk() if op.defn is shared.local_alloc]
    assert stages == {8: [2, 2], 7: [1, 1], 4: [1, 1]}.get(size, [])
    assert count(module, memory.load) == 4  # one each before the loop, one in it
    for bounds in BOUNDS[:4]:
        check(Dot(carried=True), target, 3, bounds)


def test_memory_is_left_for_the_loop_itself() -> None:
    """A conversion of 32x32 elements of 4 bytes takes as much as a stage."""
    after = """
    %other = convert_layout %acc0 : tile<32x32xf32, #tall>
    device_print %other {prefix = ""}"""
    tall = "#tall = #linear{register = [[0,1],[0,2],[16,0]], lane = [[0,4],[0,8],[0,16],[1,0],[2,0]], warp = [[4,0],[8,0]] -> dim0 = 32, dim1 = 32}"
    module = parse_module(f"{tall}\n{Dot(after=after).text()}")
    verify(module, Level.LAID_OUT)
    pipeline_loops(module, target=replace(CP_ASYNC, shared_bytes=16 << 10), num_stages=4)
    expand_schedules(module)
    allocs = [op for op in module.walk() if op.defn is shared.local_alloc]
    assert [op.result.type.stages for op in allocs] == [3, 3]


@tile.jit
def product(a_ptr, b_ptr, c_ptr, K, N, SIZE: tl.constexpr):
    at = tl.arange(0, SIZE)
    total = tl.zeros((SIZE, SIZE), dtype=tl.float32)
    for k in range(0, K, SIZE):
        a = tl.load(a_ptr + at[:, None] * K + (k + at)[None, :])
        b = tl.load(b_ptr + (k + at)[:, None] * N + at[None, :])
        total = tl.dot(a, b, total, input_precision="ieee")
    tl.store(c_ptr + at[:, None] * N + at[None, :], total)


@pytest.mark.parametrize(("size", "stages"), [(163_840, 2), (163_839, 1)])
def test_memory_is_left_for_slices_of_the_other_operand(size: int, stages: int) -> None:
    """A thread has registers to load one of two tiles of 64 KiB early; 32 KiB are for the other."""
    types = {"a_ptr": "*fp32:16", "b_ptr": "*fp32:16", "c_ptr": "*fp32:16", "K": "i32:16"}
    kernel = tile.compile(product, types | {"N": "i32:16"}, {"SIZE": 128}, {}, "interp")
    module = kernel.artifact.module.clone()
    lower(module, replace(WGMMA, shared_bytes=size), num_warps=8, num_stages=3)
    allocs = [op for op in module.walk() if op.defn is shared.local_alloc]
    assert max(op.result.type.stages for op in allocs) == stages


# What a loop does next to its dot: another loop, in which it multiplies again.
INNER_LOOP = """
    %again = for %j = %lower to %upper step %step iter(%sum = %acc0) : tile<32x32xf32, #c> {
      %p = load %a_p : tile<32x16xf32, #a>
      %q = convert_layout %p : tile<32x16xf32, #da>
      %u = load %b_p : tile<16x32xf32, #b>
      %v = convert_layout %u : tile<16x32xf32, #db>
      %w = dot %q, %v, %sum : tile<32x32xf32, #c>
      yield %w
    }
    device_print %again {prefix = ""}"""


@pytest.mark.parametrize(
    ("size", "inner", "outer"), [(32, 4, 4), (24, 4, 2), (20, 4, 1), (16, 4, 0), (12, 3, 0)]
)
def test_loops_inside_others_come_first(size: int, inner: int, outer: int) -> None:
    """Both have stages of 4 KiB, and their buffers are in use at the same time."""
    module = parse_module(Dot(after=INNER_LOOP).text())
    verify(module, Level.LAID_OUT)
    target = replace(CP_ASYNC, shared_bytes=size << 10)
    pipeline_loops(module, target=target, num_stages=4)
    expand_schedules(module)
    verify(module, Level.LAID_OUT)
    loops = [op for op in module.walk() if op.defn is control.for_]
    stages: dict[bool, int] = {True: 0, False: 0}
    for op in module.walk():
        if op.defn is shared.local_alloc:
            assert isinstance(op.result.type, Shared)
            stages[op.parent in loops] += op.result.type.stages
    assert stages == {True: 2 * inner, False: 2 * outer}
    expose_shared(module, target=target)
    allocate_shared(module, target=target)


def test_prefetch_leaves_registers() -> None:
    """A third of a thread's registers may hold tiles, of which each takes 4 here."""
    for registers, loads in ((24, 4), (23, 3), (11, 2)):
        module = pipelined(Dot(), replace(GENERIC, registers=registers), 2)
        assert count(module, memory.load) == loads


# -- by threads

LATER = (
    "pipeline-loops",
    "expand-schedules",
    "expose-shared",
    "allocate-shared",
    "insert-barriers",
    "distribute",
    "dce",
)
MACHINES = [(PLAIN, 3), (GENERIC, 3), (CP_ASYNC, 2), (CP_ASYNC, 3), (MMA, 5)]


DOTS = [
    Dot(),
    Dot(step=None, masked=False),
    Dot(carried=True),
    Dot(nested=True, carried=True),
    Dot(repeats=2),
    Dot(dtype="f16"),
    Dot(dtype="f16", other=1.5, nested=True),
]


@pytest.mark.parametrize(("dot", "target", "num_stages"), sample(DOTS, MACHINES, each=2), ids=str)
def test_threads(target: SimtTarget, num_stages: int, dot: Dot) -> None:
    """The threads of a program hand tiles to each other without a race, from iteration to iteration."""
    module = parsed(dot)
    passes = lowering(target, num_warps=4, num_stages=num_stages)
    chosen = [item for item in passes if item.defn.name in LATER]
    PassManager(chosen).run(module, Level.LAID_OUT)
    for bounds in BOUNDS[:4]:
        wanted, arguments = arguments_of(dot, bounds), arguments_of(dot, bounds)
        run(parsed(dot), wanted)
        run_threads(module, target, 4, (1, 1, 1), arguments)
        np.testing.assert_allclose(arguments[2], wanted[2], rtol=1e-4, atol=1e-4)


# -- iterations


def exists(ty: Scalar, step: int | None, distance: int) -> Any:
    """A function of (lower, upper, step, index): whether there is a later iteration."""
    step_value = "%s" if step is None else "%c"
    const = "" if step is None else f"  %c = const {{value = {step}}} : {ty}\n"
    module = parse_module(
        f"func @f(%l: {ty}, %u: {ty}, %s: {ty}, %i: {ty}) {{\n{const}"
        f"  for %k = %l to %u step {step_value} {{\n    yield\n  }}\n  return\n}}"
    )
    function = module["f"]
    loop = next(op for op in module.walk() if op.defn is control.for_)
    if not TripCount.is_computable(loop, distance):
        return None
    build = Builder.before(loop)
    actual = TripCount(loop).exists(build, function.args[3], distance)
    assert actual is not None
    loop.erase()
    last = function.body.last
    assert last is not None
    last.set_operands([actual])
    return lambda *numbers: bool(evaluate(function, *(np.array(n, ty_of(ty)) for n in numbers))[0])


def ty_of(ty: Scalar) -> Any:
    return {I8: np.int8, U8: np.uint8, I16: np.int16}[ty]


@pytest.mark.parametrize("ty", [I8, U8, I16], ids=str)
@pytest.mark.parametrize("constant", [True, False])
@settings(max_examples=50, deadline=None)
@given(data=st.data())
def test_iterations_near_the_ends_of_the_type(ty: Scalar, constant: bool, data: Any) -> None:
    near = st.one_of(
        st.integers(ty.min_value, ty.max_value),
        st.integers(ty.max_value - 5, ty.max_value),
        st.integers(ty.min_value, ty.min_value + 5),
    )
    lower, upper = data.draw(near), data.draw(near)
    step = data.draw(near.filter(bool))
    distance = data.draw(st.integers(0, 4))
    iterations = range(lower, upper, step)
    function = exists(ty, step if constant else None, distance)
    if function is None:
        assert constant and not ty.min_value <= distance * step <= ty.max_value
        return
    for number in {
        0,
        len(iterations) // 2,
        len(iterations) - distance - 1,
        len(iterations) - distance,
    }:
        index = lower if not iterations else iterations[max(0, min(number, len(iterations) - 1))]
        there = bool(iterations) and iterations.index(index) + distance < len(iterations)
        assert function(lower, upper, step, index) == there


# -- buffers

SOURCES = [
    (blocked([32, 16], [1, 4], [8, 4], [4, 1]), 1),
    (blocked([128, 64], [1, 8], [4, 8], [4, 1]), 1),
    (blocked([64, 128], [1, 8], [2, 16], [4, 1]), 1),
    (blocked([16, 32], [4, 1], [4, 8], [1, 4], [0, 1]), 0),
    (blocked([64, 64], [8, 1], [8, 4], [1, 4], [0, 1]), 0),
]


@pytest.mark.parametrize("bits", [8, 16, 32])
@pytest.mark.parametrize(("source", "axis"), SOURCES, ids=str)
def test_copies_have_contiguous_vectors(source: LinearLayout, axis: int, bits: int) -> None:
    """Whatever layout the buffer is read in."""
    shape = source.shape
    wanted = [
        source,
        blocked(shape, [2, 2], [8, 4], [2, 2]),
        blocked(shape, [1, 1], [1, 32], [4, 1]),
        blocked(shape, [8, 1], [32, 1], [1, 4], [0, 1]),
    ]
    widest = min(source.in_size("register"), 128 // bits, 8)
    vector = widest
    while vector * bits >= 32:
        for other in wanted:
            actual = copy_layout(source, (other,), bits, (axis, vector), CP_ASYNC.banks)
            assert actual.is_bijective()
            units = [tuple(int(a == axis) << bit for a in range(2)) for bit in range(9)]
            length = vector.bit_length() - 1
            assert [tuple(basis) for basis in actual.bases(OFFSET)][:length] == units[:length]
            copies = shared_access(source, actual, bits, CP_ASYNC.banks.up_to(vector * bits))
            assert copies.vector == vector
            assert copies.conflicts(bits) == 0
        vector //= 2


@pytest.mark.parametrize("bits", [8, 32])
def test_copies_of_blocks_to_be_transposed_fill_lines(bits: int) -> None:
    """Adjacent vectors of a row lie in 128 bytes, in any order."""
    vector, line = 128 // bits, 1024 // bits
    source = blocked([line, 256], [1, vector], [vector // 8 or 1, min(32, 256 // vector)], [8, 1])
    blocks = blocked([line, 256], [vector, 4], [8, 4], [1, 8], (0, 1))
    actual = copy_layout(source, (blocks,), bits, (1, vector), CP_ASYNC.banks)
    first = {tuple(basis) for basis in actual.bases(OFFSET)[: line.bit_length() - 1]}
    assert first == {(0, 1 << bit) for bit in range(line.bit_length() - 1)}
    copies = shared_access(source, actual, bits, CP_ASYNC.banks)
    loads = shared_access(blocks, actual, bits, CP_ASYNC.banks)
    assert copies.conflicts(bits) == loads.conflicts(bits) == 0


@pytest.mark.parametrize("warps", [1, 2, 4, 8])
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("bits", [16, 32])
def test_copies_and_loads_of_operands_have_no_conflicts(
    bits: int, transposed: bool, warps: int
) -> None:
    """Threads hold several rows of an operand, some of them as they copy them."""
    vector = 128 // bits
    lanes = 32 // vector
    source = blocked([64, 32], [1, vector], [32 // lanes, lanes], [warps, 1])
    accumulator = blocked([64, 64], [4, 4], [4, 8], [1, warps] if transposed else [warps, 1])
    left, right = fma_operand_layouts(accumulator, 32)
    wanted = permute_axes(right, [1, 0]) if transposed else left
    actual = copy_layout(source, (wanted,), bits, (1, vector), CP_ASYNC.banks)
    copies, loads = (shared_access(layout, actual, bits) for layout in (source, wanted))
    assert copies.vector >= vector
    assert copies.conflicts(bits) == loads.conflicts(bits) == 0


@pytest.mark.parametrize("depth", [8, 16])
@pytest.mark.parametrize("batch", [(), (1,)])
def test_short_rows_are_in_one_line(batch: tuple[int, ...], depth: int) -> None:
    """Lanes copy adjacent vectors of a row to one line, and read rows 4 apart without conflicts."""
    ones = [1] * len(batch)
    lanes = depth // 4
    source = blocked(
        [*batch, 128, depth], [*ones, 1, 4], [*ones, 32 // lanes, lanes], [*ones, 4, 1]
    )
    accumulator = blocked([*batch, 128, 128], [*ones, 4, 4], [*ones, 8, 4], [*ones, 2, 2])
    wanted, _ = fma_operand_layouts(accumulator, depth)
    actual = copy_layout(source, (wanted,), 32, (len(batch) + 1, 4), CP_ASYNC.banks)
    first = {tuple(basis) for basis in actual.bases(OFFSET)[: depth.bit_length() - 1]}
    assert first == {(*(0 for _ in batch), 0, 1 << bit) for bit in range(depth.bit_length() - 1)}
    copies, loads = (shared_access(layout, actual, 32) for layout in (source, wanted))
    assert copies.conflicts(32) == loads.conflicts(32) == 0


def test_waits_for_copies_are_at_the_line_of_the_loop() -> None:
    module = KERNELS["matmul_f16"].compile("interp:cp_async").artifact.module
    (loop,) = [op for op in module.walk() if op.name == "for" and op.parent is None]
    locations = {
        op.loc
        for op in module.walk()
        if op.name in ("cp_async_wait_group", "cp_async_commit_group")
    }
    assert locations == {loop.loc}


@pytest.mark.parametrize(
    ("rows", "columns", "file", "go_on"),
    [
        (64, 64, 1 << 16, False),  # three programs have the registers, or two whose dots go on
        (64, 64, 1 << 17, True),
        (64, 128, 1 << 16, True),  # shared memory suffices for two only
        (128, 64, 1 << 16, False),  # a thread has not so many registers
    ],
)
def test_wgmma_stay_in_flight_where_registers_are_to_spare(
    rows: int, columns: int, file: int, go_on: bool
) -> None:
    kernel = replace(KERNELS["gradient"], constants={"N": rows, "D": columns})
    module = kernel.compile("interp").artifact.module.clone()
    lower(module, replace(WGMMA, register_file=file), num_warps=rows // 16, num_stages=2)
    assert (max(_pending(module)) > 0) == go_on


@pytest.mark.parametrize(
    ("most", "pending"),
    [
        (None, [0, 0, 0, 0]),  # ptxas may take registers that cost a program
        (152, [0, 0, 0, 0]),
        (168, [1, 1, 1, 0]),  # two dots are issued first, and all complete in their iteration
    ],
)
def test_wgmma_overlap_in_an_iteration_where_a_launch_limits_registers(
    most: int | None, pending: list[int]
) -> None:
    kernel = replace(KERNELS["gradient"], constants={"N": 64, "D": 64})
    module = kernel.compile("interp").artifact.module.clone()
    limit = {} if most is None else {"maxnreg": most}
    lower(module, WGMMA, num_warps=4, num_stages=2, **limit)
    assert _pending(module) == pending


def _pending(module: Module) -> list[int]:
    return [op["pending"] for op in module.walk() if op.defn is wgmma.wgmma_wait]
