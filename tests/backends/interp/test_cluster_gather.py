"""Programs of a cluster that exchange numbers: on tiles, with checks, and thread by thread."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tile
import tile.language as tl
from tile.errors import DeadlockError, ExecutionError, UnsupportedError

TARGETS = ("interp", "interp:wgmma")


@tile.jit
def shared_rows(x_ptr, y_ptr, blocks, SIZE: tl.constexpr, BLOCK: tl.constexpr):
    """Programs add up sums and maxima of their parts of a row, which have weights."""
    program = tl.program_id(0)
    row, part = program // SIZE, program % SIZE
    total = tl.zeros((), tl.float32)
    for block in range(row, blocks):  # rows have different numbers of blocks
        at = ((row * blocks + block) * SIZE + part) * BLOCK + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + at)
        sums, maxima = tl.extra.cuda.cluster_gather((tl.sum(x, 0), tl.max(x, 0)), SIZE)
        for other in tl.static_range(SIZE):
            total += sums[other] * (other + 1) + maxima[other]
    numbers = tl.extra.cuda.cluster_gather(program, SIZE)
    tl.store(y_ptr + program, total + numbers[SIZE - 1])


@tile.jit
def diverging(y_ptr):
    program = tl.program_id(0)
    if program % 2 == 0:
        tl.store(y_ptr + program, tl.extra.cuda.cluster_gather(program, 2)[1])


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("size", "rows"), [(2, 5), (4, 3), (8, 1)])
def test_rows_that_programs_share(
    target: str, size: int, rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TILE_BACKEND", target)
    x = np.random.default_rng(0).integers(-9, 9, (rows, 5, size, 32)).astype(np.float32)
    y = np.zeros(rows * size, np.float32)
    shared_rows[(rows * size,)](x, y, 5, SIZE=size, BLOCK=32, num_ctas=size)
    parts = x.sum(-1) * np.arange(1, size + 1) + x.max(-1)
    totals = [parts[row, row:].sum() + (row + 1) * size - 1 for row in range(rows)]
    np.testing.assert_array_equal(y, np.repeat(totals, size))


def test_sanitized() -> None:
    x, y = np.ones((4, 5, 2, 32), np.float32), np.zeros(8, np.float32)
    with tile.sanitize():
        shared_rows[(8,)](x, y, 5, SIZE=2, BLOCK=32, num_ctas=2)
    assert y[0] == 5 * (3 * 32 + 2) + 1


@pytest.mark.parametrize("target", TARGETS)
def test_a_program_that_does_not_come(target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILE_BACKEND", target)
    with pytest.raises(DeadlockError, match="a program of its cluster that never comes here") as e:
        diverging[(4,)](np.zeros(4, np.int32), num_ctas=2)
    assert "in program (0, 0, 0) of grid (4, 1, 1)" in e.value.notes[0]


@pytest.mark.parametrize("target", TARGETS)
def test_grids_of_other_sizes(target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILE_BACKEND", target)
    with pytest.raises(ExecutionError, match=r"grid \(3, 1, 1\) is no multiple along axis 0"):
        diverging[(3,)](np.zeros(4, np.int32), num_ctas=2)


@pytest.mark.parametrize(
    ("target", "ctas", "reason"),
    [("interp:wgmma", 1, "num_ctas=1"), ("interp:mma", 2, "target mma has no clusters")],
)
def test_launches_without_such_clusters(
    target: str, ctas: int, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TILE_BACKEND", target)
    arguments: list[Any] = [np.zeros(4, np.int32)]
    with pytest.raises(UnsupportedError, match=f"cannot be gathered: .*{reason}"):
        diverging[(4,)](*arguments, num_ctas=ctas)
