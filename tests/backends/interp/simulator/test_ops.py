"""The result of each THREAD operation."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

from tests.backends.interp.simulator.kernels import framed, result, run, thread_module
from tile.backends.interp.simulator.counters import Counters, SharedCounts
from tile.backends.interp.simulator.thread_kernel import run_threads
from tile.errors import (
    DeviceAssertionError,
    DivergenceError,
    ExecutionError,
    OutOfBoundsError,
    OutOfResourcesError,
    PassError,
    RaceError,
    UnsupportedError,
    VectorAccessError,
)
from tile.simt.layouts.mma_fragments import MmaShape, Operand, matrix_layout
from tile.simt.target import MMA, TARGETS

OUT = "store %q, %y\n"


def ints(body: str, **options: Any) -> Any:
    """Return what a framed kernel puts into %n, a frag<1xi32>."""
    return result(f"{body}\n%y = cast %n {{to = f32}} : frag<1xf32>\n{OUT}", **options)


# -- thread and program indices


def test_thread_id() -> None:
    assert np.array_equal(ints("%n = frag_splat %t {count = 1} : frag<1xi32>"), np.arange(64))


def test_linear_index_of_two_axes() -> None:
    layout = (
        "#linear{register = [], lane = [[0,1],[1,0],[0,2],[2,0],[4,0]], warp = [[0,4]] "
        "-> dim0 = 8, dim1 = 8}"
    )
    actual = ints(f"%n = layout_index {{layout = {layout}}} : frag<1xi32>")
    t = np.arange(64)
    bit = [t >> b & 1 for b in range(6)]
    row = bit[1] + 2 * bit[3] + 4 * bit[4]
    column = bit[0] + 2 * bit[2] + 4 * bit[5]
    assert np.array_equal(actual, row * 8 + column)


def test_a_layout_without_registers_gives_a_scalar() -> None:
    body = """
  %s = layout_index {layout = #linear{lane = [[2],[4],[8],[16],[32]], warp = [[1]] -> dim0 = 64}} : i32
  %n = frag_splat %s {count = 1} : frag<1xi32>
"""
    t = np.arange(64)
    assert np.array_equal(ints(body), t % 32 * 2 + t // 32)


def test_layout_for_another_target_is_refused() -> None:
    with pytest.raises(UnsupportedError, match=r"expected a layout for 64 lanes"):
        result("", target="warp64", warps=1)
    with pytest.raises(UnsupportedError, match=r"expected a layout for 4 warps"):
        result("", warps=4)


def test_the_program() -> None:
    body = """
  %pid = program_id {axis = 0} : i32
  %two = const {value = 2} : i32
  %last = cmp %pid, %two {predicate = eq} : i1
  %mask = frag_splat %last {count = 1} : frag<1xi1>
  %s = num_programs {axis = 0} : i32
  %sum = add %s, %pid : i32
  %n = frag_splat %sum {count = 1} : frag<1xi32>
  %y = cast %n {to = f32} : frag<1xf32>
  store %q, %y, %mask
"""
    assert np.array_equal(result(body, grid=3), np.full(64, 5))


# -- registers

FOUR = """
  %one = const {value = 100} : frag<1xi32>
  %i1 = add %i, %one : frag<1xi32>
  %i2 = add %i1, %one : frag<1xi32>
  %i3 = add %i2, %one : frag<1xi32>
  %four = frag_shuffle %i, %i1, %i2, %i3 {registers = (3, 1, 0, 2)} : frag<4xi32>
"""


def test_pick_and_element() -> None:
    for register, hundreds in enumerate([3, 1, 0, 2]):
        body = f"%e = frag_extract %four {{register = {register}}} : i32\n%n = frag_splat %e {{count = 1}} : frag<1xi32>"
        assert np.array_equal(ints(FOUR + body), np.arange(64) + 100 * hundreds)
        body = f"%n = frag_shuffle %four {{registers = ({register})}} : frag<1xi32>"
        assert np.array_equal(ints(FOUR + body), np.arange(64) + 100 * hundreds)


def test_equal_registers_are_stored_once() -> None:
    """A constant is stored as one register, whatever its type."""
    body = """
  %c = const {value = 9} : frag<4xi32>
  %e = frag_extract %c {register = 3} : i32
  %f = frag_splat %e {count = 2} : frag<2xi32>
  %n = frag_shuffle %i, %f, %c {registers = (6)} : frag<1xi32>
"""
    assert np.array_equal(ints(body), np.full(64, 9))


def test_pick_by() -> None:
    body = """
  %three = const {value = 3} : frag<1xi32>
  %which = and %i, %three : frag<1xi32>
  %n = frag_gather %four, %which : frag<1xi32>
"""
    t = np.arange(64)
    assert np.array_equal(ints(FOUR + body), t + 100 * np.array([3, 1, 0, 2])[t % 4])
    with pytest.raises(OutOfBoundsError, match=r"frag_gather reads register 4 of 4") as caught:
        result(FOUR + "%n = frag_gather %four, %i : frag<1xi32>\n")
    assert "thread 4 (warp 0, lane 4)" in str(caught.value)


# -- lanes


@pytest.mark.parametrize("mask", [1, 5, 31])
def test_shuffle_xor(mask: int) -> None:
    body = f"%y = shuffle_xor %x {{mask = {mask}}} : frag<1xf32>\n" + OUT
    assert np.array_equal(result(body), np.arange(64) ^ mask)


def test_shuffle() -> None:
    body = """
  %c = const {value = 11} : i32
  %m = const {value = 31} : i32
  %a = mul %t, %c : i32
  %lane = and %a, %m : i32
  %y = shuffle_idx %x, %lane : frag<1xf32>
"""
    t = np.arange(64)
    assert np.array_equal(result(body + OUT), t // 32 * 32 + t * 11 % 32)


@pytest.mark.parametrize("number", [32, -1])
def test_lane_out_of_range(number: int) -> None:
    body = f"%c = const {{value = {number}}} : i32\n%y = shuffle_idx %x, %c : frag<1xf32>\n"
    with pytest.raises(ExecutionError, match=rf"shuffle_idx reads lane {number} of a warp of 32"):
        result(body)
    with pytest.raises(ExecutionError, match=r"shuffle_xor by 32 exceeds a warp of 32"):
        result("%y = shuffle_xor %x {mask = 32} : frag<1xf32>\n")


def test_target_without_shuffles() -> None:
    with pytest.raises(UnsupportedError, match="target plain has no shuffles") as caught:
        result("%y = shuffle_xor %x {mask = 1} : frag<1xf32>\n", target="plain")
    assert caught.value.loc is not None


# -- divergence

HALF = """
  %c = const {value = LIMIT} : i32
  %few = cmp %t, %c {predicate = lt} : i1
  if %few {
    BODY
    yield
  } else {
    yield
  }
"""


def some(limit: int, body: str) -> str:
    """Return a body that only the first threads execute."""
    return HALF.replace("LIMIT", str(limit)).replace("BODY", body)


def test_threads_may_diverge() -> None:
    body = some(10, "%y = neg %x : frag<1xf32>\nstore %q, %y")
    assert np.array_equal(result(body), np.where(np.arange(64) < 10, -np.arange(64), -1))


def test_a_barrier_takes_all_threads() -> None:
    with pytest.raises(DivergenceError) as caught:
        result(some(10, "barrier"))
    text = str(caught.value)
    assert "`k` executes `barrier` with only some threads of a program; it needs all" in text
    assert "in program (0, 0, 0) of grid (1, 1, 1), thread 0 (warp 0, lane 0)" in text
    assert "note: thread 10 (warp 0, lane 10) does not execute it" in text
    with pytest.raises(DivergenceError, match=r"thread 32 \(warp 1, lane 0\) does not execute it"):
        result(some(32, "barrier"))


def test_a_shuffle_takes_all_lanes() -> None:
    body = "%y = shuffle_xor %x {mask = 1} : frag<1xf32>\nstore %q, %y"
    expected = np.where(np.arange(64) < 32, np.arange(64) ^ 1, -1)
    assert np.array_equal(result(some(32, body)), expected)
    with pytest.raises(DivergenceError, match="`shuffle_xor` with only some threads of a warp"):
        result(some(10, body))


def test_programs_may_diverge() -> None:
    body = """
  %pid = program_id {axis = 0} : i32
  %c = const {value = 1} : i32
  %second = cmp %pid, %c {predicate = eq} : i1
  %w = if %second : frag<1xf32> {
    barrier
    %v = shuffle_xor %x {mask = 3} : frag<1xf32>
    yield %v
  } else {
    yield %x
  }
  %mask = frag_splat %second {count = 1} : frag<1xi1>
  store %q, %w, %mask
"""
    assert np.array_equal(result(body, grid=3), np.arange(64) ^ 3)


# -- dots


def test_thread_dot() -> None:
    rng = np.random.default_rng(0)
    a, b, c = (rng.integers(-4, 4, (64, *s)).astype(np.float32) for s in ((3, 4), (4, 2), (3, 2)))
    # Registers are powers of two, so 3 rows are 4 with one of zeros.
    a, c = (np.pad(x, ((0, 0), (0, 1), (0, 0))) for x in (a, c))
    out = np.zeros((64, 4, 2), np.float32)
    text = """
kernel @k(%a: ptr<f32>, %b: ptr<f32>, %c: ptr<f32>, %o: ptr<f32>) {
  %i16 = layout_index {layout = #linear{register = [[1],[2],[4],[8]], lane = [[16],[32],[64],[128],[256]], warp = [[512]] -> dim0 = 1024}} : frag<16xi32>
  %i8 = layout_index {layout = #linear{register = [[1],[2],[4]], lane = [[8],[16],[32],[64],[128]], warp = [[256]] -> dim0 = 512}} : frag<8xi32>
  %af = frag_splat %a {count = 16} : frag<16xptr<f32>>
  %ap = addptr %af, %i16 {stride = 4} : frag<16xptr<f32>>
  %av = load %ap : frag<16xf32>
  %bf = frag_splat %b {count = 8} : frag<8xptr<f32>>
  %bp = addptr %bf, %i8 {stride = 4} : frag<8xptr<f32>>
  %bv = load %bp : frag<8xf32>
  %cf = frag_splat %c {count = 8} : frag<8xptr<f32>>
  %cp = addptr %cf, %i8 {stride = 4} : frag<8xptr<f32>>
  %cv = load %cp : frag<8xf32>
  %r = fma_dot %av, %bv, %cv {sizes = (1, 4, 2, 4)} : frag<8xf32>
  %of = frag_splat %o {count = 8} : frag<8xptr<f32>>
  %op = addptr %of, %i8 {stride = 4} : frag<8xptr<f32>>
  store %op, %r
  return
}
"""
    run(text, a, b, c, out)
    assert np.array_equal(out, a @ b + c)


def _tile(name: str, ty: str, layout: Any) -> str:
    """Pointers %{name}p to a tile in row-major order, in a layout."""
    count = layout.in_size("register")
    return f"""
  %{name}i = layout_index {{layout = {layout}}} : frag<{count}xi32>
  %{name}f = frag_splat %{name} {{count = {count}}} : frag<{count}xptr<{ty}>>
  %{name}p = addptr %{name}f, %{name}i {{stride = {int(ty[1:]) // 8}}} : frag<{count}xptr<{ty}>>
"""


@pytest.mark.parametrize("repeats", [(1, 1, 1), (2, 1, 2), (2, 4, 1), (1, 2, 4)])
@pytest.mark.parametrize(
    ("shape", "ty", "acc"),
    [
        ((16, 8, 16, 16), "f16", "f32"),
        ((16, 8, 8, 32), "f32", "f32"),
        ((8, 8, 4, 64), "f64", "f64"),
        ((16, 8, 16, 64), "f64", "f64"),
        ((16, 8, 8, 16), "f16", "f32"),
        ((16, 8, 4, 32), "f32", "f32"),
        ((16, 8, 16, 8), "i8", "i32"),
        ((8, 8, 16, 8), "i8", "i32"),
    ],
)
def test_matrix_multiply(
    shape: tuple[int, int, int, int], ty: str, acc: str, repeats: tuple[int, int, int]
) -> None:
    """The registers of a tile's layout are in the order of the operation's operands."""
    m, n, k = (size * count for size, count in zip(shape, repeats, strict=False))
    rng = np.random.default_rng(0)
    # Two warps, side by side along m.
    a = rng.integers(-4, 4, (2 * m, k)).astype(f"{ty[0]}{int(ty[1:]) // 8}")
    b = rng.integers(-4, 4, (k, n)).astype(a.dtype)
    c = rng.integers(-4, 4, (2 * m, n)).astype(f"{acc[0]}{int(acc[1:]) // 8}")
    out = np.zeros_like(c)
    layouts = {
        operand: matrix_layout(x.shape, MmaShape(*shape), operand, (2, 1))
        for operand, x in zip(Operand, (a, b, c), strict=True)
    }
    counts = [layout.in_size("register") for layout in layouts.values()]
    text = f"""
kernel @k(%a: ptr<{ty}>, %b: ptr<{ty}>, %c: ptr<{acc}>, %o: ptr<{acc}>) {{
  {_tile("a", ty, layouts[Operand.LEFT])}
  {_tile("b", ty, layouts[Operand.RIGHT])}
  {_tile("c", acc, layouts[Operand.ACCUMULATOR])}
  {_tile("o", acc, layouts[Operand.ACCUMULATOR])}
  %av = load %ap : frag<{counts[0]}x{ty}>
  %bv = load %bp : frag<{counts[1]}x{ty}>
  %cv = load %cp : frag<{counts[2]}x{acc}>
  %r = mma %av, %bv, %cv {{shape = {shape}, repeats = {repeats}}} : frag<{counts[2]}x{acc}>
  store %op, %r
  return
}}
"""
    run(text, a, b, c, out, target="mma")
    assert np.array_equal(out, a.astype(c.dtype) @ b.astype(c.dtype) + c)


def test_unsupported_mma() -> None:
    text = """
kernel @k() {
  %a = const {value = 1.0} : frag<8xf16>
  %b = const {value = 1.0} : frag<COUNTxf16>
  %c = const {value = 1.0} : frag<4xf32>
  %r = mma %a, %b, %c {shape = (16, 8, 16, 16), repeats = (1, 1, 1)} : frag<4xf32>
  return
}
"""
    run(text.replace("COUNT", "4"), target="mma")
    with pytest.raises(UnsupportedError, match="target cp_async has no mma m16n8k16"):
        run(text.replace("COUNT", "4"))
    with pytest.raises(UnsupportedError, match="take 4 registers, not frag<8xf16>"):
        run(text.replace("COUNT", "8"), target="mma")


# -- global memory

VECTORS = """
kernel @k(%in: ptr<f32>, %out: ptr<f32>, %shift: i32, %step: i32, %n: i32) {
  %i = layout_index {layout = #linear{register = [[1],[2]], lane = [[4],[8],[16],[32],[64]], warp = [[128]] -> dim0 = 256}} : frag<4xi32>
  %fs = frag_splat %step {count = 4} : frag<4xi32>
  %is = mul %i, %fs : frag<4xi32>
  %fd = frag_splat %shift {count = 4} : frag<4xi32>
  %j = add %is, %fd : frag<4xi32>
  %fn = frag_splat %n {count = 4} : frag<4xi32>
  %mask = cmp %i, %fn {predicate = lt} : frag<4xi1>
  %fi = frag_splat %in {count = 4} : frag<4xptr<f32>>
  %p = addptr %fi, %j {stride = 4} : frag<4xptr<f32>>
  %x = load %p, %mask {vector = 4} : frag<4xf32>
  %fo = frag_splat %out {count = 4} : frag<4xptr<f32>>
  %q = addptr %fo, %j {stride = 4} : frag<4xptr<f32>>
  store %q, %x, %mask {vector = 4}
  return
}
"""


def aligned(count: int) -> Any:
    """Numbers from 0 at an address that is a multiple of 16."""
    space = np.zeros(count + 4, np.float32)
    first = -space.ctypes.data % 16 // 4
    array = space[first : first + count]
    array[:] = np.arange(count)
    return array


def vectors(shift: int, step: int = 1, n: int = 256) -> Any:
    out = aligned(520)
    out[:] = -1
    run(VECTORS, aligned(520), out, np.int32(shift), np.int32(step), np.int32(n))
    return out


def test_vectors() -> None:
    actual = vectors(4, n=128)
    assert np.array_equal(actual[4:132], np.arange(4, 132))
    assert np.all(actual[132:] == -1)


@pytest.mark.parametrize(
    ("shift", "step", "n", "what", "where"),
    [
        (1, 1, 256, "that is not aligned to its 16 bytes", "register 0, in program .* thread 0 "),
        (0, 2, 256, "of 4 elements that are not contiguous", "register 0, in program .* thread 0 "),
        (0, 1, 130, "with masks that differ", "register 0, in program .* thread 32 "),
    ],
)
def test_invalid_vectors(shift: int, step: int, n: int, what: str, where: str) -> None:
    with pytest.raises(VectorAccessError, match=what) as caught:
        vectors(shift, step, n)
    caught.match(where)


def test_vectors_that_are_masked_may_point_anywhere() -> None:
    assert np.all(vectors(1, step=3, n=0) == -1)


def test_out_of_bounds_names_the_register_and_thread() -> None:
    with pytest.raises(OutOfBoundsError) as caught:
        vectors(512)
    text = str(caught.value)
    assert "`k` reads `in` at element 520, 1 past its end" in text
    assert "register 0, in program (0, 0, 0) of grid (1, 1, 1), thread 2 (warp 0, lane 2)" in text


def test_vectors_wider_than_the_target_are_refused() -> None:
    text = """
kernel @k(%in: ptr<f32>) {
  %p = frag_splat %in {count = 8} : frag<8xptr<f32>>
  %x = load %p {vector = 8} : frag<8xf32>
  return
}
"""
    with pytest.raises(UnsupportedError, match="accesses up to 128 bits at once, not 256"):
        run(text, np.zeros(8, np.float32))


def test_atomics_of_all_threads() -> None:
    text = """
kernel @k(%sum: ptr<i32>) {
  %t = thread_id : i32
  %old = atomic_rmw %sum, %t {kind = add} : i32
  return
}
"""
    total = np.zeros(1, np.int32)
    run(text, total, grid=3)
    assert total[0] == 3 * sum(range(64))


# -- prints and assertions


def test_print_assembles_tiles(capsys: pytest.CaptureFixture[str]) -> None:
    body = """
  %m = const {value = true} : frag<1xi1>
  thread_print %i, %t {prefix = "i", layouts = (#linear{register = [], lane = [[0,1],[0,2],[0,4],[1,0],[2,0]], warp = [[4,0]] -> dim0 = 8, dim1 = 8})}
"""
    result(body, grid=2)
    tile = np.array2string(np.arange(64).reshape(8, 8))
    lines = "".join(f"pid ({pid}, 0, 0) i {tile} 0\n" for pid in range(2))
    assert capsys.readouterr().out == lines


def test_a_print_of_one_thread(capsys: pytest.CaptureFixture[str]) -> None:
    result(some(1, 'thread_print %t {prefix = "t", hex = true}'), grid=2)
    assert capsys.readouterr().out == "pid (0, 0, 0) t 0x00000000\npid (1, 0, 0) t 0x00000000\n"


def test_an_assertion_names_the_thread() -> None:
    body = """
  %c = const {value = 40} : frag<1xi32>
  %less = cmp %i, %c {predicate = lt} : frag<1xi1>
  device_assert %less {message = "small"}
"""
    with pytest.raises(DeviceAssertionError, match="small") as caught:
        result(body)
    assert "register 0, in program (0, 0, 0) of grid (1, 1, 1), thread 40 (warp 1, lane 8)" in str(
        caught.value
    )


# -- programs


def test_more_programs_than_a_chunk_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each program of 64 threads takes a chunk of its own."""
    monkeypatch.setenv("TILE_INTERP_CHUNK", "256")
    text = """
kernel @k(%out: ptr<i32>) {
  %t = thread_id : i32
  %m = local_alloc {offset = 0} : shared<64xi32, #linear{offset = [[1],[2],[4],[8],[16],[32]] -> dim0 = 64}>
  %i = frag_splat %t {count = 1} : frag<1xi32>
  shared_store %m, %i, %i
  barrier
  %c = const {value = 63} : frag<1xi32>
  %j = sub %c, %i : frag<1xi32>
  %r = shared_load %m, %j : frag<1xi32>
  %pid = program_id {axis = 0} : i32
  %n = const {value = 64} : i32
  %b = mul %pid, %n : i32
  %at = add %b, %t : i32
  %p = addptr %out, %at {stride = 4} : ptr<i32>
  %v = frag_extract %r : i32
  store %p, %v
  return
}
"""
    out = np.zeros((5, 64), np.int32)
    run(text, out, grid=5)
    assert np.all(out == np.arange(64)[::-1])


def test_a_lock_that_one_thread_takes_for_its_program() -> None:
    """Programs wait for each other, and their threads synchronize through shared memory."""
    text = """
#one = #linear{offset = [] -> dim0 = 1}
kernel @k(%lock: ptr<i32>, %sum: ptr<i32>) {
  %t = thread_id : i32
  %c0 = const {value = 0} : i32
  %c1 = const {value = 1} : i32
  %first = cmp %t, %c0 {predicate = eq} : i1
  %fm = frag_splat %first {count = 1} : frag<1xi1>
  %z = frag_splat %c0 {count = 1} : frag<1xi32>
  %m = local_alloc {offset = 0} : shared<1xi32, #one>
  %r = while iter(%held = %c1) : i32 {
    %busy = cmp %held, %c0 {predicate = ne} : i1
    condition %busy
  } do {
    %mine = if %first : i32 {
      %old = atomic_cas %lock, %c0, %c1 : i32
      yield %old
    } else {
      yield %c1
    }
    %mf = frag_splat %mine {count = 1} : frag<1xi32>
    barrier
    shared_store %m, %z, %mf, %fm
    barrier
    %gf = shared_load %m, %z : frag<1xi32>
    %got = frag_extract %gf : i32
    yield %got
  }
  %s = load %sum : i32
  %s1 = add %s, %c1 : i32
  barrier
  store %sum, %s1, %first
  barrier
  %was = atomic_rmw %lock, %c0, %first {kind = xchg} : i32
  return
}
"""
    lock, total = np.zeros(1, np.int32), np.zeros(1, np.int32)
    run(text, lock, total, grid=5)
    assert (lock[0], total[0]) == (0, 5)


def test_calls() -> None:
    text = """
func @twice(%x: frag<1xf32>) -> (frag<1xf32>) {
  %y = add %x, %x : frag<1xf32>
  return %y
}
"""
    body = "%y = call %x {callee = @twice} : frag<1xf32>\n" + OUT
    out = np.zeros(64, np.float32)
    run(framed(body) + text, np.arange(64, dtype=np.float32), out)
    assert np.array_equal(out, np.arange(64) * 2)


# -- resource limits


def test_buffers_without_an_offset() -> None:
    body = "%m = local_alloc : shared<64xf32, #flat>\n"
    with pytest.raises(PassError, match="has no offset before the pass allocate-shared"):
        result(body)


def test_buffers_whose_offset_no_element_can_have() -> None:
    body = "%m = local_alloc {offset = 6} : shared<64xf32, #flat>\n"
    with pytest.raises(UnsupportedError, match="cannot begin at byte 6"):
        result(body)


def test_too_much_shared_memory() -> None:
    body = "%m = local_alloc {offset = 49152} : shared<64xf32, #flat>\n"
    message = "target plain has at most 49152 bytes of shared memory; this one takes 49408"
    with pytest.raises(OutOfResourcesError, match=message):
        result(body, target="plain")


def test_too_many_threads() -> None:
    module = thread_module("kernel @k() {\n  return\n}")
    with pytest.raises(OutOfResourcesError, match="at most 1024 threads; this one takes 2048"):
        run_threads(module, TARGETS["warp64"], 32, (1, 1, 1), [])
    run_threads(module, MMA, 32, (1, 1, 1), [])


# -- ldmatrix and stmatrix

# Each thread stores a row of 16 bytes of %in, and gives the place of the row number %r XOR 37.
MATRICES = """
#row = #linear{register = REGISTER, lane = LANE, warp = WARP -> dim0 = NUMBER}
#flat = #linear{offset = OFFSET -> dim0 = NUMBER}
kernel @k(%in: ptr<TYPE>, %out: ptr<TYPE>) {
  %i = layout_index {layout = #row} : frag<ROWxi32>
  %from = frag_splat %in {count = ROW} : frag<ROWxptr<TYPE>>
  %p = addptr %from, %i {stride = SIZE} : frag<ROWxptr<TYPE>>
  %x = load %p : frag<ROWxTYPE>
  %m = local_alloc {offset = 128} : shared<NUMBERxTYPE, #flat>
  %first = frag_shuffle %i {registers = (0,)} : frag<1xi32>
  shared_store %m, %first, %x {vector = ROW}
  BARRIER
  %other = const {value = XOR} : frag<1xi32>
  %o = xor %first, %other : frag<1xi32>
  %y = ldmatrix %m, %o {matrices = COUNT, transposed = FLIPPED} : frag<GOTxTYPE>
  %j = layout_index {layout = #linear{register = GOT_BITS, lane = GOT_LANE, warp = GOT_WARP -> dim0 = GOT_ALL}} : frag<GOTxi32>
  %to = frag_splat %out {count = GOT} : frag<GOTxptr<TYPE>>
  %q = addptr %to, %j {stride = SIZE} : frag<GOTxptr<TYPE>>
  store %q, %y
  return
}
"""


def in_line(first: int, bits: int) -> str:
    """Return basis vectors that map `bits` index bits, from `first` on, to themselves."""
    return f"[{','.join(f'[{1 << bit}]' for bit in range(first, first + bits))}]"


def matrices(
    array: Any,
    matrices: int,
    transposed: bool = False,
    barrier: str = "barrier",
    text: str = MATRICES,
    **options: Any,
) -> Any:
    """Return what each of 64 threads loads from rows of `array`, of shape (64, elements)."""
    size = array.dtype.itemsize
    row, got = 16 // size, matrices * 4 // size
    a, b = row.bit_length() - 1, got.bit_length() - 1
    kind = {1: "i8", 2: "f16", 4: "f32"}[size]
    words = {
        "REGISTER": in_line(0, a), "LANE": in_line(a, 5), "WARP": in_line(a + 5, 1),
        "OFFSET": in_line(0, a + 6), "NUMBER": 64 * row, "ROW": row, "SIZE": size, "TYPE": kind,
        "COUNT": matrices, "FLIPPED": str(transposed).lower(), "BARRIER": barrier,
        "GOT_BITS": in_line(0, b), "GOT_LANE": in_line(b, 5), "GOT_WARP": in_line(b + 5, 1),
        "GOT_ALL": 64 * got, "GOT": got, "XOR": 37 * row,
    }  # fmt: skip
    for word in sorted(words, key=len, reverse=True):
        text = text.replace(word, str(words[word]))
    stored = "stmatrix" in text
    out = np.zeros((64, row if stored else got), array.dtype)
    run(text, array, out, **{"target": "mma", **options})
    return out


# The end of another kernel: what was loaded, and one more, is stored where it came from.
STORED = """
  %n = local_alloc {offset = 4224} : shared<NUMBERxTYPE, #flat>
  shared_store %n, %first, %x {vector = ROW}
  barrier
  %one = const {value = 1} : frag<GOTxTYPE>
  %z = add %y, %one : frag<GOTxTYPE>
  stmatrix %n, %o, %z {matrices = COUNT, transposed = FLIPPED}
  AFTER
  %w = shared_load %n, %first {vector = ROW} : frag<ROWxTYPE>
  %to = frag_splat %out {count = ROW} : frag<ROWxptr<TYPE>>
  %q = addptr %to, %i {stride = SIZE} : frag<ROWxptr<TYPE>>
  store %q, %w
  return
}
"""


@pytest.mark.parametrize("count", [1, 2, 4])
@pytest.mark.parametrize(
    ("dtype", "transposed"),
    [(np.int8, False), (np.float16, False), (np.float16, True), (np.float32, False)],
)
def test_stmatrix(dtype: Any, transposed: bool, count: int) -> None:
    row = 16 // np.dtype(dtype).itemsize
    array = (np.arange(64 * row).reshape(64, row) % 100).astype(dtype)
    text = MATRICES[: MATRICES.index("  %j =")] + STORED.replace("AFTER", "barrier")
    if np.dtype(dtype).kind == "f":
        text = text.replace("{value = 1}", "{value = 1.0}")
    actual = matrices(array, count, transposed, text=text)
    wanted = array.copy()
    threads = np.arange(64)
    wanted[threads[threads % 32 < 8 * count] ^ 37] += 1
    np.testing.assert_array_equal(actual, wanted)


def test_ldmatrix_without_a_barrier() -> None:
    """Nor may the lanes that pass row addresses read them: other lanes have parts of the rows."""
    array = np.zeros((64, 8), np.float16)
    text = MATRICES[: MATRICES.index("  %j =")] + STORED.replace("AFTER", "")
    text = text.replace("{value = 1}", "{value = 1.0}").replace("XOR}", "0}")
    with pytest.raises(RaceError, match="reads shared memory that another thread wrote"):
        matrices(array, 4, text=text)


def test_target_without_stmatrix(monkeypatch: pytest.MonkeyPatch) -> None:
    array = np.zeros((64, 8), np.float16)
    text = MATRICES[: MATRICES.index("  %j =")] + STORED.replace("AFTER", "barrier")
    target = dataclasses.replace(MMA, name="loads", has_stmatrix=False)
    monkeypatch.setitem(TARGETS, "loads", target)
    with pytest.raises(UnsupportedError, match="target loads has no stmatrix"):
        matrices(array, 4, text=text.replace("{value = 1}", "{value = 1.0}"), target="loads")


@pytest.mark.parametrize("count", [1, 2, 4])
@pytest.mark.parametrize(
    ("dtype", "transposed"),
    [(np.int8, False), (np.float16, False), (np.float16, True), (np.float32, False)],
)
def test_ldmatrix(dtype: Any, transposed: bool, count: int) -> None:
    row = 16 // np.dtype(dtype).itemsize
    array = np.arange(64 * row).reshape(64, row).astype(dtype)
    counters = Counters()
    actual = matrices(array, count, transposed, counters=counters)
    # By the row that is read: threads of the other warp stored it.
    asked = array[np.arange(64) ^ 37].reshape(2, 4, 8, row)
    for thread, matrix in np.ndindex(64, count):
        held = asked[thread // 32, matrix]
        lane, part = thread % 32, row // 4
        if transposed:
            expected = held[2 * (lane % 4) : 2 * (lane % 4) + 2, lane // 4]
        else:
            expected = held[lane // 4, part * (lane % 4) : part * (lane % 4 + 1)]
        assert np.array_equal(actual[thread, part * matrix : part * (matrix + 1)], expected)
    (counts,) = [c for op, c in counters.shared_accesses.items() if op.results]
    assert counts == SharedCounts(2, 2 * count, 2 * count)


def test_ldmatrix_of_another_warps_data_needs_a_barrier() -> None:
    with pytest.raises(RaceError, match="reads shared memory that another thread wrote"):
        matrices(np.zeros((64, 8), np.float16), 4, barrier="")


def test_target_without_ldmatrix() -> None:
    with pytest.raises(UnsupportedError, match="target cp_async has no ldmatrix"):
        matrices(np.zeros((64, 8), np.float16), 4, target="cp_async")


# -- warp reductions


@pytest.mark.parametrize(
    ("kind", "combine"),
    [
        ("sum", np.add),
        ("max", np.maximum),
        ("min", np.minimum),
        ("and", np.bitwise_and),
        ("or", np.bitwise_or),
        ("xor", np.bitwise_xor),
    ],
)
def test_lane_reduce(kind: str, combine: np.ufunc) -> None:
    body = f"""
  %one = frag_splat %t {{count = 1}} : frag<1xi32>
  %k = const {{value = 7}} : frag<1xi32>
  %m = mul %one, %k : frag<1xi32>
  %n = warp_reduce %m {{kind = {kind}}} : frag<1xi32>
"""
    wanted = combine.reduce(7 * np.arange(64).reshape(2, 32), axis=1)
    assert np.array_equal(ints(body, target="mma"), np.repeat(wanted, 32))


def test_target_without_warp_reductions() -> None:
    body = """
  %one = frag_splat %t {count = 1} : frag<1xi32>
  %n = warp_reduce %one {kind = sum} : frag<1xi32>
"""
    with pytest.raises(UnsupportedError, match="async has no warp reduction of i32 by sum"):
        ints(body, target="cp_async")
