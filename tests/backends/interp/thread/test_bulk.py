"""Copies of boxes: what arrives, and every way to look at it too early, or in vain."""

from __future__ import annotations

import re

import numpy as np
import pytest

from tests.backends.interp.thread.kernels import run
from tile.errors import (
    ArrivalError,
    CopyInFlightError,
    DivergenceError,
    OutOfBoundsError,
    RaceError,
    TileError,
    UnsupportedError,
    VectorAccessError,
)
from tile.simt.layouts.factors import factor_layout

BOX = factor_layout((16, 16), 16, 1, 16)
assert BOX is not None

# An array of 20 by 24 numbers, of which every thread stores two of the box in shared memory.
ROWS, COLUMNS, PITCH = 20, 24, 32
FRAME = f"""
#b = {BOX}
#ring = #linear{{offset = [] -> dim0 = 1}}
#line = #linear{{register = [[1]], lane = [[2],[4],[8],[16],[32]], warp = [[64],[128]] -> dim0 = 256}}
#two = #linear{{register = [], lane = [[2],[4],[8],[16],[32]], warp = [[64],[128]] -> dim0 = 256}}
kernel @k(%in: ptr<f16>, %out: ptr<f16>, %n: i32, %row: i32, %column: i32) {{
  %line = linear_index {{layout = #line}} : frag<2xi32>
  %to = fill %out {{count = 2}} : frag<2xptr<f16>>
  %q = addptr %to, %line {{stride = 2}} : frag<2xptr<f16>>
  %o = linear_index {{layout = #two}} : frag<1xi32>
  %x = const {{value = 1.0}} : frag<2xf16>
  %rows = const {{value = {ROWS}}} : i32
  %columns = const {{value = {COLUMNS}}} : i32
  %pitch = const {{value = {PITCH}}} : i64
  %odd = const {{value = {PITCH - 1}}} : i64
  %no = const {{value = false}} : i1
  %yes = const {{value = true}} : i1
  %zero = const {{value = 0}} : i32
  %one = const {{value = 1}} : i32
  %t = thread_id : i32
BODY
  return
}}
"""
ALLOC = "%m = alloc {at = 0} : shared<16x16xf16, #b>\n"
BARS = "%b = alloc {at = 512} : shared<1xi64, #ring, stages = 2>\n"
INIT = "barrier_init %b\n"
FENCE = "group_fence\n"
BARRIER = "barrier\n"
EXPECT = "barrier_expect %b, %zero, %yes {size = 512}\n"
NUMBERS = "%in, %rows, %columns, %pitch, %row, %column"
COPY = f"bulk_copy %m, %b, %zero, %yes, {NUMBERS}\n"
WAIT = "barrier_wait %b, %zero\n"
LOAD = "%y = shared_load %m, %o {vector = 2} : frag<2xf16>\n"
OUT = "store %q, %y\n"
FREE = "barrier_free %b\n"
MADE = ALLOC + BARS + INIT + FENCE + BARRIER
SENT = MADE + EXPECT + COPY


def array() -> np.ndarray:
    return np.random.default_rng(0).standard_normal((ROWS, PITCH)).astype(np.float16)


def result(
    body: str, row: int = 0, column: int = 0, n: int = 3, target: str = "group"
) -> np.ndarray:
    """What a kernel stores, in the order of the buffer."""
    out = np.zeros(256, np.float16)
    numbers = map(np.int32, (n, row, column))
    given = np.lib.stride_tricks.as_strided(array(), (ROWS * PITCH,), (2,))
    run(FRAME.replace("BODY", body), np.array(given), out, *numbers, target=target, warps=4)
    assert BOX is not None
    return out[BOX.invert().table()["offset"].reshape(16, 16)]


def fails(error: type[TileError], body: str, text: str, **options: int | str) -> None:
    with pytest.raises(error, match=re.escape(text)) as caught:
        result(body, **options)  # type: ignore[arg-type]
    assert type(caught.value) is error


def box(row: int, column: int) -> np.ndarray:
    padded = np.zeros((ROWS + 64, COLUMNS + 64), np.float16)
    padded[32 : 32 + ROWS, 32 : 32 + COLUMNS] = array()[:, :COLUMNS]
    return padded[32 + row :, 32 + column :][:16, :16]


@pytest.mark.parametrize("row", [0, 3, 4, 12, 19, 20, -1, -16])
@pytest.mark.parametrize("column", [0, 8, 9, 23, 24, -5, -17])
def test_a_box_is_what_the_array_has_and_zeros_outside(row: int, column: int) -> None:
    found = result(SENT + WAIT + LOAD + OUT + BARRIER + FREE, row, column)
    np.testing.assert_array_equal(found, box(row, column))


def test_indices_far_outside() -> None:
    for row, column in ((2**31 - 1, 0), (0, 2**31 - 8), (-(2**31), 0)):
        assert not result(SENT + WAIT + LOAD + OUT, row, column).any()


def test_a_ring_goes_round() -> None:
    """Turns alternate between two barriers; the last box is what is left."""
    body = """
    %z = for %i = %zero to %n step %one iter(%u = %zero) : i32 {
      barrier_expect %b, %u, %yes {size = 512}
      bulk_copy %m, %b, %u, %yes, %in, %rows, %columns, %pitch, %i, %column
      barrier_wait %b, %u
      barrier
      %v = add %u, %one : i32
      yield %v
    }
    """
    for n in (1, 2, 5, 6):
        found = result(MADE + body + LOAD + OUT + BARRIER + FREE, n=n)
        np.testing.assert_array_equal(found, box(n - 1, 0))


def test_what_is_not_active_is_not_expected() -> None:
    """Nor does anybody wait for it; the next turn comes to the same barrier."""
    body = (
        MADE
        + EXPECT.replace("%yes", "%no")
        + COPY.replace("%yes", "%no")
        + EXPECT
        + COPY
        + WAIT
        + LOAD
        + OUT
    )
    np.testing.assert_array_equal(result(body), box(0, 0))


def test_barriers_are_made_again() -> None:
    body = SENT + WAIT + BARRIER + FREE + INIT + FENCE + BARRIER
    body += EXPECT + COPY.replace("%row,", "%one,") + WAIT + LOAD + OUT
    np.testing.assert_array_equal(result(body), box(1, 0))


def test_a_box_that_is_not_waited_for() -> None:
    fails(CopyInFlightError, SENT + LOAD + OUT, "that an asynchronous copy still writes")
    store = "shared_store %m, %o, %x {vector = 2}\n"
    fails(CopyInFlightError, SENT + store, "that an asynchronous copy still writes")
    fails(CopyInFlightError, SENT + COPY, "that an asynchronous copy still writes")


def test_a_wait_for_the_wrong_turn() -> None:
    """Of the other phase, which is over before it begins; of the other barrier, in vain."""
    earlier = "barrier_wait %b, %zero {shift = 2}\n"
    fails(CopyInFlightError, SENT + earlier + LOAD, "that an asynchronous copy still writes")
    other = "barrier_wait %b, %one\n"
    fails(ArrivalError, SENT + other, "whose phase never completes")


def test_waits_in_vain() -> None:
    vain = "whose phase never completes"
    fails(ArrivalError, MADE + WAIT, vain)
    fails(ArrivalError, MADE + EXPECT + WAIT, vain)
    fails(ArrivalError, MADE + COPY + WAIT, vain)
    fails(ArrivalError, MADE + EXPECT.replace("512", "1024") + COPY + WAIT, vain)


def test_a_barrier_that_expects_twice() -> None:
    fails(ArrivalError, SENT + EXPECT, "whose current phase has not been waited for")


def test_barriers_that_are_not_made() -> None:
    missing = "that barrier_init has not initialized"
    for use in (EXPECT, COPY, WAIT, FREE):
        fails(ArrivalError, ALLOC + BARS + FENCE + BARRIER + use, missing)
    fails(ArrivalError, MADE + FREE + EXPECT, missing)
    fails(ArrivalError, MADE + INIT, "with no barrier_free before")


def test_barriers_that_not_all_know() -> None:
    made = ALLOC + BARS + INIT
    fails(RaceError, made + BARRIER + EXPECT, "no group_fence since its initialization")
    fails(RaceError, made + FENCE + EXPECT + COPY + WAIT, "with no `barrier` in between")
    fails(RaceError, SENT + WAIT + FREE, "on which other threads may still wait")


def test_a_box_that_overtakes_threads() -> None:
    store = "shared_store %m, %o, %x {vector = 2}\n"
    ready = ALLOC + BARS + INIT
    fails(
        RaceError,
        ready + FENCE + BARRIER + store + BARRIER + EXPECT + COPY,
        "overwrites with a TMA load what a thread wrote, with no group_fence",
    )
    fails(
        RaceError,
        ready + store + FENCE + EXPECT + COPY,
        "writes shared memory that another thread wrote",
    )
    read = ready + store + FENCE + BARRIER + LOAD + EXPECT + COPY
    fails(RaceError, read, "writes shared memory that another thread read")
    right = ready + store + FENCE + BARRIER + EXPECT + COPY + WAIT + LOAD + OUT
    np.testing.assert_array_equal(result(right), box(0, 0))


def test_arrays_of_which_no_boxes_are_copied() -> None:
    wrong = COPY.replace("%pitch", "%odd")
    fails(VectorAccessError, MADE + EXPECT + wrong, "both must be multiples of 16")
    beyond = "%far = const {value = 4096} : i32\n"
    copy = COPY.replace("%row,", "%rows,").replace("%rows, %columns", "%far, %columns")
    fails(OutOfBoundsError, beyond + MADE + EXPECT + copy, "reads `in`")


def test_all_threads_come_to_a_wait() -> None:
    some = (
        "%c = cmp %t, %one {predicate = lt} : i1\nif %c {\n" + WAIT + "yield\n} else {\nyield\n}\n"
    )
    fails(DivergenceError, SENT + some, "with only some threads of a program")


def test_machines_and_buffers_that_copy_no_boxes() -> None:
    fails(UnsupportedError, MADE, "target matrix has no TMA", target="matrix")
    moved = SENT.replace("{at = 0}", "{at = 2048}").replace("{at = 512}", "{at = 0}")
    assert result(moved + WAIT + LOAD + OUT).any()
    apart = SENT.replace("{at = 0}", "{at = 1040}")
    fails(UnsupportedError, apart, "accepts no buffer at byte 1040")
    plain = "#linear{offset = [[0,1],[0,2],[0,4],[0,8],[1,0],[2,0],[4,0],[8,0]] -> dim0 = 16, dim1 = 16}"
    other = SENT.replace("shared<16x16xf16, #b>", f"shared<16x16xf16, {plain}>")
    fails(UnsupportedError, other, "bulk_copy accepts no shared<16x16xf16")


# -- stores

AGAIN = "shared_store %m, %o, %x2 {vector = 2}\n"
TAKE = "%x2 = load %p : frag<2xf16>\n" + AGAIN
SEND = "bulk_store %m, %out, %rows, %columns, %pitch, %row, %column\n"


def stored(body: str, row: int = 0, column: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """The array after a kernel, and the box that was in the buffer."""
    frame = FRAME.replace(
        "%o = linear", "%in2 = fill %in {count = 2} : frag<2xptr<f16>>\n  %o = linear", 1
    ).replace(
        "%zero = const",
        "%p = addptr %in2, %line {stride = 2} : frag<2xptr<f16>>\n  %zero = const",
        1,
    )
    given = np.random.default_rng(1).standard_normal(256).astype(np.float16)
    out = array().reshape(-1)
    numbers = map(np.int32, (3, row, column))
    run(frame.replace("BODY", body), given, out, *numbers, target="group", warps=4)
    assert BOX is not None
    return out.reshape(ROWS, PITCH), given[BOX.invert().table()["offset"].reshape(16, 16)]


@pytest.mark.parametrize(("row", "column"), [(0, 0), (4, 8), (12, 9), (-3, 20), (19, -15), (40, 0)])
def test_what_is_inside_of_the_array_is_written(row: int, column: int) -> None:
    found, values = stored(ALLOC + TAKE + FENCE + BARRIER + SEND, row, column)
    wanted = array()
    for i, j in np.ndindex(16, 16):
        if 0 <= row + i < ROWS and 0 <= column + j < COLUMNS:
            wanted[row + i, column + j] = values[i, j]
    np.testing.assert_array_equal(found, wanted)


def test_stores_of_what_is_not_there_yet() -> None:
    for body, text in (
        (TAKE + BARRIER + SEND, "reads with a TMA store what a thread wrote, with no group_fence"),
        (TAKE + FENCE + SEND, "reads shared memory that another thread wrote"),
        (TAKE + FENCE + BARRIER + SEND + AGAIN, "writes shared memory that another thread read"),
    ):
        with pytest.raises(RaceError, match=text):
            stored(ALLOC + body)
