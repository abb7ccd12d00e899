"""TMA loads and stores: their results, and every way to access data too early or wait forever."""

from __future__ import annotations

import re

import numpy as np
import pytest

from tests.backends.interp.simulator.kernels import run
from tile.errors import (
    CopyInFlightError,
    DivergenceError,
    MbarrierError,
    OutOfBoundsError,
    RaceError,
    TileError,
    UnsupportedError,
    VectorAccessError,
)
from tile.simt.hopper.wgmma_layouts import operand_layout_in_shared

BLOCK = operand_layout_in_shared((16, 16), 16, 1, 16)
assert BLOCK is not None

# An array of 20 by 24 numbers; every thread stores two elements of the block in shared memory.
ROWS, COLUMNS, PITCH = 20, 24, 32
FRAME = f"""
#b = {BLOCK}
#ring = #linear{{offset = [] -> dim0 = 1}}
#line = #linear{{register = [[1]], lane = [[2],[4],[8],[16],[32]], warp = [[64],[128]] -> dim0 = 256}}
#two = #linear{{register = [], lane = [[2],[4],[8],[16],[32]], warp = [[64],[128]] -> dim0 = 256}}
kernel @k(%in: ptr<f16>, %out: ptr<f16>, %n: i32, %row: i32, %column: i32) {{
  %line = layout_index {{layout = #line}} : frag<2xi32>
  %to = frag_splat %out {{count = 2}} : frag<2xptr<f16>>
  %q = addptr %to, %line {{stride = 2}} : frag<2xptr<f16>>
  %o = layout_index {{layout = #two}} : frag<1xi32>
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
ALLOC = "%m = local_alloc {offset = 0} : shared<16x16xf16, #b>\n"
BARS = "%b = local_alloc {offset = 512} : shared<1xi64, #ring, stages = 2>\n"
INIT = "mbarrier_init %b\n"
FENCE = "fence_proxy_async\n"
BARRIER = "barrier\n"
EXPECT = "mbarrier_arrive_expect_tx %b, %zero, %yes {size = 512}\n"
NUMBERS = "%in, %rows, %columns, %pitch, %row, %column"
COPY = f"tma_load %m, %b, %zero, %yes, {NUMBERS}\n"
WAIT = "mbarrier_wait %b, %zero\n"
LOAD = "%y = shared_load %m, %o {vector = 2} : frag<2xf16>\n"
OUT = "store %q, %y\n"
FREE = "mbarrier_inval %b\n"
MADE = ALLOC + BARS + INIT + FENCE + BARRIER
SENT = MADE + EXPECT + COPY


def array() -> np.ndarray:
    return np.random.default_rng(0).standard_normal((ROWS, PITCH)).astype(np.float16)


def result(
    body: str, row: int = 0, column: int = 0, n: int = 3, target: str = "wgmma"
) -> np.ndarray:
    """Return what a kernel stores, in the order of the buffer."""
    out = np.zeros(256, np.float16)
    numbers = map(np.int32, (n, row, column))
    buffer = np.lib.stride_tricks.as_strided(array(), (ROWS * PITCH,), (2,))
    run(FRAME.replace("BODY", body), np.array(buffer), out, *numbers, target=target, warps=4)
    assert BLOCK is not None
    return out[BLOCK.invert().table()["offset"].reshape(16, 16)]


def fails(error: type[TileError], body: str, text: str, **options: int | str) -> None:
    with pytest.raises(error, match=re.escape(text)) as caught:
        result(body, **options)  # type: ignore[arg-type]
    assert type(caught.value) is error


def block(row: int, column: int) -> np.ndarray:
    padded = np.zeros((ROWS + 64, COLUMNS + 64), np.float16)
    padded[32 : 32 + ROWS, 32 : 32 + COLUMNS] = array()[:, :COLUMNS]
    return padded[32 + row :, 32 + column :][:16, :16]


@pytest.mark.parametrize("row", [0, 3, 4, 12, 19, 20, -1, -16])
@pytest.mark.parametrize("column", [0, 8, 16, 24, -8, -16])
def test_block_is_zero_out_of_bounds(row: int, column: int) -> None:
    loaded = result(SENT + WAIT + LOAD + OUT + BARRIER + FREE, row, column)
    np.testing.assert_array_equal(loaded, block(row, column))


def test_indices_far_out_of_bounds() -> None:
    for row, column in ((2**31 - 1, 0), (0, 2**31 - 8), (-(2**31), 0)):
        assert not result(SENT + WAIT + LOAD + OUT, row, column).any()


def test_mbarriers_alternate_between_stages() -> None:
    """Iterations alternate between two mbarriers; the last block remains."""
    body = """
    %z = for %i = %zero to %n step %one iter(%u = %zero) : i32 {
      mbarrier_arrive_expect_tx %b, %u, %yes {size = 512}
      tma_load %m, %b, %u, %yes, %in, %rows, %columns, %pitch, %i, %column
      mbarrier_wait %b, %u
      barrier
      %v = add %u, %one : i32
      yield %v
    }
    """
    for n in (1, 2, 5, 6):
        loaded = result(MADE + body + LOAD + OUT + BARRIER + FREE, n=n)
        np.testing.assert_array_equal(loaded, block(n - 1, 0))


def test_inactive_load_is_not_expected() -> None:
    """Nor is it waited for; the next iteration uses the same mbarrier."""
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
    np.testing.assert_array_equal(result(body), block(0, 0))


def test_mbarriers_are_initialized_again() -> None:
    body = SENT + WAIT + BARRIER + FREE + INIT + FENCE + BARRIER
    body += EXPECT + COPY.replace("%row,", "%one,") + WAIT + LOAD + OUT
    np.testing.assert_array_equal(result(body), block(1, 0))


def test_access_before_the_wait() -> None:
    fails(CopyInFlightError, SENT + LOAD + OUT, "that an asynchronous copy still writes")
    store = "shared_store %m, %o, %x {vector = 2}\n"
    fails(CopyInFlightError, SENT + store, "that an asynchronous copy still writes")
    fails(CopyInFlightError, SENT + COPY, "that an asynchronous copy still writes")


def test_wait_for_the_wrong_phase() -> None:
    """A wait for the other phase returns at once; one on the other mbarrier never completes."""
    earlier = "mbarrier_wait %b, %zero {stage_offset = 2}\n"
    fails(CopyInFlightError, SENT + earlier + LOAD, "that an asynchronous copy still writes")
    other = "mbarrier_wait %b, %one\n"
    fails(MbarrierError, SENT + other, "whose phase never completes")


def test_waits_that_never_complete() -> None:
    never_completes = "whose phase never completes"
    fails(MbarrierError, MADE + WAIT, never_completes)
    fails(MbarrierError, MADE + EXPECT + WAIT, never_completes)
    fails(MbarrierError, MADE + COPY + WAIT, never_completes)
    fails(MbarrierError, MADE + EXPECT.replace("512", "1024") + COPY + WAIT, never_completes)


def test_expecting_twice_in_a_phase() -> None:
    fails(MbarrierError, SENT + EXPECT, "whose current phase has not been waited for")


def test_uninitialized_mbarriers() -> None:
    missing = "that mbarrier_init has not initialized"
    for use in (EXPECT, COPY, WAIT, FREE):
        fails(MbarrierError, ALLOC + BARS + FENCE + BARRIER + use, missing)
    fails(MbarrierError, MADE + FREE + EXPECT, missing)
    fails(MbarrierError, MADE + INIT, "with no mbarrier_inval before")


def test_mbarriers_without_fence_or_barrier() -> None:
    made = ALLOC + BARS + INIT
    fails(RaceError, made + BARRIER + EXPECT, "no fence_proxy_async since its initialization")
    fails(RaceError, made + FENCE + EXPECT + COPY + WAIT, "with no `barrier` in between")
    fails(RaceError, SENT + WAIT + FREE, "on which other threads may still wait")


def test_tma_load_over_unfenced_stores() -> None:
    store = "shared_store %m, %o, %x {vector = 2}\n"
    ready = ALLOC + BARS + INIT
    fails(
        RaceError,
        ready + FENCE + BARRIER + store + BARRIER + EXPECT + COPY,
        "overwrites with a TMA load what a thread wrote, with no fence_proxy_async",
    )
    fails(
        RaceError,
        ready + store + FENCE + EXPECT + COPY,
        "writes shared memory that another thread wrote",
    )
    read = ready + store + FENCE + BARRIER + LOAD + EXPECT + COPY
    fails(RaceError, read, "writes shared memory that another thread read")
    right = ready + store + FENCE + BARRIER + EXPECT + COPY + WAIT + LOAD + OUT
    np.testing.assert_array_equal(result(right), block(0, 0))


def test_misaligned_arrays() -> None:
    wrong = COPY.replace("%pitch", "%odd")
    fails(VectorAccessError, MADE + EXPECT + wrong, "both must be multiples of 16")
    fails(VectorAccessError, MADE + EXPECT + COPY, "index 4 along the last axis", column=4)
    beyond = "%far = const {value = 4096} : i32\n"
    copy = COPY.replace("%row,", "%rows,").replace("%rows, %columns", "%far, %columns")
    fails(OutOfBoundsError, beyond + MADE + EXPECT + copy, "reads `in`")


def test_all_threads_must_wait() -> None:
    some = (
        "%c = cmp %t, %one {predicate = lt} : i1\nif %c {\n" + WAIT + "yield\n} else {\nyield\n}\n"
    )
    fails(DivergenceError, SENT + some, "with only some threads of a program")


def test_targets_and_buffers_without_tma() -> None:
    fails(UnsupportedError, MADE, "target mma has no TMA", target="mma")
    moved = SENT.replace("{offset = 0}", "{offset = 2048}").replace(
        "{offset = 512}", "{offset = 0}"
    )
    assert result(moved + WAIT + LOAD + OUT).any()
    apart = SENT.replace("{offset = 0}", "{offset = 1040}")
    fails(UnsupportedError, apart, "accepts no buffer at byte 1040")
    line = "#linear{offset = [[1],[2],[4],[8],[16]] -> dim0 = 32}"
    narrow = (
        f"%r = local_alloc {{offset = 0}} : shared<32xf16, {line}, stages = 2>\n"
        f"%v = local_subview %r, %zero : shared<32xf16, {line}>\n"
        "tma_load %v, %b, %zero, %yes, %in, %columns, %column\n"
    )
    stage = "at byte 64, which is no multiple of 128"
    fails(UnsupportedError, MADE.replace(ALLOC, "") + EXPECT + narrow, stage)
    columns = "#linear{offset = [[1,0],[2,0],[4,0],[8,0],[0,1],[0,2],[0,4],[0,8]] -> dim0 = 16, dim1 = 16}"
    other = SENT.replace("shared<16x16xf16, #b>", f"shared<16x16xf16, {columns}>")
    fails(UnsupportedError, other, "tma_load accepts no shared<16x16xf16")


# -- stores

AGAIN = "shared_store %m, %o, %x2 {vector = 2}\n"
TAKE = "%x2 = load %p : frag<2xf16>\n" + AGAIN
SEND = "tma_store %m, %out, %rows, %columns, %pitch, %row, %column\n"
READ = "tma_store_wait %m {read = true}\n"


def stored(body: str, row: int = 0, column: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Return the array after a kernel, and the block that was in the buffer."""
    frame = FRAME.replace(
        "%o = layout_index",
        "%in2 = frag_splat %in {count = 2} : frag<2xptr<f16>>\n  %o = layout_index",
        1,
    ).replace(
        "%zero = const",
        "%p = addptr %in2, %line {stride = 2} : frag<2xptr<f16>>\n  %zero = const",
        1,
    )
    buffer = np.random.default_rng(1).standard_normal(256).astype(np.float16)
    out = array().reshape(-1)
    numbers = map(np.int32, (3, row, column))
    run(frame.replace("BODY", body), buffer, out, *numbers, target="wgmma", warps=4)
    assert BLOCK is not None
    return out.reshape(ROWS, PITCH), buffer[BLOCK.invert().table()["offset"].reshape(16, 16)]


@pytest.mark.parametrize(("row", "column"), [(0, 0), (4, 8), (12, 16), (-3, 8), (19, -8), (40, 0)])
def test_tma_store_writes_in_bounds_elements(row: int, column: int) -> None:
    loaded, values = stored(ALLOC + TAKE + FENCE + BARRIER + SEND + READ, row, column)
    wanted = array()
    for i, j in np.ndindex(16, 16):
        if 0 <= row + i < ROWS and 0 <= column + j < COLUMNS:
            wanted[row + i, column + j] = values[i, j]
    np.testing.assert_array_equal(loaded, wanted)


def test_tma_store_of_unfenced_or_undefined_data() -> None:
    for body, text in (
        (
            TAKE + BARRIER + SEND,
            "reads with a TMA store what a thread wrote, with no fence_proxy_async",
        ),
        (TAKE + FENCE + SEND, "reads shared memory that another thread wrote"),
        (
            TAKE + FENCE + BARRIER + SEND + READ + AGAIN,
            "writes shared memory that another thread read",
        ),
    ):
        with pytest.raises(RaceError, match=text):
            stored(ALLOC + body)


def test_tma_store_that_is_not_waited_for() -> None:
    sent = TAKE + FENCE + BARRIER + SEND
    again = BARRIER + AGAIN
    for body, text in (
        (sent, "ends while a TMA store still reads shared memory"),
        (sent + again, "writes shared memory that a TMA store still reads"),
        (sent + "tma_store_wait %m {pending = 1}\n" + again, "that a TMA store still reads"),
    ):
        with pytest.raises(CopyInFlightError, match=text):
            stored(ALLOC + body)
    stored(ALLOC + sent + READ + again)
