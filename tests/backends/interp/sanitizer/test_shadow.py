"""Shadow memory: the size of its records, what they cover, and the faults reported."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import tile
import tile.language as tl
from tile.backends.interp.sanitizer import launch as launches
from tile.backends.interp.sanitizer import race_records
from tile.backends.interp.sanitizer.shadow_memory import ShadowMemory
from tile.backends.interp.tuning import TUNING
from tile.config import config
from tile.errors import BrokenAssumptionError, DataRaceError, IntegerOverflowError

LIMIT = 24  # bytes of records for each element of the arrays passed


@tile.jit
def in_place(x_ptr, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    x = tl.load(x_ptr + i, mask=i < n, other=0)
    tl.store(x_ptr + i, x + tl.load(x_ptr + (n - 1 - i), mask=i < n, other=0), mask=i < n)


@tile.jit
def add(x_ptr, y_ptr, o_ptr, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    x = tl.load(x_ptr + i, mask=i < n)
    tl.store(o_ptr + i, x + tl.load(y_ptr + i, mask=i < n), mask=i < n)


@pytest.fixture
def shadows(monkeypatch) -> list[ShadowMemory]:
    """The records of all launches of a test."""
    launched: list[ShadowMemory] = []

    class Remembered(ShadowMemory):
        def __init__(self, *args) -> None:
            super().__init__(*args)
            launched.append(self)

    monkeypatch.setattr(launches, "ShadowMemory", Remembered)
    return launched


def size(shadow: ShadowMemory) -> int:
    regions = {id(region): region for region in shadow.regions.values()}.values()
    return sum(record.nbytes for region in regions for record in region.record_arrays)


@pytest.mark.parametrize("dtype", [np.int8, np.int32, np.float64])
def test_size_of_records(shadows, dtype) -> None:
    x = np.zeros(4096, dtype)
    with tile.sanitize(collect=True) as report:
        in_place[(64,)](x, x.size, B=64)
    assert report
    (shadow,) = shadows
    assert 0 < size(shadow) <= LIMIT * x.size


def test_records_are_allocated_on_first_use(shadows) -> None:
    x, y, out = (np.zeros(4096, np.float32) for _ in range(3))
    with tile.sanitize():
        add[(64,)](x, y, out, x.size, B=64)
    (shadow,) = shadows
    assert size(shadow) == 8 * out.size


@tile.jit
def bytes_of(x_ptr, PER: tl.constexpr):
    p = x_ptr.to(tl.pointer_type(tl.int8)) + tl.program_id(0) * PER
    tl.store(p + tl.arange(0, PER), tl.zeros((PER,), tl.int8))


def test_programs_may_write_different_bytes_of_an_element() -> None:
    with tile.sanitize():
        bytes_of[(16,)](np.zeros(16, np.int32), PER=2)


@tile.jit
def words_of(x_ptr, STEP: tl.constexpr):
    p = x_ptr.to(tl.pointer_type(tl.int32)) + tl.program_id(0) * STEP
    tl.store(p + tl.arange(0, 2), tl.zeros((2,), tl.int32))


def test_elements_of_several_cells() -> None:
    x = np.zeros(32, np.int8)
    with tile.sanitize():
        words_of[(4,)](x, STEP=2)
    with tile.sanitize(), pytest.raises(DataRaceError, match=r"`x_ptr\[4\]`"):
        words_of[(4,)](x, STEP=1)


def test_arrays_that_share_memory_are_named() -> None:
    whole = np.zeros(64, np.float32)
    with tile.sanitize("race"), pytest.raises(DataRaceError, match="were passed the same memory"):
        add[(4,)](whole[8:40], whole[32:], whole[:32], 32, B=8)
    with tile.sanitize("race"):
        add[(4,)](whole[:32], whole[:32], whole[:32], 32, B=8)


@tile.jit
def rows_of_pointers(table_ptr, B: tl.constexpr):
    row = tl.load(table_ptr + tl.program_id(0)).to(tl.pointer_type(tl.int32))
    tl.store(row + tl.arange(0, B), tl.program_id(0))


def test_memory_behind_pointers_is_tracked() -> None:
    rows = [np.zeros(8, np.int32) for _ in range(4)]
    with tile.sanitize():
        rows_of_pointers[(4,)](tile.pointers(rows), B=8)
        rows[2] = rows[1]
        with pytest.raises(DataRaceError, match=r"`table_ptr\[[12]\]\[0\]`"):
            rows_of_pointers[(4,)](tile.pointers(rows), B=8)


def test_both_sides_of_a_race_are_reported() -> None:
    x = np.zeros(64, np.int32)
    with tile.sanitize(), pytest.raises(DataRaceError) as caught:
        in_place[(4,)](x, 64, B=16)
    fault = caught.value.fault
    assert fault is not None
    assert fault.other is not None
    assert fault.other.program != fault.program
    assert (fault.other.verb, fault.other.argument) == ("reads", "x_ptr")
    assert fault.other.loc is not None
    assert fault.loc is not None
    assert fault.other.loc.line in (fault.loc.line, fault.loc.line - 1)


@tile.jit
def scale(x_ptr, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(x_ptr + i, tl.load(x_ptr + i, mask=i < n, other=0.0) * 2, mask=i < n)


def test_divisibility_of_arguments_is_checked() -> None:
    x = np.zeros(64, np.float32)
    kernel = scale.warmup(x, 64, B=16)
    with tile.sanitize():
        kernel.executable.launch((4, 1, 1), [x, np.int32(64)])
        with pytest.raises(BrokenAssumptionError, match="`n` being a multiple of 16, and it is 60"):
            kernel.executable.launch((4, 1, 1), [x, np.int32(60)])
        with pytest.raises(BrokenAssumptionError, match="the address of `x_ptr`"):
            kernel.executable.launch((3, 1, 1), [x[1:], np.int32(48)])


@tile.jit
def far_row(x_ptr, o_ptr, row, stride):
    tl.store(o_ptr, tl.load(x_ptr + row * stride))


def test_overflow_names_the_operation_and_the_fix() -> None:
    x, out = np.zeros(8, np.float32), np.zeros(1, np.float32)
    with tile.sanitize(), pytest.raises(IntegerOverflowError) as caught:
        far_row[(1,)](x, out, 70000, 70001)
    text = str(caught.value)
    assert "70000 * 70001 is 4900070000, which i32 does not hold" in text
    assert "cast an operand to tl.int64" in text
    fault = caught.value.fault
    assert fault is not None
    assert fault.cause is not None


@tile.jit
def hashed(x_ptr, o_ptr, B: tl.constexpr):
    i = tl.arange(0, B)
    h = (i * 40503 + 12345) * 65599
    tl.store(o_ptr + i, tl.load(x_ptr + ((h >> 4) & (B - 1))))


def test_hashes_are_not_overflows() -> None:
    with tile.sanitize():
        hashed[(1,)](np.zeros(64, np.float32), np.zeros(64, np.float32), B=64)


@tile.jit
def many_readers(x_ptr, flag_ptr, o_ptr, n, skipped, B: tl.constexpr):
    pid = tl.program_id(0)
    i = tl.arange(0, B)
    if pid < n:
        tl.store(o_ptr + pid * B + i, tl.load(x_ptr + i))
        tl.atomic_xchg(flag_ptr + pid, 1, sem="release")
    else:
        for reader in range(n):
            if reader != skipped:
                while tl.atomic_add(flag_ptr + reader, 0, sem="acquire") == 0:
                    pass
        tl.store(x_ptr + i, i)


@tile.jit
def overlapping_windows(x_ptr, step, B: tl.constexpr):
    """Each program reads its block and the next one, by one load, and writes its block."""
    i = tl.program_id(0) * step + tl.arange(0, 2 * B)
    total = tl.sum(tl.load(x_ptr + i), 0)
    tl.store(x_ptr + tl.program_id(0) * step + tl.arange(0, B), total)


@tile.jit
def interleaved(x_ptr, n, B: tl.constexpr):
    """Each program reads and writes elements that lie between those of others."""
    i = tl.program_id(0) + tl.arange(0, B) * n
    tl.store(x_ptr + i, tl.load(x_ptr + i) + 1)


@tile.jit
def doubling(x_ptr, B: tl.constexpr):
    """Program p reads elements p + i and writes elements p + 2 * i."""
    i, pid = tl.arange(0, B), tl.program_id(0)
    x = tl.load(x_ptr + pid + i)
    tl.store(x_ptr + pid + i * 2, x)


def racing_elements(kernel, *args, **constants) -> dict[frozenset[int], set[int]]:
    """Return the elements of races by the lines of both accesses."""
    with tile.sanitize("race", collect=True) as report:
        kernel[(9,)](*args, **constants)
    races: dict[frozenset[int], set[int]] = {}
    for fault in report.faults:
        assert fault.loc is not None and fault.other is not None and fault.place is not None
        lines = frozenset({fault.loc.line, fault.other.loc.line})
        races.setdefault(lines, set()).add(fault.place.element)
    return races


@pytest.mark.parametrize("chunk", [1, 300, 1 << 20])
def test_elements_that_programs_read_by_one_load_are_all_recorded(chunk: int) -> None:
    first = overlapping_windows.starting_line_number
    with config.scope(chunk_bytes=chunk):
        races = racing_elements(overlapping_windows, np.zeros(40, np.float32), 4, B=4)
        assert races == {frozenset({first + 4, first + 5}): set(range(4, 36))}
        assert racing_elements(interleaved, np.zeros(36, np.float32), 9, B=4) == {}
        races = racing_elements(doubling, np.zeros(32, np.float32), B=8)
    first = doubling.starting_line_number
    assert races == {
        frozenset({first + 4, first + 5}): set(range(1, 16)),
        frozenset({first + 5}): set(range(2, 21)),
    }


@pytest.mark.parametrize("chunk", [1, 1 << 20])
@pytest.mark.parametrize("skipped", range(-1, 7))
def test_all_of_many_readers_are_recorded(skipped: int, chunk: int) -> None:
    n, block = 7, 4
    x, flags = np.zeros(block, np.int32), np.zeros(n, np.int32)
    with config.scope(chunk_bytes=chunk), tile.sanitize(collect=True) as report:
        many_readers[(n + 1,)](x, flags, np.zeros(n * block, np.int32), n, skipped, B=block)
    sides = {(f.program, f.other.program) for f in report.faults if f.other is not None}
    assert sides == (set() if skipped < 0 else {((n, 0, 0), (skipped, 0, 0))})


def test_warns_of_readers_beyond_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(race_records, "TUNING", replace(TUNING, extra_readers=8))
    n, block = 7, 4
    x, flags = np.zeros(block, np.int32), np.zeros(n, np.int32)
    with tile.sanitize("race"), pytest.warns(RuntimeWarning, match="`many_readers`.*may be missed"):
        many_readers[(n + 1,)](x, flags, np.zeros(n * block, np.int32), n, -1, B=block)
