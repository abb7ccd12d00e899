"""Races of random accesses are those that a comparison of all pairs of accesses finds."""

from __future__ import annotations

import itertools
import random
from typing import Any

import numpy as np
import pytest

import tile
import tile.language as tl
from tests.sampling import sample
from tile.config import config

LOAD, STORE, ATOMIC = range(3)
PROGRAMS, ROWS, COLUMNS = 5, 4, 8
SIZE = 512
OWN = SIZE - PROGRAMS  # the first of the elements at which programs store what they have loaded


@tile.jit
def access(x_ptr, p_step, i_step, j_step, KIND: tl.constexpr, OWN: tl.constexpr):
    """Access a tile of 4 x 8 elements with these distances of programs, rows and columns."""
    pid = tl.program_id(0)
    at = pid * p_step + tl.arange(0, 4)[:, None] * i_step + tl.arange(0, 8)[None, :] * j_step
    if KIND == 0:
        tl.store(x_ptr + OWN + pid, tl.sum(tl.sum(tl.load(x_ptr + at), 0), 0))
    elif KIND == 1:
        tl.store(x_ptr + at, pid)
    else:
        tl.atomic_add(x_ptr + at, 1)


@tile.jit
def three(x_ptr, a0, a1, a2, b0, b1, b2, c0, c1, c2, KINDS: tl.constexpr, OWN: tl.constexpr):
    access(x_ptr, a0, a1, a2, KINDS[0], OWN)
    access(x_ptr, b0, b1, b2, KINDS[1], OWN)
    access(x_ptr, c0, c1, c2, KINDS[2], OWN)


@tile.jit
def two_phases(
    x_ptr, count_ptr, n, a0, a1, a2, b0, b1, b2, c0, c1, c2, KINDS: tl.constexpr, OWN: tl.constexpr
):
    """All programs wait for each other between the first two accesses and the third."""
    access(x_ptr, a0, a1, a2, KINDS[0], OWN)
    access(x_ptr, b0, b1, b2, KINDS[1], OWN)
    tl.atomic_add(count_ptr, 1)
    while tl.atomic_add(count_ptr, 0) < n:
        pass
    access(x_ptr, c0, c1, c2, KINDS[2], OWN)


def racing(kinds: list[int], steps: list[int]) -> set[int]:
    """Return the elements at which two accesses race: of two programs, not both loads or atomics."""
    accesses: dict[int, set[tuple[int, int]]] = {}
    for pid, number in itertools.product(range(PROGRAMS), range(len(kinds))):
        p_step, i_step, j_step = steps[3 * number : 3 * number + 3]
        for i, j in itertools.product(range(ROWS), range(COLUMNS)):
            element = pid * p_step + i * i_step + j * j_step
            accesses.setdefault(element, set()).add((pid, kinds[number]))
    return {
        element
        for element, all_of_it in accesses.items()
        for (pid, kind), (other_pid, other) in itertools.combinations(all_of_it, 2)
        if pid != other_pid and (kind != other or kind == STORE)
    }


def drawn(seed: int) -> tuple[list[int], list[int]]:
    """Return the kinds of three accesses, and their steps."""
    draw = random.Random(seed)
    kinds = [draw.choice((LOAD, LOAD, STORE, STORE, ATOMIC)) for _ in range(3)]
    steps = [
        step
        for _ in range(3)
        for step in (
            draw.choice((0, 1, 2, 3, 7, 8, 32)),
            draw.choice((0, 1, 2, 5, 8, 16)),
            draw.choice((0, 1, 1, 1, 2, 4)),
        )
    ]
    return kinds, steps


def found(report: Any) -> set[int]:
    """Return the elements of races between programs, not of different values at one address."""
    return {
        fault.place.element
        for fault in report.faults
        if fault.place is not None and fault.other is not None
        if fault.other.program != fault.program
    }


CHUNKS = [1, 1000, 1 << 20]


@pytest.mark.parametrize(("seed", "chunk"), sample(range(40), CHUNKS))
def test_random_accesses(seed: int, chunk: int) -> None:
    kinds, steps = drawn(seed)
    x = np.zeros(SIZE, np.int32)
    with config.scope(chunk_bytes=chunk), tile.sanitize("race", collect=True) as report:
        three[(PROGRAMS,)](x, *steps, KINDS=tuple(kinds), OWN=OWN)
    assert found(report) == racing(kinds, steps)


@pytest.mark.parametrize(("seed", "chunk"), sample(range(40, 60), CHUNKS))
def test_random_accesses_around_a_barrier(seed: int, chunk: int) -> None:
    kinds, steps = drawn(seed)
    x, count = np.zeros(SIZE, np.int32), np.zeros(1, np.int32)
    with config.scope(chunk_bytes=chunk), tile.sanitize("race", collect=True) as report:
        two_phases[(PROGRAMS,)](x, count, PROGRAMS, *steps, KINDS=tuple(kinds), OWN=OWN)
    assert found(report) == racing(kinds[:2], steps[:6]) | racing(kinds[2:], steps[6:])
