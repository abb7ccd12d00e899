"""The work of a program: its tiles, operations and bytes, by textual IR."""

from __future__ import annotations

from tile.analysis.workload import TRIP_COUNT, Workload, workload
from tile.ir.parser import parse_module


def work_of(text: str, *arguments: int | None, grid: tuple[int, int, int] = (1, 1, 1)) -> Workload:
    return workload(parse_module(text).kernel, arguments, grid)


def tiles(work: Workload) -> list[tuple[str, tuple[int, ...], float]]:
    return [(tiled.name, tiled.shape, tiled.count) for tiled in work.tiles]


MATMUL = """
kernel @matmul(%a: ptr<f16>, %b: ptr<f16>, %c: ptr<f32>, %K: i32) {
  %p = splat %a {shape = (32, 16)} : tile<32x16xptr<f16>>
  %q = splat %b {shape = (16, 64)} : tile<16x64xptr<f16>>
  %r = splat %c {shape = (32, 64)} : tile<32x64xptr<f32>>
  %zero = const {value = 0} : i32
  %step = const {value = 16} : i32
  %start = const {value = 0.0} : tile<32x64xf32>
  %sum = for %k = %zero to %K step %step iter(%t = %start) : tile<32x64xf32> {
    %x = load %p : tile<32x16xf16>
    %y = load %q : tile<16x64xf16>
    %z = dot %x, %y, %t : tile<32x64xf32>
    yield %z
  }
  %twice = add %sum, %sum : tile<32x64xf32>
  store %r, %twice
  return
}
"""


def test_loops_run_as_often_as_the_arguments_say() -> None:
    work = work_of(MATMUL, None, None, None, 100)
    assert tiles(work) == [
        ("load0", (32, 16), 7.0),
        ("load1", (16, 64), 7.0),
        ("dot0", (32, 64, 16), 7.0),
        ("store0", (32, 64), 1.0),
    ]
    assert work.dot_flops == 7 * 2 * 32 * 64 * 16 and work.flops == 32 * 64
    assert work.loop_bytes == 2 * (32 * 16 + 16 * 64)
    assert work.bytes == 7 * work.loop_bytes + 4 * 32 * 64
    assert work.accumulator_bytes == 4 * 32 * 64
    assert work.of_kind("dot")[0].tile == (32, 64)


def test_a_loop_of_unknown_length_has_some_length() -> None:
    assert {count for _, _, count in tiles(work_of(MATMUL))} == {TRIP_COUNT, 1.0}


def test_bounds_are_those_of_the_middle_program() -> None:
    text = """
kernel @causal(%x: ptr<f32>, %n: i32) {
  %p = splat %x {shape = (8)} : tile<8xptr<f32>>
  %zero = const {value = 0} : i32
  %one = const {value = 1} : i32
  %program = program_id {axis = 0} : i32
  %all = num_programs {axis = 0} : i32
  %end = mul %program, %n : i32
  for %k = %zero to %end step %one {
    %y = load %p : tile<8xf32>
    yield
  }
  for %k = %zero to %all step %one {
    %y = load %p : tile<8xf32>
    yield
  }
  return
}
"""
    work = work_of(text, None, 3, grid=(9, 1, 1))
    assert [count for _, _, count in tiles(work)] == [12.0, 9.0]


def test_branches_count_by_half_and_reductions_are_tiles() -> None:
    text = """
kernel @branch(%x: ptr<f32>, %c: i1) {
  %p = splat %x {shape = (4, 8)} : tile<4x8xptr<f32>>
  if %c {
    %y = load %p : tile<4x8xf32>
    %s = reduce %y {axis = -1, kind = sum} : tile<4xf32>
    yield
  } else {
    yield
  }
  return
}
"""
    assert tiles(work_of(text)) == [("load0", (4, 8), 0.5), ("reduce0", (4, 8), 0.5)]
