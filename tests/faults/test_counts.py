"""Counts of reports: those of the launch, however its programs are cut into batches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tile
import tile.language as tl
from tests.faults.table import CASES
from tests.sampling import sample
from tile.checks import Check
from tile.config import config
from tile.faults import MAX_FAULTS

CHUNKS = (1, 1 << 7, 1 << 9, 1 << 11, 1 << 13, 1 << 21)


def counted(launch: Callable[[], Any]) -> list[Any]:
    """All numbers of a report, in an order that is not that of its groups.

    A wait for a value that races ends on some schedules alone, so its deadlock is left out.
    """
    with tile.sanitize(collect=True) as report:
        launch()
    raced = any(group.check is Check.RACE for group in report.groups)
    counted_groups = [g for g in report.groups if not (raced and g.check is Check.DEADLOCK)]
    groups = (
        (
            group.check.value,
            sorted(str(loc) for loc in group.key[1]),
            group.executions,
            group.elements,
            len(group.faults),
        )
        for group in counted_groups
    )
    return [sum(group.executions for group in counted_groups), *sorted(groups)]


def same_for_all_chunks(launch: Callable[[], Any], chunks: tuple[int, ...] = CHUNKS) -> list[Any]:
    by_chunk = {}
    for chunk in chunks:
        with config.scope(chunk_bytes=chunk):
            by_chunk[chunk] = counted(launch)
    assert all(counts == by_chunk[chunks[0]] for counts in by_chunk.values()), by_chunk
    return by_chunk[chunks[0]]


@pytest.mark.parametrize(("name", "chunk"), sample(CASES, CHUNKS[1:-1]))
def test_planted_faults(name: str, chunk: int) -> None:
    """One program a batch, some, and all of them."""
    same_for_all_chunks(lambda: CASES[name].launch(True), (CHUNKS[0], chunk, CHUNKS[-1]))


@tile.jit
def beyond(x_ptr, o_ptr, n, B: tl.constexpr):
    pid = tl.program_id(0)
    i = pid * B + tl.arange(0, B)
    for _ in range(pid % 3):
        x = tl.load(x_ptr + i)
        tl.store(o_ptr + i, x, mask=i < n)


@tile.jit
def alike(o_ptr):
    tl.store(o_ptr + 7, 1.0)


@tile.jit
def undecided(x_ptr, o_ptr, n):
    pid = tl.program_id(0)
    if tl.load(x_ptr + pid, mask=pid % 2 == 0) > 0:
        tl.store(o_ptr + pid, 1.0)


@tile.jit
def neighbors(x_ptr, n, B: tl.constexpr):
    """Each program writes its block and reads the next one."""
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(x_ptr + i, 1.0)
    x = tl.load(x_ptr + i + B, mask=i + B < n, other=0.0)
    tl.store(x_ptr + n + i, x)


@tile.jit
def broadcast(x_ptr, o_ptr, B: tl.constexpr):
    """One program writes what all of them read."""
    pid = tl.program_id(0)
    i = tl.arange(0, B)
    x = tl.load(x_ptr + i)
    tl.store(o_ptr + pid * B + i, x)
    tl.store(x_ptr + i, x, mask=(i >= 0) & (pid == 5))


@tile.jit
def same_place(o_ptr, B: tl.constexpr):
    tl.store(o_ptr + tl.arange(0, B) // 2, tl.program_id(0) + tl.arange(0, B))


@tile.jit
def promised(o_ptr, step):
    pid = tl.program_id(0)
    tl.assume(pid != 3)
    i = tl.multiple_of(pid * step, 16)
    tl.store(o_ptr + i, 1.0)


def f32(count: int) -> np.ndarray:
    return np.zeros(count, np.float32)


LAUNCHES: dict[str, tuple[Callable[[], Any], int]] = {
    "loads": (
        lambda: beyond[(300,)](f32(400), f32(2400), 2400, B=8),
        sum(program % 3 for program in range(50, 300)),
    ),
    "alike": (lambda: alike[(130,)](f32(4)), 130),
    "branches": (lambda: undecided[(40,)](f32(40), f32(40), 40), 20),
    "neighbors": (lambda: neighbors[(20,)](f32(640), 320, B=16), 304),
    "broadcast": (lambda: broadcast[(9,)](f32(16), f32(144), B=16), 16),
    "promises": (lambda: promised[(64,)](f32(1024), 8), 33),
}


@pytest.mark.parametrize("name", LAUNCHES)
def test_many_programs(name: str) -> None:
    launch, faults = LAUNCHES[name]
    total, *groups = same_for_all_chunks(launch)
    assert total == faults
    assert all(recorded == min(executions, MAX_FAULTS) for *_, executions, _, recorded in groups)


def test_stores_to_one_address_are_distinguished_from_races_of_programs() -> None:
    same_for_all_chunks(lambda: same_place[(1,)](np.zeros(8, np.int32), B=16))
    same_for_all_chunks(lambda: same_place[(30,)](np.zeros(8, np.int32), B=16))


def test_a_fault_counts_the_elements_of_its_program() -> None:
    for chunk in (1, 1 << 20):
        with config.scope(chunk_bytes=chunk), tile.sanitize(collect=True) as report:
            beyond[(3,)](f32(12), f32(24), 24, B=8)
        (group,) = report.groups
        assert [(fault.program[0], fault.count, fault.active) for fault in group.faults] == [
            (1, 4, 8), (2, 8, 8), (2, 8, 8)
        ]  # fmt: skip
        assert (group.executions, group.elements) == (3, 20)
        assert "; 4 of 8 active elements of this access are out of bounds" in str(report)
