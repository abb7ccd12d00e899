"""Tiles that programs share, which loads read once."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tile
import tile.language as tl
from tile.backends.interp import repeated
from tile.backends.interp.repeated import read_repeated, repetition
from tile.backends.interp.resolved_access import Elements, Strided
from tile.backends.interp.values import Affine, Array, Repeated, take
from tile.backends.interp.virtual_memory import Memory
from tile.ir.types import I32


@st.composite
def offsets_of_programs(draw: st.DrawFn) -> Array:
    """Return offsets that repeat along rows, along columns, or nearly or not at all."""
    rows, columns = draw(st.integers(1, 5)), draw(st.integers(1, 5))
    grid = np.zeros((rows, columns), np.int64)
    if draw(st.booleans()):
        grid += np.array(draw(st.lists(st.integers(0, 3), min_size=rows, max_size=rows)))[:, None]
    if draw(st.booleans()):
        grid += np.array(draw(st.lists(st.integers(0, 3), min_size=columns, max_size=columns)))
    line = grid.reshape(-1)
    if draw(st.booleans()):
        line[draw(st.integers(0, len(line) - 1))] = draw(st.integers(0, 3))
    return line


@given(offsets_of_programs())
def test_repetitions_are_those_of_all_programs(line: Array) -> None:
    repeats = repetition(line.reshape(-1, 1, 1))
    if repeats is not None:
        rows, columns, along, once = repeats
        assert len(once) == (rows, columns)[along] >= 2 and rows * columns == len(line)
        spread = Repeated(once, rows, columns, along).array()
        assert np.array_equal(spread.reshape(-1), line)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ([1, 1, 5, 5, 2, 2], (3, 2, 0, [1, 5, 2])),
        ([1, 5, 2, 1, 5, 2], (2, 3, 1, [1, 5, 2])),
        ([1, 1, 1, 1], None),
        ([1, 2, 3, 4], None),
        ([1, 1, 2, 2, 3], None),
        ([1, 2, 1, 2, 1], None),
        ([1, 2, 1], None),
    ],
)
def test_some_repetitions(line: list[int], expected: Any) -> None:
    repeats = repetition(np.array(line).reshape(-1, 1))
    if repeats is not None:
        assert (*repeats[:3], repeats.offsets.reshape(-1).tolist()) == expected
    else:
        assert expected is None


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("line", [[0, 0, 64, 64, 16, 16], [0, 64, 16, 0, 64, 16]])
def test_loads_of_shared_tiles_are_loads(line: list[int], masked: bool) -> None:
    array = np.arange(256, dtype=np.int32)
    memory = Memory()
    base = memory.add("x", array) + 4 * np.array(line).reshape(-1, 1, 1)
    address = Affine(base, (64, 4), (4, 16), np.dtype(np.int64))
    mask = (np.arange(16) < 5)[None, None] if masked else None
    other = np.full((1, 1, 1), 7, np.int32) if masked else None
    operands = (address, mask, other, Elements(I32, (4, 16)))
    shared = read_repeated(memory, *operands)
    assert isinstance(shared, Repeated) and len(shared.values) < len(line)
    expected = memory.load(*operands)
    assert np.array_equal(shared.array(), np.broadcast_to(expected, shared.array().shape))
    some = np.array([4, 1])
    assert np.array_equal(take(shared, some), take(expected, some))


def test_functions_of_shared_tiles() -> None:
    x = Repeated(np.arange(6).reshape(3, 2), 2, 3, 1)
    uniform, whole = np.array([[10, 20]]), np.arange(12).reshape(6, 2)
    added = x.mapped(np.add, x, uniform)
    assert isinstance(added, Repeated) and np.array_equal(added.array(), x.array() + uniform)
    assert np.array_equal(x.mapped(np.subtract, whole, x), whole - x.array())
    assert np.array_equal(x.mapped(np.multiply, x, x).array(), x.array() ** 2)
    both = x.mapped(np.divmod, x, np.array([[2, 2]]))
    expected = np.divmod(x.array(), 2)
    assert all(np.array_equal(a.array(), b) for a, b in zip(both, expected, strict=True))


@tile.jit
def matmul(a, b, c, N, K, M: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, OUT: tl.constexpr):
    row, column = tl.program_id(0) * M, tl.program_id(1) * BN
    rows, columns, ks = row + tl.arange(0, M), column + tl.arange(0, BN), tl.arange(0, BK)
    total = tl.zeros((M, BN), OUT)
    for k in range(0, K, BK):
        x = tl.load(a + rows[:, None] * K + k + ks[None], mask=(k + ks < K)[None], other=0.0)
        y = tl.load(b + (k + ks)[:, None] * N + columns[None], mask=(k + ks < K)[:, None], other=0)
        total = tl.dot(x, y, total, input_precision="tf32x3")
    tl.store(c + rows[:, None] * N + columns[None], total)


@pytest.mark.parametrize("chunk", [1, 7 * 1024, 1 << 20])
@pytest.mark.parametrize(
    ("dtype", "out"),
    [
        (np.float32, np.float32),
        (np.float16, np.float32),
        (ml_dtypes.bfloat16, np.float32),
        (ml_dtypes.float8_e5m2, np.float32),
        (np.int8, np.int32),
        (np.float64, np.float64),
    ],
)
def test_matmuls_of_shared_tiles(
    monkeypatch: pytest.MonkeyPatch, dtype: Any, out: Any, chunk: int
) -> None:
    monkeypatch.setenv("TILE_INTERP_CHUNK", str(chunk))
    rng = np.random.default_rng(0)
    rows, columns, depth = 5 * 16, 3 * 32, 72
    a = rng.integers(-3, 4, (rows, depth)).astype(dtype)
    b = rng.integers(-3, 4, (depth, columns)).astype(dtype)
    c = np.zeros((rows, columns), out)
    kind = {np.int32: tl.int32, np.float64: tl.float64}.get(out, tl.float32)
    matmul[5, 3](a, b, c, columns, depth, M=16, BN=32, BK=32, OUT=kind)
    assert np.array_equal(c, a.astype(np.float64) @ b.astype(np.float64))


@tile.jit
def scores(q, k, out, ROWS: tl.constexpr, D: tl.constexpr):
    """Multiply the rows of one program by a tile that its column of the grid shares."""
    block, head = tl.program_id(0), tl.program_id(1)
    at, d = tl.arange(0, ROWS), tl.arange(0, D)
    x = tl.load(q + ((head * tl.num_programs(0) + block) * ROWS + at)[:, None] * D + d[None])
    y = tl.load(k + (head * ROWS + at)[:, None] * D + d[None])
    total = tl.dot(x, tl.trans(y * 2), input_precision="ieee")
    tl.store(out + ((head * tl.num_programs(0) + block) * ROWS + at)[:, None] * ROWS + at, total)


@pytest.mark.parametrize("grid", [(4, 3), (1, 6), (6, 1), (2, 2)])
def test_dots_of_tiles_of_all_programs_by_shared_ones(grid: tuple[int, int]) -> None:
    blocks, heads = grid
    rng = np.random.default_rng(1)
    q = rng.integers(-3, 4, (heads, blocks, 16, 32)).astype(np.float32)
    k = rng.integers(-3, 4, (heads, 16, 32)).astype(np.float32)
    out = np.zeros((heads, blocks, 16, 16), np.float32)
    scores[grid](q, k, out, ROWS=16, D=32)
    assert np.array_equal(out, q @ (2 * k).swapaxes(1, 2)[:, None])


def test_matmuls_load_shared_tiles_once(monkeypatch: pytest.MonkeyPatch) -> None:
    read, sizes = repeated.read_repeated, []

    def counted(*operands: Any) -> Array | Repeated:
        value = read(*operands)
        assert isinstance(value, Repeated)
        sizes.append(len(value.values))
        return value

    monkeypatch.setattr(repeated, "read_repeated", counted)
    a, c = np.ones((64, 64), np.float32), np.zeros((64, 64), np.float32)
    matmul[4, 2](a, a, c, 64, 64, M=16, BN=32, BK=64, OUT=tl.float32)
    assert sizes == [4, 2] and (c == 64).all()


@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=2, max_size=6),
    st.sampled_from([1, 2, 3]),
    st.sampled_from([1, 2, 4]),
    st.sampled_from([6, 8, 12]),
)
def test_blocks_of_a_matrix_are_distinct(
    cells: list[tuple[int, int]], rows: int, columns: int, pitch: int
) -> None:
    """A store is strided only if no two elements have one address."""
    starts = np.array([r * rows * pitch + c * columns for r, c in cells]).reshape(-1, 1, 1)
    access = Strided(np.zeros(400, np.int32), starts, (pitch, 1), (rows, columns), None)
    block = pitch * np.arange(rows)[:, None] + np.arange(columns)
    addresses = (starts + block).reshape(-1)
    if access.distinct(np.zeros((len(cells), rows, columns))):
        assert len(np.unique(addresses)) == len(addresses)
    aligned = pitch % columns == 0 and max(c for _, c in cells) * columns + columns <= pitch
    if aligned and len(set(cells)) == len(cells):
        assert access.distinct(np.zeros((len(cells), rows, columns)))
