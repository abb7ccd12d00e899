"""Places of buffers: apart while both are in use, low, and always the same."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.simt.random_buffers import Writer
from tile.errors import CompilationError, OutOfResourcesError, PassError
from tile.ir.core import Function
from tile.ir.module import Module
from tile.ir.op_definition import Level
from tile.ir.ops import control
from tile.ir.parser import parse_module
from tile.ir.passes import run_pipeline
from tile.ir.printer import print_module
from tile.ir.shared_type import Shared
from tile.ir.types import F16, F32, I8, I32, Scalar, Tile
from tile.location import Loc
from tile.simt import ops
from tile.simt.layouts.blocked import blocked
from tile.simt.layouts.swizzle import swizzled
from tile.simt.memory.allocate_shared import allocate_shared, shared_bytes
from tile.simt.ops.layout_inference import LayoutBuilder
from tile.simt.target import GENERIC, MMA, PLAIN, WGMMA

TIGHT = replace(GENERIC, shared_bytes=1024)  # which leaves nothing to spare


def together(*wanted: tuple[tuple[int, int], Scalar, int]) -> Module:
    """A kernel that uses buffers of some shapes, types and numbers of stages at one time."""
    kernel = Function("k", [I32], ["iteration"], kernel=True)
    build = LayoutBuilder(kernel.body)
    held = []
    for line, (shape, element, stages) in enumerate(wanted, 1):
        tile = Tile(shape, element, blocked(shape, [1, 4], [8, 4], [4, 1]))
        with build.at(Loc("kernel.py", line)):
            memory = swizzled(shape, 1, 1, 1)
            mem = build(ops.shared.local_alloc, result=Shared(shape, element, memory, stages))
            stage = build(ops.shared.local_subview, mem, kernel.args[0])
            build.op(ops.shared.local_store, stage, build.constant(0, tile))
            held.append((stage, tile))
    for stage, tile in held:
        build(ops.shared.local_load, stage, result=tile)
    build.op(control.return_)
    return Module([kernel])


def one_by_one(*shapes: tuple[int, int]) -> Module:
    """A kernel that uses buffers of some shapes, of f32, one after the other."""
    kernel = Function("k", [], [], kernel=True)
    build = LayoutBuilder(kernel.body)
    for line, shape in enumerate(shapes, 1):
        tile = Tile(shape, F32, blocked(shape, [1, 4], [8, 4], [4, 1]))
        with build.at(Loc("kernel.py", line)):
            mem = build(ops.shared.local_alloc, result=Shared(shape, F32, swizzled(shape, 1, 1, 1)))
            build.op(ops.shared.local_store, mem, build.constant(0, tile))
            build(ops.shared.local_load, mem, result=tile)
    build.op(control.return_)
    return Module([kernel])


def offsets(module: Module) -> list[int]:
    return [op["offset"] for op in module.walk() if op.defn is ops.shared.local_alloc]


def test_multi_buffers_are_aligned_to_128_bytes_and_others_to_16() -> None:
    module = together(((1, 8), I8, 1), ((1, 4), I8, 1), ((1, 8), I8, 2), ((1, 8), I8, 1))
    allocate_shared(module, target=TIGHT)
    assert offsets(module) == [32, 48, 0, 16]
    assert shared_bytes(module) == 52


def test_what_is_to_spare_is_used() -> None:
    module = together(((1, 8), I8, 1), ((1, 4), I8, 1), ((1, 8), I8, 2), ((1, 8), I8, 1))
    allocate_shared(module, target=GENERIC)
    assert offsets(module) == [0, 16, 128, 144]


def test_the_allocation_of_a_program_is_planned() -> None:
    module = together(((16, 16), F32, 1))
    with pytest.raises(PassError, match="no offset before the pass allocate-shared") as caught:
        shared_bytes(module)
    assert caught.value.loc == Loc("kernel.py", 1)
    assert shared_bytes(Module()) == 0


def test_too_much_is_itemised() -> None:
    module = together(((128, 32), F16, 4), ((32, 128), F16, 4), ((64, 64), I8, 1))
    with pytest.raises(OutOfResourcesError) as caught:
        allocate_shared(module, target=GENERIC)
    error = caught.value
    assert isinstance(error, CompilationError)
    assert error.message == (
        "@k needs 69632 bytes of shared memory, and a program has 49152 on target generic; "
        "num_stages=2 would take 36864"
    )
    assert error.notes == [
        "32768 bytes for a tile 128x32xf16 in 4 stages, at kernel.py:1:1",
        "32768 bytes for a tile 32x128xf16 in 4 stages, at kernel.py:2:1",
        "4096 bytes for a tile 64x64xi8, at kernel.py:3:1",
    ]
    assert error.loc == Loc("kernel.py", 1)


def test_what_takes_most_is_itemised_wherever_it_lies() -> None:
    """The small buffers lie side by side here, up to where the large one ends."""
    module = one_by_one((64, 64), (64, 64), (64, 64), (64, 64), (128, 128))
    with pytest.raises(OutOfResourcesError, match="needs 65536 bytes") as caught:
        allocate_shared(module, target=GENERIC)
    assert caught.value.notes == ["65536 bytes for a tile 128x128xf32, at kernel.py:5:1"]
    assert caught.value.loc == Loc("kernel.py", 5)


def test_what_fits_in_fewer_stages_fits_by_that_advice() -> None:
    wanted = ((128, 32), F16), ((32, 128), F16)
    allocate_shared(together(*((shape, of, 2) for shape, of in wanted)), target=PLAIN)
    allocate_shared(together(*((shape, of, 4) for shape, of in wanted)), target=MMA)


def test_smaller_tiles_are_advised_where_stages_do_not_help() -> None:
    with pytest.raises(OutOfResourcesError) as caught:
        allocate_shared(together(((128, 128), F32, 1)), target=GENERIC)
    assert caught.value.message.endswith("; tiles of 1/2 of their size would take 32768")
    text = "tiles of 1/4 of their size would take 32768 with num_stages=1"
    with pytest.raises(OutOfResourcesError, match=text):
        allocate_shared(together(((256, 128), F32, 2)), target=GENERIC)


def test_a_buffer_is_used_where_it_is() -> None:
    module = together(((16, 16), F32, 1))
    last = module.kernel.body.last
    assert last is not None and module.kernel.body.first is not None
    last.set_operands([module.kernel.body.first.result])
    with pytest.raises(PassError, match="cannot be passed on by return"):
        allocate_shared(module, target=GENERIC)


@pytest.mark.parametrize("seed", range(20))
def test_offsets_are_deterministic_and_within_the_sum_of_all_buffers(seed: int) -> None:
    texts = set()
    for _ in range(2):
        module = Writer(seed).module()
        run_pipeline(module, "expose-shared{num_warps=2},allocate-shared", Level.LAID_OUT)
        texts.add(print_module(module))
    assert len(texts) == 1
    sizes = [
        -(-op.result.type.bytes // 128) * 128  # type: ignore[attr-defined]
        for op in module.walk()
        if op.defn is ops.shared.local_alloc
    ]
    assert max(sizes, default=0) - 127 <= max(shared_bytes(module), 1) <= max(sum(sizes), 1)


IN_FLIGHT = """
#acc = #linear{register = [[0,1],[8,0],[0,8]], lane = [[0,2],[0,4],[1,0],[2,0],[4,0]], warp = [[16,0],[32,0]] -> dim0 = 64, dim1 = 16}
#right = #linear{register = [[0,1]], lane = [[0,2],[0,4],[0,8],[1,0],[2,0]], warp = [[4,0],[8,0]] -> dim0 = 16, dim1 = 16}
#b = #linear{offset = [[1,0],[2,0],[4,0],[8,0],[0,1],[0,2],[8,4],[0,8]] -> dim0 = 16, dim1 = 16}

func @f(%b: tile<16x16xf16, #right>, %p: tile<64x16xf16, #acc>, %c: tile<64x16xf32, #acc>) -> (tile<64x16xf32, #acc>, tile<16x16xf16, #right>) {
  %m = local_alloc : shared<16x16xf16, #b>
  %n = local_alloc : shared<16x16xf16, #b>
  local_store %m, %b
  %r = wgmma %p, %m, %c {shape = (64, 16, 16, 16), warpgroups = (1, 1)} : tile<64x16xf32, #acc>
  WAIT
  local_store %n, %b
  LATE
  %y = local_load %n : tile<16x16xf16, #right>
  return %s, %y
}
"""


@pytest.mark.parametrize(("late", "apart"), [(False, False), (True, True)])
def test_what_a_wgmma_in_flight_reads_keeps_its_place(late: bool, apart: bool) -> None:
    wait = "%s = wgmma_wait %r {pending = 0} : tile<64x16xf32, #acc>"
    text = IN_FLIGHT.replace("LATE" if late else "WAIT", wait)
    module = parse_module(text.replace("WAIT", "").replace("LATE", ""))
    tuning = replace(WGMMA.tuning, resident_programs=1 << 20)
    allocate_shared(module, target=replace(WGMMA, tuning=tuning))
    first, second = [op["offset"] for op in module.walk() if op.defn is ops.shared.local_alloc]
    assert (first != second) is apart
