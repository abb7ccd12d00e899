"""Counters of access patterns with known costs, and live registers."""

from __future__ import annotations

import numpy as np
import pytest

from tests.backends.interp.simulator.kernels import framed, run, thread_module
from tile.backends.interp.simulator.counters import Counters, GlobalCounts, SharedCounts, registers

# One warp, whose lanes access every %step-th element from %shift on, if they are before %n.
STRIDED = """
kernel @k(%in: ptr<f32>, %step: i32, %shift: i32, %n: i32) {
  %t = thread_id : i32
  %s = mul %t, %step : i32
  %j = add %s, %shift : i32
  %mask = cmp %t, %n {predicate = lt} : i1
  %p = addptr %in, %j {stride = 4} : ptr<f32>
  %x = load %p, %mask : f32
  return
}
"""


def strided(step: int, shift: int = 0, n: int = 32) -> GlobalCounts:
    """The counts of one load."""
    counters = Counters()
    array = np.zeros(2048, np.float32)
    run(STRIDED, array, *map(np.int32, (step, shift, n)), warps=1, counters=counters)
    return counters.global_total()


@pytest.mark.parametrize(
    ("step", "sectors", "least", "efficiency"),
    [(1, 4, 4, 1), (2, 8, 4, 0.5), (8, 32, 4, 0.125), (32, 32, 4, 0.125), (0, 1, 1, 1)],
)
def test_sectors_of_a_stride(step: int, sectors: int, least: int, efficiency: float) -> None:
    counts = strided(step)
    assert counts == GlobalCounts(1, sectors, least)
    assert counts.efficiency == efficiency


def test_sectors_of_what_begins_in_the_middle_of_one() -> None:
    assert strided(1, shift=4) == GlobalCounts(1, 5, 4)
    assert strided(1, shift=8) == GlobalCounts(1, 4, 4)


def test_masked_lanes_request_nothing() -> None:
    assert strided(1, n=8) == GlobalCounts(1, 1, 1)
    assert strided(64, n=3) == GlobalCounts(1, 3, 1)
    assert strided(1, n=0) == GlobalCounts(0, 0, 0)
    assert GlobalCounts().efficiency == 1


def test_a_view_begins_where_it_does_in_its_array() -> None:
    counters = Counters()
    view = np.zeros(64, np.float32)[3:]
    run(STRIDED, view, *map(np.int32, (1, 0, 32)), warps=1, counters=counters)
    assert counters.global_total() == GlobalCounts(1, 5, 4)


VECTORS = """
kernel @k(%in: ptr<f32>) {
  %i = layout_index {layout = #linear{register = REGISTERS, lane = LANES, warp = [[256]] -> dim0 = 512}} : frag<8xi32>
  %b = frag_splat %in {count = 8} : frag<8xptr<f32>>
  %p = addptr %b, %i {stride = 4} : frag<8xptr<f32>>
  %x = load %p {vector = 4} : frag<8xf32>
  return
}
"""


def test_vectors_are_instructions_of_their_own() -> None:
    """Two warps load two vectors each: 512 bytes at once, or every other 16 of 1024.

    NumPy allocates at multiples of 16 bytes, and an allocation counts as if it began a sector.
    """
    for lanes, registers_, counts in (
        ("[[4],[8],[16],[32],[64]]", "[[1],[2],[128]]", GlobalCounts(4, 64, 64)),
        ("[[8],[16],[32],[64],[128]]", "[[1],[2],[4]]", GlobalCounts(4, 128, 64)),
    ):
        counters = Counters()
        text = VECTORS.replace("LANES", lanes).replace("REGISTERS", registers_)
        run(text, np.zeros(512, np.float32), counters=counters)
        assert counters.global_total() == counts


# -- shared memory

# Each lane stores the element %step times its number, of a buffer of 1024.
STORED = """
kernel @k(%step: i32, %n: i32) {
  %t = thread_id : i32
  %j = mul %t, %step : i32
  %o = frag_splat %j {count = 1} : frag<1xi32>
  %less = cmp %t, %n {predicate = lt} : i1
  %mask = frag_splat %less {count = 1} : frag<1xi1>
  %x = const {value = 1.0} : frag<1xf32>
  %m = local_alloc {offset = 0} : shared<1024xf32, #linear{offset = [[1],[2],[4],[8],[16],[32],[64],[128],[256],[512]] -> dim0 = 1024}>
  shared_store %m, %o, %x, %mask
  return
}
"""


def stored(step: int, n: int = 32) -> SharedCounts:
    counters = Counters()
    run(STORED, np.int32(step), np.int32(n), warps=1, counters=counters)
    assert counters.shared_bytes == 4096
    return counters.shared_total()


@pytest.mark.parametrize(("step", "ways"), [(1, 1), (2, 2), (3, 1), (8, 8), (32, 32), (0, 1)])
def test_bank_conflicts(step: int, ways: int) -> None:
    counts = stored(step)
    assert counts == SharedCounts(1, ways, 1)
    assert counts.conflicts == ways - 1


def test_masked_lanes_have_no_conflicts() -> None:
    assert stored(32, n=5) == SharedCounts(1, 5, 1)
    assert stored(32, n=0) == SharedCounts(0, 0, 0)


def test_wide_vectors_take_several_wavefronts_anyway() -> None:
    text = """
kernel @k() {
  %t = thread_id : i32
  %c = const {value = 4} : i32
  %j = mul %t, %c : i32
  %o = frag_splat %j {count = 1} : frag<1xi32>
  %x = const {value = 1.0} : frag<4xf32>
  %m = local_alloc {offset = 0} : shared<256xf32, #linear{offset = [[1],[2],[4],[8],[16],[32],[64],[128]] -> dim0 = 256}>
  shared_store %m, %o, %x {vector = 4}
  return
}
"""
    counters = Counters()
    run(text, counters=counters, grid=3)
    assert counters.shared_total() == SharedCounts(6, 24, 24)


def test_a_copy_is_counted_at_both_ends() -> None:
    counters = Counters()
    body = "%m = local_alloc {offset = 0} : shared<64xf32, #flat>\nshared_cp_async %m, %i, %p\n"
    run(framed(body), np.zeros(64, np.float32), np.zeros(64, np.float32), counters=counters)
    (copy,) = [op for op in counters.global_accesses if op.name == "shared_cp_async"]
    assert counters.global_accesses[copy] == GlobalCounts(2, 8, 8)
    assert counters.shared_accesses[copy] == SharedCounts(2, 2, 2)


# -- instructions


def test_executed_instructions_by_line() -> None:
    text = """
kernel @k(%n: i32) {
  %c0 = const {value = 0} : i32
  %c1 = const {value = 1} : i32
  for %i = %c0 to %n step %c1 {
    %t = thread_id : i32
    %few = cmp %t, %c1 {predicate = lt} : i1
    if %few {
      %u = add %t, %i : i32
      yield
    } else {
      yield
    }
    yield
  }
  return
}
"""
    counters = Counters()
    run(text, np.int32(5), counters=counters, grid=3)
    counted = {line: counts.executed for (_, line), counts in counters.by_line().items()}
    assert counted == {3: 6, 4: 6, 6: 30, 7: 30, 9: 15}


def test_counts_add_up_over_runs() -> None:
    counters = Counters()
    for _ in range(2):
        array = np.zeros(64, np.float32)
        run(STRIDED, array, *map(np.int32, (1, 0, 32)), warps=1, counters=counters)
    assert counters.global_total() == GlobalCounts(2, 8, 8)


def test_registers() -> None:
    module = thread_module("""
kernel @k(%p: ptr<f32>) {
  %a = const {value = 1.0} : frag<4xf32>
  %b = const {value = 1.0} : frag<4xf16>
  %c = const {value = true} : frag<4xi1>
  %d = add %a, %a : frag<4xf32>
  %e = frag_extract %d {register = 0} : f32
  %f = cast %b {to = f64} : frag<4xf64>
  %q = frag_splat %p {count = 4} : frag<4xptr<f32>>
  store %q, %d, %c
  %g = add %f, %f : frag<4xf64>
  return
}
""")
    counted = {
        op.results[0].name if op.results else op.name: n
        for op, n in registers(module.kernel).items()
    }
    p, a, b, c, d, f, q = 2, 4, 2, 1, 4, 8, 8
    assert counted["a"] == p + a
    assert counted["b"] == p + a + b
    assert counted["c"] == p + a + b + c
    assert counted["d"] == p + b + c + d
    assert counted["f"] == p + c + d + f
    assert counted["q"] == c + d + f + q
    assert counted["store"] == f


def test_buffers_take_no_registers() -> None:
    module = thread_module(
        framed("%m = local_alloc {offset = 0} : shared<64xf32, #flat>\nshared_store %m, %i, %x\n")
    )
    counts = registers(module.kernel)
    (alloc,) = [op for op in counts if op.name == "local_alloc"]
    assert counts[alloc] == counts[alloc.prev]
