"""Operations with effects, control flow and calls: hand-written programs with independent references.

Together with the pure ones they cover the op table; a test at the end says so.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.conformance.running import Device, assert_close
from tests.conformance.test_pure import CASES, CONSTANTS
from tests.conformance.values import random_array
from tile.errors import DeviceAssertionError, UnsupportedError
from tile.ir import semantics
from tile.ir.declare import OPS
from tile.ir.numpy_dtypes import numpy_dtype
from tile.ir.op_definition import Level
from tile.ir.ops.memory import CAS_ELEMENTS, RMW_ELEMENTS, RMWKind
from tile.ir.types import ALL, F32, F64, I32, I64, Scalar

# The operations that the programs of this file, of `test_descriptors.py` and of `test_combining.py`
# are there to test.
COVERED = {
    "addptr", "load", "store", "atomic_rmw", "atomic_cas", "barrier", "program_id", "num_programs",
    "multiprocessor_id", "global_timer", "launch_dependents", "prefetch", "cluster_gather",
    "device_print", "device_assert", "assume", "for", "while", "if", "call", "yield", "condition",
    "return", "make_tensor_descriptor", "descriptor_shape", "descriptor_stride", "descriptor_load",
    "descriptor_store", "descriptor_reduce", "descriptor_gather", "descriptor_scatter",
    "breakpoint", "debug_step", "descriptor_pointers", "im2col_pointers", "inline_asm", "scatter",
}  # fmt: skip

COMBINE: dict[RMWKind, Any] = {
    RMWKind.ADD: lambda a, b: a + b,
    RMWKind.MAX: np.maximum,
    RMWKind.MIN: np.minimum,
    RMWKind.AND: lambda a, b: a & b,
    RMWKind.OR: lambda a, b: a | b,
    RMWKind.XOR: lambda a, b: a ^ b,
    RMWKind.XCHG: lambda a, b: b,
    RMWKind.STORE: lambda a, b: b,
}


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


# -- the grid


def test_programs_know_their_place(device: Device) -> None:
    text = """
    kernel @place(%o: ptr<i32>) {
      %x = program_id {axis = 0} : i32
      %y = program_id {axis = 1} : i32
      %z = program_id {axis = 2} : i32
      %nx = num_programs {axis = 0} : i32
      %ny = num_programs {axis = 1} : i32
      %nz = num_programs {axis = 2} : i32
      %a = mul %z, %ny : i32
      %b = add %a, %y : i32
      %c = mul %b, %nx : i32
      %i = add %c, %x : i32
      %p = addptr %o, %i {stride = 4} : ptr<i32>
      %k = const {value = 100} : i32
      %l = mul %nz, %k : i32
      %v = add %i, %l : i32
      %s = const {value = 4} : i32
      prefetch %p, %s
      store %p, %v
      launch_dependents
      return
    }
    """
    for grid in [(1, 1, 1), (5, 1, 1), (3, 4, 2), (1, 2, 3)]:
        count = int(np.prod(grid))
        out = np.full(count, -1, np.int32)
        device.run(text, grid, [out])
        np.testing.assert_array_equal(out, np.arange(count) + 100 * grid[2])


@pytest.mark.parametrize("element", [F32, I32, I64, F64], ids=str)
def test_programs_of_a_cluster_exchange_numbers(device: Device, element: Scalar) -> None:
    """In a loop, of clusters that iterate differently, and behind it."""
    text = f"""
    kernel @exchange(%x: ptr<{element}>, %o: ptr<{element}>) {{
      %pid = program_id {{axis = 0}} : i32
      %two = const {{value = 2}} : i32
      %one = const {{value = 1}} : i32
      %cluster = div %pid, %two : i32
      %p = addptr %x, %pid {{stride = {element.itemsize}}} : ptr<{element}>
      %q = addptr %o, %pid {{stride = {element.itemsize}}} : ptr<{element}>
      %v = load %p : {element}
      %n = add %cluster, %two : i32
      %sum = for %i = %one to %n step %one iter(%s = %v) : {element} {{
        %a, %b, %c, %d = cluster_gather %s, %v {{size = 2}} : {element}, {element}, {element}, {element}
        %e = sub %b, %a : {element}
        %f = add %e, %c : {element}
        %g = add %f, %d : {element}
        %h = add %g, %v : {element}
        yield %h
      }}
      %y, %z = cluster_gather %sum {{size = 2}} : {element}, {element}
      %w = add %y, %z : {element}
      %r = sub %w, %v : {element}
      store %q, %r
      return
    }}
    """
    x = (rng().integers(1, 9, 12) * 3).astype(numpy_dtype(element))
    expected = np.empty_like(x)
    for cluster, pair in enumerate(x.reshape(-1, 2)):
        sums = pair.copy()
        for _ in range(cluster + 1):
            sums = sums[1] - sums[0] + pair.sum() + pair
        expected[2 * cluster : 2 * cluster + 2] = sums.sum() - pair
    out = np.zeros_like(x)
    clustered = replace(device, options=replace(device.options, num_ctas=2))
    try:
        clustered.run(text, (12, 1, 1), [x, out])
    except UnsupportedError as error:
        if device.target in ("interp", "interp:wgmma") or "has no clusters" not in str(error):
            raise
        pytest.skip(str(error))
    np.testing.assert_array_equal(out, expected)


# -- loads and stores


@pytest.mark.parametrize("element", ALL, ids=str)
def test_load_and_store(device: Device, element: Scalar) -> None:
    """Scattered by a permutation, masked, with and without `other`, and scalar."""
    size = element.itemsize
    text = f"""
    kernel @move(%x: ptr<{element}>, %i: ptr<i32>, %o: ptr<{element}>, %q: ptr<{element}>) {{
      %pid = program_id {{axis = 0}} : i32
      %c16 = const {{value = 16}} : i32
      %s = mul %pid, %c16 : i32
      %st = splat %s {{shape = (16)}} : tile<16xi32>
      %r = arange {{start = 0, end = 16}} : tile<16xi32>
      %at = add %st, %r : tile<16xi32>
      %ib = splat %i {{shape = (16)}} : tile<16xptr<i32>>
      %ip = addptr %ib, %at {{stride = 4}} : tile<16xptr<i32>>
      %index = load %ip : tile<16xi32>
      %zero = const {{value = 0}} : tile<16xi32>
      %mask = cmp %index, %zero {{predicate = ge}} : tile<16xi1>
      %xb = splat %x {{shape = (16)}} : tile<16xptr<{element}>>
      %xp = addptr %xb, %index {{stride = {size}}} : tile<16xptr<{element}>>
      %first = load %x : {element}
      %other = splat %first {{shape = (16)}} : tile<16x{element}>
      %v = load %xp, %mask, %other : tile<16x{element}>
      %ob = splat %o {{shape = (16)}} : tile<16xptr<{element}>>
      %op = addptr %ob, %at {{stride = {size}}} : tile<16xptr<{element}>>
      store %op, %v
      %qb = splat %q {{shape = (16)}} : tile<16xptr<{element}>>
      %qp = addptr %qb, %index {{stride = {size}}} : tile<16xptr<{element}>>
      store %qp, %v, %mask
      return
    }}
    """
    x = random_array(rng(), element, 48)
    index = rng(1).permutation(48).astype(np.int32)
    index[::5] = -1 - index[::5]
    out, scattered = x[::-1].copy(), x[::-1].copy()
    wanted = scattered.copy()
    wanted[index[index >= 0]] = x[index[index >= 0]]
    device.run(text, (3, 1, 1), [x, index, out, scattered])
    assert_close(out, np.where(index >= 0, x[np.maximum(index, 0)], x[0]), 0, "load")
    assert_close(scattered, wanted, 0, "store")


@pytest.mark.parametrize(
    "attributes", ["{cache = cg}", "{eviction = evict_first}", "{volatile = true}"]
)
def test_hints_of_accesses_change_nothing(device: Device, attributes: str) -> None:
    text = f"""
    kernel @copy(%x: ptr<f32>, %o: ptr<f32>) {{
      %v = load %x {attributes} : f32
      barrier
      store %o, %v {"" if "volatile" in attributes else attributes}
      return
    }}
    """
    out = np.zeros(1, np.float32)
    device.run(text, (1, 1, 1), [np.full(1, 2.5, np.float32), out])
    assert out[0] == 2.5


# -- places for a debugger

WATCHED = """
kernel @watched(%x: ptr<f32>, %n: i32, %o: ptr<f32>) {{
  {call}
  %v = load %x : f32
  %zero = const {{value = 0}} : i32
  %one = const {{value = 1}} : i32
  %r = for %i = %zero to %n step %one iter(%a = %v) : f32 {{
    {line}
    %b = add %a, %v : f32
    yield %b
  }}
  store %o, %r
  return
}}
"""
STEP = 'debug_step %a, %i {kind = line, variables = ("a", "B = 8", "i", "c ! it is no more")}'


def watched(device: Device, call: str, line: str) -> float:
    out = np.zeros(1, np.float32)
    arguments = [np.full(1, 2.5, np.float32), np.int32(3), out]
    device.run(WATCHED.format(call=call, line=line), (1, 1, 1), arguments)
    return float(out[0])


def test_steps_change_nothing(device: Device) -> None:
    assert watched(device, "debug_step {kind = call}", STEP) == watched(device, "", "") == 10


def test_breakpoints_are_passed_over_and_that_is_said(device: Device) -> None:
    with pytest.warns(RuntimeWarning, match=r"`breakpoint\(\)` at .* is ignored"):
        assert watched(device, "breakpoint", "breakpoint") == 10


# -- atomics


@pytest.mark.parametrize(
    ("used", "kind", "element"),
    [
        pytest.param(used, kind, element, id=f"{'used' if used else 'blind'}-{kind}-{element}")
        for used in (False, True)
        for kind, elements in RMW_ELEMENTS.items()
        for element in elements
        if not (used and kind is RMWKind.STORE)  # its old value is unspecified
    ],
)
def test_atomic_rmw(device: Device, kind: RMWKind, element: Scalar, used: bool) -> None:
    """Colliding within a program and between programs; numbers for which the order does not matter."""
    size = element.itemsize
    store = (
        f"""
      %ob = splat %o {{shape = (16)}} : tile<16xptr<{element}>>
      %op = addptr %ob, %at {{stride = {size}}} : tile<16xptr<{element}>>
      store %op, %old, %mask"""
        if used
        else ""
    )
    text = f"""
    kernel @rmw(%x: ptr<{element}>, %v: ptr<{element}>, %i: ptr<i32>, %o: ptr<{element}>) {{
      %pid = program_id {{axis = 0}} : i32
      %c16 = const {{value = 16}} : i32
      %s = mul %pid, %c16 : i32
      %st = splat %s {{shape = (16)}} : tile<16xi32>
      %r = arange {{start = 0, end = 16}} : tile<16xi32>
      %at = add %st, %r : tile<16xi32>
      %ib = splat %i {{shape = (16)}} : tile<16xptr<i32>>
      %ip = addptr %ib, %at {{stride = 4}} : tile<16xptr<i32>>
      %index = load %ip : tile<16xi32>
      %zero = const {{value = 0}} : tile<16xi32>
      %mask = cmp %index, %zero {{predicate = ge}} : tile<16xi1>
      %vb = splat %v {{shape = (16)}} : tile<16xptr<{element}>>
      %vp = addptr %vb, %at {{stride = {size}}} : tile<16xptr<{element}>>
      %value = load %vp : tile<16x{element}>
      %xb = splat %x {{shape = (16)}} : tile<16xptr<{element}>>
      %xp = addptr %xb, %index {{stride = {size}}} : tile<16xptr<{element}>>
      %old = atomic_rmw %xp, %value, %mask {{kind = {kind}}} : tile<16x{element}>{store}
      return
    }}
    """
    dtype = semantics.numpy_dtype(element)
    x = rng(2).integers(0, 8, 6).astype(dtype)
    values = rng(3).integers(0, 8, 64).astype(dtype)
    index = rng(4).integers(-2, 6, 64).astype(np.int32)
    out = np.zeros(64, dtype)
    wanted, old = x.copy(), np.zeros(64, dtype)
    for k in range(64):
        if index[k] >= 0:
            old[k] = wanted[index[k]]
            wanted[index[k]] = COMBINE[kind](wanted[index[k]], values[k])
    device.run(text, (4, 1, 1), [x, values, index, out])
    in_order = device.target == "interp"
    if not kind.exchanges or in_order:
        assert_close(x, wanted, 0, "memory")
    if used and in_order:
        assert_close(out, old, 0, "what was there before")


@pytest.mark.parametrize("element", CAS_ELEMENTS, ids=str)
def test_atomic_cas(device: Device, element: Scalar) -> None:
    """Exactly one of the programs that expect the number in a cell reads it."""
    size = element.itemsize
    text = f"""
    kernel @cas(%x: ptr<{element}>, %e: ptr<{element}>, %o: ptr<{element}>) {{
      %pid = program_id {{axis = 0}} : i32
      %c8 = const {{value = 8}} : i32
      %s = mul %pid, %c8 : i32
      %st = splat %s {{shape = (8)}} : tile<8xi32>
      %r = arange {{start = 0, end = 8}} : tile<8xi32>
      %at = add %st, %r : tile<8xi32>
      %c3 = const {{value = 3}} : tile<8xi32>
      %cell = and %r, %c3 : tile<8xi32>
      %xb = splat %x {{shape = (8)}} : tile<8xptr<{element}>>
      %xp = addptr %xb, %cell {{stride = {size}}} : tile<8xptr<{element}>>
      %first = load %e : {element}
      %expected = splat %first {{shape = (8)}} : tile<8x{element}>
      %a = cast %at {{to = {element}}} : tile<8x{element}>
      %b = add %a, %expected : tile<8x{element}>
      %new = add %b, %expected : tile<8x{element}>
      %old = atomic_cas %xp, %expected, %new : tile<8x{element}>
      %ob = splat %o {{shape = (8)}} : tile<8xptr<{element}>>
      %op = addptr %ob, %at {{stride = {size}}} : tile<8xptr<{element}>>
      store %op, %old
      return
    }}
    """
    if element is I32:
        text = text.replace("cast %at {to = i32}", "hint %at {constant = (1)}")
    dtype = semantics.numpy_dtype(element)
    x = np.array([7, 7, 7, 1], dtype)
    expected = np.full(1, 7, dtype)
    out = np.zeros(40, dtype)
    device.run(text, (5, 1, 1), [x, expected, out])
    rows = out.reshape(-1, 4)
    assert (rows[:, 3] == 1).all()
    for cell in range(3):
        (winner,) = np.flatnonzero(rows[:, cell] == 7)
        assert x[cell] == winner * 4 + cell + 14
        assert set(np.delete(rows[:, cell], winner)) == {x[cell]}


# -- control flow


def test_for_counts_up_and_down_with_bounds_that_differ(device: Device) -> None:
    text = """
    kernel @loops(%b: ptr<i32>, %o: ptr<i32>) {
      %pid = program_id {axis = 0} : i32
      %one = const {value = 1} : i32
      %two = const {value = 2} : i32
      %c3 = const {value = 3} : i32
      %zero = const {value = 0} : i32
      %at = mul %pid, %c3 : i32
      %p0 = addptr %b, %at {stride = 4} : ptr<i32>
      %p1 = addptr %p0, %one {stride = 4} : ptr<i32>
      %p2 = addptr %p0, %two {stride = 4} : ptr<i32>
      %lower = load %p0 : i32
      %upper = load %p1 : i32
      %step = load %p2 : i32
      %s, %n = for %i = %lower to %upper step %step iter(%a = %zero, %k = %zero) : i32, i32 {
        %x = mul %a, %c3 : i32
        %y = add %x, %i : i32
        %l = add %k, %one : i32
        yield %y, %l
      }
      %j = mul %pid, %two : i32
      %q0 = addptr %o, %j {stride = 4} : ptr<i32>
      %q1 = addptr %q0, %one {stride = 4} : ptr<i32>
      store %q0, %s
      store %q1, %n
      return
    }
    """
    bounds = [(0, 5, 1), (5, 0, 1), (0, 10, 3), (7, -3, -2), (3, 4, 9), (0, 0, 1), (-4, 4, 2)]
    wanted = []
    for lower, upper, step in bounds:
        s = n = 0
        for i in range(lower, upper, step):
            s, n = 3 * s + i, n + 1
        wanted.append((np.int64(s).astype(np.int32), n))
    out = np.zeros((len(bounds), 2), np.int32)
    device.run(text, (len(bounds), 1, 1), [np.array(bounds, np.int32).ravel(), out.reshape(-1)])
    np.testing.assert_array_equal(out, wanted)


def test_while_with_a_test_that_each_program_answers_for_itself(device: Device) -> None:
    text = """
    kernel @collatz(%x: ptr<i32>, %o: ptr<i32>) {
      %pid = program_id {axis = 0} : i32
      %one = const {value = 1} : i32
      %two = const {value = 2} : i32
      %c3 = const {value = 3} : i32
      %zero = const {value = 0} : i32
      %p = addptr %x, %pid {stride = 4} : ptr<i32>
      %first = load %p : i32
      %n, %k = while iter(%v = %first, %c = %zero) : i32, i32 {
        %more = cmp %v, %one {predicate = gt} : i1
        condition %more
      } do {
        %odd = and %v, %one : i32
        %is = cmp %odd, %one {predicate = eq} : i1
        %next = if %is : i32 {
          %t = mul %v, %c3 : i32
          %u = add %t, %one : i32
          yield %u
        } else {
          %h = div %v, %two : i32
          yield %h
        }
        %count = add %c, %one : i32
        yield %next, %count
      }
      %q = addptr %o, %pid {stride = 4} : ptr<i32>
      store %q, %k
      return
    }
    """
    x = np.array([1, 2, 3, 7, 27, 6, 1, 97], np.int32)
    wanted = []
    for value in map(int, x):
        count = 0
        while value > 1:
            value, count = (3 * value + 1 if value % 2 else value // 2), count + 1
        wanted.append(count)
    out = np.zeros(len(x), np.int32)
    device.run(text, (len(x), 1, 1), [x, out])
    np.testing.assert_array_equal(out, wanted)


@pytest.mark.parametrize("noinline", ["", "noinline "])
def test_calls_under_a_condition(device: Device, noinline: str) -> None:
    text = f"""
    func {noinline}@scale(%x: tile<8xf32>, %k: i32) -> (tile<8xf32>, i32) {{
      %f = cast %k {{to = f32}} : f32
      %s = splat %f {{shape = (8)}} : tile<8xf32>
      %y = mul %x, %s : tile<8xf32>
      %l = add %k, %k : i32
      return %y, %l
    }}
    kernel @calls(%x: ptr<f32>, %o: ptr<f32>) {{
      %pid = program_id {{axis = 0}} : i32
      %r = arange {{start = 0, end = 8}} : tile<8xi32>
      %xb = splat %x {{shape = (8)}} : tile<8xptr<f32>>
      %xp = addptr %xb, %r {{stride = 4}} : tile<8xptr<f32>>
      %v = load %xp : tile<8xf32>
      %one = const {{value = 1}} : i32
      %odd = and %pid, %one : i32
      %is = cmp %odd, %one {{predicate = eq}} : i1
      %w = if %is : tile<8xf32> {{
        %a, %m = call %v, %pid {{callee = @scale}} : tile<8xf32>, i32
        %b, %n = call %a, %m {{callee = @scale}} : tile<8xf32>, i32
        yield %b
      }} else {{
        yield %v
      }}
      %c8 = const {{value = 8}} : i32
      %s = mul %pid, %c8 : i32
      %q = addptr %o, %s {{stride = 4}} : ptr<f32>
      %ob = splat %q {{shape = (8)}} : tile<8xptr<f32>>
      %op = addptr %ob, %r {{stride = 4}} : tile<8xptr<f32>>
      store %op, %w
      return
    }}
    """
    x = random_array(rng(5), F32, 8, (-2, 2))
    out = np.zeros((6, 8), np.float32)
    device.run(text, (6, 1, 1), [x, out.reshape(-1)])
    for pid, row in enumerate(out):
        wanted = x * np.float32(pid) * np.float32(2 * pid) if pid % 2 else x
        np.testing.assert_array_equal(row, wanted)


# -- what a program says


def test_print_and_assumption_change_nothing(
    device: Device, capfd: pytest.CaptureFixture[str]
) -> None:
    text = """
    kernel @talk(%x: ptr<i32>, %o: ptr<i32>) {
      %pid = program_id {axis = 0} : i32
      %p = addptr %x, %pid {stride = 4} : ptr<i32>
      %v = load %p : i32
      %zero = const {value = 0} : i32
      %c = cmp %v, %zero {predicate = ge} : i1
      assume %c
      device_assert %c {message = "never"}
      device_print %v {prefix = "value"}
      %q = addptr %o, %pid {stride = 4} : ptr<i32>
      store %q, %v
      return
    }
    """
    x, out = np.array([4, 5, 6], np.int32), np.zeros(3, np.int32)
    device.run(text, (3, 1, 1), [x, out])
    np.testing.assert_array_equal(out, x)
    printed = capfd.readouterr().out
    for pid, value in enumerate(x):
        (line,) = [line for line in printed.splitlines() if line.endswith(f"value {value}")]
        assert f"({pid}, 0, 0)" in line


@pytest.mark.parametrize("fails", [False, True])
@pytest.mark.parametrize("masked", [False, True])
def test_assertions(device: Device, masked: bool, fails: bool) -> None:
    text = f"""
    kernel @claim(%x: ptr<i32>) {{
      %r = arange {{start = 0, end = 8}} : tile<8xi32>
      %xb = splat %x {{shape = (8)}} : tile<8xptr<i32>>
      %xp = addptr %xb, %r {{stride = 4}} : tile<8xptr<i32>>
      %v = load %xp : tile<8xi32>
      %zero = const {{value = 0}} : tile<8xi32>
      %c = cmp %v, %zero {{predicate = ge}} : tile<8xi1>
      %four = const {{value = 4}} : tile<8xi32>
      %m = cmp %r, %four {{predicate = lt}} : tile<8xi1>
      device_assert %c{", %m" if masked else ""} {{message = "no negative numbers"}}
      return
    }}
    """
    x = np.arange(8, dtype=np.int32)
    x[6] = -1  # the mask leaves it out
    x[2] = -1 if fails else 0
    if fails or not masked:
        with pytest.raises(DeviceAssertionError, match="no negative numbers"):
            device.run(text, (1, 1, 1), [x])
    else:
        device.run(text, (1, 1, 1), [x])


def test_the_whole_table_is_covered() -> None:
    written = {defn.name for defn in OPS if Level.TILE in defn.levels}
    assert written - COVERED - CONSTANTS - set(CASES) == set()
