"""Loads of a loop that repeat the resolution of an earlier iteration, and stores of grids."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tile
import tile.language as tl
from tile.backends.interp import shifted_reads
from tile.backends.interp.resolved_access import Elements, Strided, grid_of
from tile.backends.interp.values import Affine, Array, Repeated
from tile.errors import OutOfBoundsError
from tile.ir.types import F32


@tile.jit
def sum_windows(x, starts, out, stride, COUNT: tl.constexpr, BLOCK: tl.constexpr):
    total = tl.zeros((BLOCK,), tl.float32)
    for i in range(COUNT):
        total += tl.load(x + tl.load(starts + tl.program_id(0) * stride + i) + tl.arange(0, BLOCK))
    tl.store(out + tl.program_id(0) * BLOCK + tl.arange(0, BLOCK), total)


@given(
    st.lists(st.integers(0, 1024 - 256), min_size=6, max_size=6),
    st.lists(st.integers(-3, 3), min_size=2, max_size=2),
)
def test_windows_of_a_loop(first: list[int], distances: list[int]) -> None:
    """Starts move by one distance in all programs, or each by its own, or not at all."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal(1024).astype(np.float32)
    moves = np.cumsum([0, *distances]) * 64
    starts = np.clip(np.array(first)[:, None] + moves, 0, 1024 - 256).astype(np.int32)
    out = np.zeros((6, 256), np.float32)
    sum_windows[(6,)](x, starts, out, 3, COUNT=3, BLOCK=256)
    rows = [[x[start : start + 256] for start in row] for row in starts.tolist()]
    expected = np.array(rows).sum(axis=1)
    assert np.allclose(out, expected, atol=1e-5)


@tile.jit
def sum_rows(x, out, rows, BLOCK: tl.constexpr):
    total = tl.zeros((BLOCK,), tl.float32)
    for i in range(rows):
        total += tl.load(x + i * BLOCK + tl.arange(0, BLOCK))
    tl.store(out + tl.arange(0, BLOCK), total)


def test_rows_of_a_loop_are_resolved_once(monkeypatch: pytest.MonkeyPatch) -> None:
    found = []
    original = shifted_reads.SeenRead.moved

    def moved(seen: shifted_reads.SeenRead, address: Affine) -> Array | Repeated | None:
        values = original(seen, address)
        found.append(values is not None)
        return values

    monkeypatch.setattr(shifted_reads.SeenRead, "moved", moved)
    x, out = np.ones((5, 256), np.float32), np.zeros(256, np.float32)
    sum_rows[(1,)](x, out, 5, BLOCK=256)
    assert (out == 5).all()
    assert found == [True] * 4


def test_a_row_after_the_last_is_reported() -> None:
    x, out = np.ones((5, 256), np.float32), np.zeros(256, np.float32)
    with pytest.raises(OutOfBoundsError, match="sum_rows"):
        sum_rows[(1,)](x, out, 6, BLOCK=256)


def test_a_row_after_the_last_but_for_one_element_is_reported() -> None:
    x, out = np.ones(5 * 256 - 1, np.float32), np.zeros(256, np.float32)
    with pytest.raises(OutOfBoundsError):
        sum_rows[(1,)](x, out, 5, BLOCK=256)


@tile.jit
def accumulate_in_place(x, rows, BLOCK: tl.constexpr):
    for i in range(1, rows):
        before = tl.load(x + (i - 1) * BLOCK + tl.arange(0, BLOCK))
        row = tl.load(x + i * BLOCK + tl.arange(0, BLOCK))
        tl.store(x + i * BLOCK + tl.arange(0, BLOCK), row + before)


def test_loads_see_stores_of_earlier_iterations() -> None:
    x = np.ones((6, 256), np.float32)
    accumulate_in_place[(1,)](x, 6, BLOCK=256)
    assert (x[:, 0] == np.arange(1, 7)).all()


@given(st.integers(1, 5), st.integers(1, 5), st.integers(-9, 9), st.integers(-9, 9), st.data())
def test_grids_of_starts(
    rows: int, columns: int, down: int, across: int, data: st.DataObject
) -> None:
    line = (np.arange(rows)[:, None] * down + np.arange(columns) * across).reshape(-1)
    if data.draw(st.booleans()):
        line[data.draw(st.integers(0, len(line) - 1))] += data.draw(st.integers(1, 3))
    grid = grid_of(line.reshape(-1, 1, 1))
    if grid is not None:
        table = np.arange(grid.rows)[:, None] * grid.down + np.arange(grid.columns) * grid.across
        assert np.array_equal(line, line[0] + table.reshape(-1))


def overlapping(starts: Array, extents: tuple[int, int], steps: tuple[int, int]) -> bool:
    index = np.arange(extents[0])[:, None] * steps[0] + np.arange(extents[1]) * steps[1]
    touched = (starts.reshape(-1, 1) + index.reshape(1, -1)).reshape(-1)
    return len(np.unique(touched)) < len(touched)


@given(
    st.tuples(st.integers(1, 3), st.integers(1, 4)),
    st.tuples(st.integers(0, 20), st.integers(0, 9)),
    st.tuples(st.integers(1, 3), st.integers(1, 3)),
    st.tuples(st.integers(1, 12), st.integers(1, 4)),
)
def test_grids_are_written_as_one_view(
    count: tuple[int, int],
    distances: tuple[int, int],
    extents: tuple[int, int],
    steps: tuple[int, int],
) -> None:
    down, across = distances
    starts = (np.arange(count[0])[:, None] * down + np.arange(count[1]) * across).reshape(-1, 1, 1)
    flat = np.zeros(200, np.int32)
    access = Strided(flat, starts, steps, list(extents), None)
    numbers = np.arange(starts.size * extents[0] * extents[1], dtype=np.int32)
    values = numbers.reshape(-1, *extents)
    if not access.distinct(values):
        return
    assert not overlapping(starts, extents, steps)
    access.write(values, False)
    index = starts + np.arange(extents[0])[:, None] * steps[0] + np.arange(extents[1]) * steps[1]
    assert np.array_equal(flat[index], values)
    assert np.array_equal(access.read(), values)


def test_moved_addresses_keep_their_alignment() -> None:
    memory = tile.backends.interp.virtual_memory.Memory()
    start = memory.add("x", np.arange(64, dtype=np.float32))
    access = memory.strided(
        Affine(np.full((1, 1), start), (4,), (16,), np.dtype(np.int64)),
        None,
        Elements(F32, (16,)),
    )
    assert access is not None
    first = Affine(np.full((1, 1), start), (4,), (16,), np.dtype(np.int64))
    seen = shifted_reads.seen_read(first, access, None)
    assert seen is not None
    for distance, expected in ((2, None), (4, 1), (48 * 4, 48), (49 * 4, None), (-4, None)):
        there = Affine(first.base + distance, (4,), (16,), np.dtype(np.int64))
        values = seen.moved(there)
        assert (values is None) == (expected is None)
        if values is not None:
            assert isinstance(values, np.ndarray) and values[0, 0] == expected
