"""Loops and branches in which programs diverge, and the cost of a large grid."""

from __future__ import annotations

import tracemalloc
from typing import Any

import numpy as np
import pytest

from tile.backends.interp.launch import Launch
from tile.backends.interp.rules import RULES
from tile.backends.interp.translate import translate
from tile.config import config
from tile.errors import DeadlockError, ExecutionError
from tile.ir.parser import parse_module


def run(text: str, grid: int, *arguments: Any) -> None:
    Launch(translate(parse_module(text), RULES), (grid, 1, 1), arguments).run()


COUNT = """
kernel @count(%b: ptr<TYPE>, %o: ptr<i64>) {
  %pid = program_id {axis = 0} : i32
  %c3 = const {value = 3} : i32
  %one = const {value = 1} : i32
  %two = const {value = 2} : i32
  %zero = const {value = 0} : i64
  %at = mul %pid, %c3 : i32
  %p0 = addptr %b, %at {stride = SIZE} : ptr<TYPE>
  %p1 = addptr %p0, %one {stride = SIZE} : ptr<TYPE>
  %p2 = addptr %p0, %two {stride = SIZE} : ptr<TYPE>
  %lower = load %p0 : TYPE
  %upper = load %p1 : TYPE
  %step = load %p2 : TYPE
  %n = for %i = %lower to %upper step %step iter(%a = %zero) : i64 {
    %w = cast %i {to = i64} : i64
    %s = add %a, %w : i64
    yield %s
  }
  %q = addptr %o, %pid {stride = 8} : ptr<i64>
  store %q, %n
  return
}
"""
EDGES = {
    "i8": [(120, 127, 3), (-128, 127, 100), (127, -128, -50), (5, 5, 1), (-1, 1, 1)],
    "u8": [(250, 255, 2), (0, 255, 128), (200, 100, 1)],
    "i32": [(2147483640, 2147483647, 5), (-2147483648, 0, 1 << 30), (3, -4, -3)],
    "u32": [(4294967290, 4294967295, 4), (0, 3, 2)],
    "i64": [(1 << 62, (1 << 62) + 5, 2), (0, -7, -2), ((1 << 63) - 4, (1 << 63) - 1, 2)],
}


@pytest.mark.parametrize("element", EDGES)
@pytest.mark.parametrize("together", [True, False])
def test_index_stops_at_the_end_of_its_type(element: str, together: bool) -> None:
    dtype = np.dtype({"i": "int", "u": "uint"}[element[0]] + element[1:])
    text = COUNT.replace("TYPE", element).replace("SIZE", str(dtype.itemsize))
    bounds = EDGES[element]
    # The sum is an i64, which wraps.
    wanted = [(sum(range(*b)) + (1 << 63)) % (1 << 64) - (1 << 63) for b in bounds]
    if together:
        out = np.zeros(len(bounds), np.int64)
        run(text, len(bounds), np.array(bounds, dtype).ravel(), out)
        assert out.tolist() == wanted
        return
    for b, total in zip(bounds, wanted, strict=True):
        out = np.zeros(1, np.int64)
        run(text, 1, np.array(b, dtype), out)
        assert out.tolist() == [total]


@pytest.mark.parametrize("bounds", [[(0, 5, 0)], [(5, 0, 0)], [(0, 2, 1), (4, 0, 0), (3, 1, -1)]])
def test_a_step_of_zero_is_refused(bounds: list[tuple[int, int, int]]) -> None:
    text = COUNT.replace("TYPE", "i32").replace("SIZE", "4")
    row = next(i for i, b in enumerate(bounds) if b[2] == 0)
    with pytest.raises(ExecutionError, match="a `for` loop has a step of 0") as caught:
        run(text, len(bounds), np.array(bounds, np.int32).ravel(), np.zeros(9, np.int64))
    assert f"in program ({row}, 0, 0)" in str(caught.value)
    assert caught.value.loc is not None
    assert "for %i" in str(caught.value)


NESTED = """
func noinline @step(%x: i32, %k: i32) -> (i32) {
  %three = const {value = 3} : i32
  %one = const {value = 1} : i32
  %zero = const {value = 0} : i32
  %rest = rem %x, %three : i32
  %is = cmp %rest, %zero {predicate = eq} : i1
  %y = if %is : i32 {
    %n = for %i = %zero to %k step %one iter(%a = %x) : i32 {
      %b = add %a, %i : i32
      yield %b
    }
    yield %n
  } else {
    %w = while iter(%a = %x) : i32 {
      %two = const {value = 7} : i32
      %m = and %a, %two : i32
      %go = cmp %m, %k {predicate = gt} : i1
      condition %go
    } do {
      %b = sub %a, %one : i32
      yield %b
    }
    yield %w
  }
  return %y
}
kernel @nested(%x: ptr<i32>, %o: ptr<i32>, %rounds: i32) {
  %pid = program_id {axis = 0} : i32
  %zero = const {value = 0} : i32
  %one = const {value = 1} : i32
  %c7 = const {value = 7} : i32
  %p = addptr %x, %pid {stride = 4} : ptr<i32>
  %first = load %p : i32
  %v = for %r = %zero to %rounds step %one iter(%a = %first) : i32 {
    %k = and %a, %c7 : i32
    %some = cmp %k, %r {predicate = ge} : i1
    %b = if %some : i32 {
      %c = call %a, %k {callee = @step} : i32
      %d = add %c, %one : i32
      yield %d
    } else {
      %e = call %pid, %r {callee = @step} : i32
      %f = sub %a, %e : i32
      yield %f
    }
    yield %b
  }
  %q = addptr %o, %pid {stride = 4} : ptr<i32>
  store %q, %v
  return
}
"""


def python_step(x: int, k: int) -> int:
    if x - int(x / 3) * 3 == 0:
        return x + sum(range(k))
    while x & 7 > k:
        x -= 1
    return x


@pytest.mark.parametrize("chunk", [1, 40, 1 << 19])
def test_calls_loops_and_branches_inside_each_other(chunk: int) -> None:
    x = np.random.default_rng(3).integers(-50, 50, 64).astype(np.int32)
    out = np.zeros(64, np.int32)
    with config.scope(chunk_bytes=chunk):
        run(NESTED, 64, x, out, np.int32(6))
    for pid, first in enumerate(x.tolist()):
        a = first
        for r in range(6):
            k = a & 7
            a = python_step(a, k) + 1 if k >= r else a - python_step(pid, r)
        assert out[pid] == a


SPIN = """
kernel @spin(%x: ptr<i32>) {
  %pid = program_id {axis = 0} : i32
  %two = const {value = 2} : i32
  while {
    %more = cmp %pid, %two {predicate = ge} : i1
    condition %more
  } do {
    yield
  }
  %p = addptr %x, %pid {stride = 4} : ptr<i32>
  store %p, %two
  return
}
"""


def test_a_loop_without_memory_that_never_ends_is_reported() -> None:
    x = np.zeros(5, np.int32)
    with pytest.raises(DeadlockError) as caught:
        run(SPIN, 5, x)
    text = str(caught.value)
    assert "3 of 5 programs of `spin` wait in a loop forever" in text
    assert "program (2, 0, 0) of grid (5, 1, 1)" in text
    np.testing.assert_array_equal(x, [2, 2, 0, 0, 0])


LARGE = """
kernel @large(%x: ptr<i8>) {
  %pid = program_id {axis = 0} : i32
  %c = const {value = 1023} : i32
  %i = and %pid, %c : i32
  %is = cmp %i, %c {predicate = eq} : i1
  if %is {
    %p = addptr %x, %i {stride = 1} : ptr<i8>
    %q = arange {start = 0, end = 16} : tile<16xi32>
    %f = cast %q {to = i8} : tile<16xi8>
    %m = reduce %f {axis = -1, kind = max} : i8
    store %p, %m
    yield
  }
  return
}
"""


def test_memory_is_bounded_by_the_chunk() -> None:
    x = np.zeros(1024, np.int8)
    tracemalloc.start()
    run(LARGE, 1 << 20, x)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert x[-1] == 15
    assert peak < 16 << 20
