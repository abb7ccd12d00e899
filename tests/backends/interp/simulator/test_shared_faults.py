"""Wrong uses of shared memory are reported with both threads; correct ones are not."""

from __future__ import annotations

import re

import numpy as np
import pytest

from tests.backends.interp.simulator.kernels import framed, result, run
from tile.errors import (
    CopyInFlightError,
    OutOfBoundsError,
    RaceError,
    SharedBoundsError,
    TileError,
    UndefinedReadError,
    VectorAccessError,
)

ALLOC = "%m = local_alloc {offset = 0} : shared<64xf32, #flat>\n"
STORE = "shared_store %m, %i, %x\n"
# Each thread reads the element of the next one.
NEXT = """
  %one = const {value = 1} : frag<1xi32>
  %j = xor %i, %one : frag<1xi32>
"""
LOAD_NEXT = "%y = shared_load %m, %j : frag<1xf32>\n"
LOAD_OWN = "%z = shared_load %m, %i : frag<1xf32>\n"
OUT = "store %q, %y\n"
ADJACENT = np.arange(64) ^ 1


def fails(error: type[TileError], body: str, *texts: str) -> TileError:
    """Run a kernel that must fail; the message, with line numbers of the body, has `texts`."""
    with pytest.raises(error) as caught:
        result(body)
    text = re.sub(r"<tile>:(\d+)", lambda m: f"line {int(m[1]) - _BEFORE}", str(caught.value))
    for expected in texts:
        assert expected in text, text
    return caught.value


_BEFORE = framed("BODY").split("BODY")[0].count("\n")


# -- correct uses


def test_a_barrier_after_the_store() -> None:
    body = ALLOC + STORE + "barrier\n" + NEXT + LOAD_NEXT + OUT
    assert np.array_equal(result(body), ADJACENT)


def test_what_a_thread_wrote_itself_needs_no_barrier() -> None:
    body = ALLOC + STORE + LOAD_OWN + "store %q, %z\n"
    assert np.array_equal(result(body), np.arange(64))


def test_a_barrier_before_the_next_store() -> None:
    body = ALLOC + STORE + "barrier\n" + NEXT + LOAD_NEXT + "barrier\n" + STORE + OUT
    assert np.array_equal(result(body), ADJACENT)


def test_many_threads_may_read_one_address() -> None:
    body = (
        ALLOC + STORE + "barrier\n"
        "%zero = const {value = 5} : frag<1xi32>\n"
        "%y = shared_load %m, %zero : frag<1xf32>\n" + OUT
    )
    assert np.array_equal(result(body), np.full(64, 5))


def test_one_store_of_one_value_by_many() -> None:
    body = (
        ALLOC + "%zero = const {value = 5} : frag<1xi32>\n"
        "%v = const {value = 7.0} : frag<1xf32>\n"
        "shared_store %m, %zero, %v\n"
        "barrier\n"
        "%y = shared_load %m, %zero : frag<1xf32>\n" + OUT
    )
    assert np.array_equal(result(body), np.full(64, 7))


def test_other_bytes_are_no_conflict() -> None:
    body = (
        ALLOC + STORE + "%n = local_alloc {offset = 256} : shared<64xf32, #flat>\n"
        "shared_store %n, %i, %x\n"
        "barrier\n" + NEXT + "%y = shared_load %n, %j : frag<1xf32>\n" + OUT
    )
    assert np.array_equal(result(body), ADJACENT)


# -- races


def test_read_after_write() -> None:
    error = fails(
        RaceError,
        ALLOC + STORE + NEXT + LOAD_NEXT + OUT,
        "`k` reads shared memory that another thread wrote, with no barrier in between",
        "in program (0, 0, 0) of grid (1, 1, 1), thread 0 (warp 0, lane 0), "
        "by `shared_load` at line 6:",
        "at byte 4 of the program's shared memory; the buffer is bytes 0 to 255, shared<64xf32, ",
        "written by thread 1 (warp 0, lane 1), by `shared_store` at line 2:",
    )
    assert error.loc is not None


def test_write_after_read() -> None:
    fails(
        RaceError,
        ALLOC + STORE + "barrier\n" + NEXT + LOAD_NEXT + STORE,
        "`k` writes shared memory that another thread read, with no barrier in between",
        "by `shared_store` at line 8:",
        "read by thread 1 (warp 0, lane 1), by `shared_load` at line 7:",
    )


def test_write_after_a_read_by_many() -> None:
    fails(
        RaceError,
        ALLOC + STORE + "barrier\n"
        "%five = const {value = 5} : frag<1xi32>\n"
        "%y = shared_load %m, %five : frag<1xf32>\n" + STORE,
        "read by several threads, by `shared_load` at line 5:",
        "thread 5 (warp 0, lane 5), by `shared_store` at line 6:",
    )


def test_write_after_write() -> None:
    fails(
        RaceError,
        ALLOC + STORE + NEXT + "shared_store %m, %j, %x\n",
        "`k` writes shared memory that another thread wrote, with no barrier in between",
        "thread 0 (warp 0, lane 0), by `shared_store` at line 6:",
        "written by thread 1 (warp 0, lane 1), by `shared_store` at line 2:",
    )


def test_one_store_of_different_values() -> None:
    fails(
        RaceError,
        ALLOC + "%zero = const {value = 5} : frag<1xi32>\nshared_store %m, %zero, %x\n",
        "writes different values to one shared-memory address from several threads at once",
    )


def test_a_race_of_buffers_that_overlap() -> None:
    fails(
        RaceError,
        ALLOC + STORE + "barrier\n" + NEXT + LOAD_NEXT + "%n = local_alloc {offset = 0} : "
        "shared<64xf32, #flat>\n"
        "shared_store %n, %i, %x\n",
        "read by thread 1 (warp 0, lane 1), by `shared_load` at line 7:",
        "by `local_alloc` at line 8:",
    )


def test_a_race_of_other_programs_rows_is_named_by_program() -> None:
    """Only the second of two programs does without the barrier."""
    body = (
        ALLOC + STORE + "%pid = program_id {axis = 0} : i32\n"
        "%zero = const {value = 0} : i32\n"
        "%first = cmp %pid, %zero {predicate = eq} : i1\n"
        "if %first {\n  barrier\n  yield\n} else {\n  yield\n}\n" + NEXT + LOAD_NEXT + OUT
    )
    out = np.zeros(64, np.float32)
    with pytest.raises(RaceError, match=re.escape("program (1, 0, 0) of grid (2, 1, 1)")):
        run(framed(body), np.arange(64, dtype=np.float32), out, grid=2)


def test_a_race_over_the_back_edge_of_a_loop() -> None:
    body = (
        ALLOC + "%c0 = const {value = 0} : i32\n%c1 = const {value = 1} : i32\n"
        "%c2 = const {value = 2} : i32\n"
        + NEXT
        + "for %n = %c0 to %c2 step %c1 {\n"
        + STORE
        + "barrier\n"
        + LOAD_NEXT
        + "yield\n}\n"
    )
    fails(RaceError, body, "writes shared memory that another thread read")


# -- undefined, out of bounds, misaligned


def test_reading_unwritten_memory() -> None:
    fails(
        UndefinedReadError,
        ALLOC + "barrier\n" + LOAD_OWN,
        "`k` reads shared memory that was never written",
        "thread 0 (warp 0, lane 0), by `shared_load` at line 3:",
    )


def test_new_buffer_is_undefined() -> None:
    body = (
        ALLOC + STORE + "barrier\n%n = local_alloc {offset = 0} : shared<64xf32, #flat>\n"
        "%y = shared_load %n, %i : frag<1xf32>\n"
    )
    fails(UndefinedReadError, body)


@pytest.mark.parametrize(("number", "shown"), [(64, "64"), (-1, "-1")])
def test_out_of_bounds_of_the_buffer(number: int, shown: str) -> None:
    body = (
        f"%m = local_alloc {{offset = 256}} : shared<64xf32, #flat>\n"
        f"%o = const {{value = {number}}} : frag<1xi32>\nshared_store %m, %o, %x\n"
    )
    fails(
        SharedBoundsError,
        body,
        f"`k` accesses element {shown} of a buffer of 64",
        "the buffer is bytes 256 to 511",
    )
    fails(OutOfBoundsError, body)


def test_out_of_bounds_of_the_stage() -> None:
    """The next stage exists, but is another buffer."""
    body = (
        "%m = local_alloc {offset = 0} : shared<64xf32, #flat, stages = 2>\n"
        "%turn = const {value = 0} : i32\n%s = local_subview %m, %turn : shared<64xf32, #flat>\n"
        "%o = const {value = 64} : frag<1xi32>\nshared_store %s, %o, %x\n"
    )
    fails(SharedBoundsError, body, "element 64 of a buffer of 64", "stages = 2")


def test_a_masked_store_may_point_anywhere() -> None:
    body = (
        ALLOC + "%o = const {value = 900} : frag<1xi32>\n%no = const {value = false} : frag<1xi1>\n"
        "shared_store %m, %o, %x, %no\n" + STORE + "barrier\n" + NEXT + LOAD_NEXT + OUT
    )
    assert np.array_equal(result(body), ADJACENT)


def test_a_vector_that_is_not_aligned() -> None:
    body = (
        ALLOC + "%o = const {value = 1} : frag<1xi32>\n"
        "%v = const {value = 1.0} : frag<2xf32>\nshared_store %m, %o, %v {vector = 2}\n"
    )
    fails(VectorAccessError, body, "a vector of 8 bytes at byte 4 of shared memory")


# -- copies

COPY = ALLOC + "shared_cp_async %m, %i, %p\ncp_async_commit_group\n"
WAIT = "cp_async_wait_group {pending = 0}\n"


def test_a_copy_that_was_waited_for() -> None:
    body = COPY + WAIT + "barrier\n" + NEXT + LOAD_NEXT + OUT
    assert np.array_equal(result(body), ADJACENT)


def test_a_thread_reads_its_own_copy_after_the_wait() -> None:
    body = COPY + WAIT + LOAD_OWN + "store %q, %z\n"
    assert np.array_equal(result(body), np.arange(64))


def test_a_read_of_a_copy_that_nobody_waited_for() -> None:
    fails(
        CopyInFlightError,
        COPY + "barrier\n" + LOAD_OWN,
        "`k` accesses shared memory that an asynchronous copy still writes; cp_async_wait_group waits for it",
        "copy started by thread 0 (warp 0, lane 0), by `shared_cp_async` at line 2:",
    )


def test_overwriting_a_copy_that_nobody_waited_for() -> None:
    fails(CopyInFlightError, COPY + "barrier\n" + STORE, "by `shared_store` at line 5:")


def test_no_barrier_after_the_wait() -> None:
    fails(
        RaceError,
        COPY + "barrier\n" + WAIT + NEXT + LOAD_NEXT,
        "reads shared memory that another thread wrote",
        "written by thread 1 (warp 0, lane 1), by `shared_cp_async` at line 2:",
    )


def test_a_copy_over_what_another_reads() -> None:
    fails(
        RaceError,
        ALLOC + STORE + "barrier\n" + NEXT + LOAD_NEXT + "shared_cp_async %m, %i, %p\n",
        "writes shared memory that another thread read",
    )


def test_a_copy_of_no_group_is_not_waited_for() -> None:
    body = ALLOC + "shared_cp_async %m, %i, %p\n" + WAIT + LOAD_OWN
    fails(CopyInFlightError, body)


MULTI_BUFFER = """
  %m = local_alloc {offset = 0} : shared<64xf32, #flat, stages = 2>
  %turn = const {value = 0} : i32
  %a = local_subview %m, %turn : shared<64xf32, #flat>
  %b = local_subview %m, %turn {stage_offset = 1} : shared<64xf32, #flat>
  shared_cp_async %a, %i, %p
  cp_async_commit_group
  shared_cp_async %b, %i, %q
  cp_async_commit_group
"""


def test_the_last_groups_stay_in_flight() -> None:
    first = "%z = shared_load %a, %i : frag<1xf32>\nstore %q, %z\n"
    second = "%z = shared_load %b, %i : frag<1xf32>\nstore %q, %z\n"
    assert np.array_equal(
        result(MULTI_BUFFER + "cp_async_wait_group {pending = 1}\n" + first), np.arange(64)
    )
    fails(CopyInFlightError, MULTI_BUFFER + "cp_async_wait_group {pending = 1}\n" + second)
    assert np.array_equal(result(MULTI_BUFFER + WAIT + second), np.full(64, -1))


def test_zeros_where_the_mask_of_a_copy_is_false() -> None:
    body = (
        ALLOC + "%ten = const {value = 10} : frag<1xi32>\n"
        "%few = cmp %i, %ten {predicate = lt} : frag<1xi1>\n"
        "shared_cp_async %m, %i, %p, %few\ncp_async_commit_group\n"
        + WAIT
        + LOAD_OWN
        + "store %q, %z\n"
    )
    assert np.array_equal(result(body), np.where(np.arange(64) < 10, np.arange(64), 0))


ALL_COPY = (
    "%seven = const {value = 7} : i32\n%o = frag_splat %seven {count = 1} : frag<1xi32>\n"
    "%pf = frag_splat %in {count = 1} : frag<1xptr<f32>>\n"
)


def test_threads_that_copy_to_one_address_at_once() -> None:
    body = ALLOC + ALL_COPY + "shared_cp_async %m, %o, %pf\n"
    fails(
        RaceError,
        body,
        "`k` copies to one shared-memory address from several threads at once",
        "copy started by thread",
    )


def test_one_thread_copies_for_several() -> None:
    body = (
        ALLOC + ALL_COPY + "%five = const {value = 5} : i32\n"
        "%fifth = cmp %t, %five {predicate = eq} : i1\n"
        "shared_cp_async %m, %o, %pf, _, %fifth\ncp_async_commit_group\n" + WAIT + "barrier\n"
        "%z = shared_load %m, %o : frag<1xf32>\nstore %q, %z\n"
    )
    assert np.array_equal(result(body), np.zeros(64))


def test_a_thread_that_does_not_copy_writes_no_zeros() -> None:
    body = (
        ALLOC + STORE + "barrier\n%ten = const {value = 10} : i32\n"
        "%few = cmp %t, %ten {predicate = lt} : i1\n%none = const {value = false} : frag<1xi1>\n"
        "shared_cp_async %m, %i, %p, %none, %few\ncp_async_commit_group\n"
        + WAIT
        + LOAD_OWN
        + "store %q, %z\n"
    )
    assert np.array_equal(result(body), np.where(np.arange(64) < 10, 0, np.arange(64)))


# -- counting


def test_counts_of_many_threads() -> None:
    body = """
  %m = local_alloc {offset = 0} : shared<64xi32, #flat>
  %z = const {value = 0} : frag<1xi32>
  shared_store %m, %i, %z
  barrier
  %two = const {value = 2} : frag<1xi32>
  %h = shr %i, %two : frag<1xi32>
  shared_atomic_inc %m, %h
  shared_atomic_inc %m, %h
  barrier
  %n = shared_load %m, %i : frag<1xi32>
  %y = cast %n {to = f32} : frag<1xf32>
"""
    assert np.array_equal(result(body + OUT), np.where(np.arange(64) < 16, 8, 0))
    racy = body.replace("  barrier\n  %n", "  %n")
    fails(RaceError, racy, "reads shared memory that another thread wrote", "by several threads")
    racy = body.replace("  barrier\n  %two", "  %two")
    fails(RaceError, racy, "by `shared_atomic_inc` at line 7", "by `shared_store` at line 4")


def test_counts_where_another_thread_wrote_before_it_counted() -> None:
    body = (
        """
  %m = local_alloc {offset = 0} : shared<64xi32, #flat>
  shared_store %m, %i, %i
  shared_atomic_inc %m, %i
"""
        + NEXT
    )
    fails(
        RaceError, body + "shared_atomic_inc %m, %j\n", "written by thread 1 (warp 0, lane 1), by"
    )
    fails(
        RaceError, body.replace("  shared_atomic_inc %m, %i\n", "") + "shared_atomic_inc %m, %j\n"
    )
