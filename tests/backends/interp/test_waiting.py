"""Programs that wait for each other make progress, and a wait that cannot end is reported."""

from __future__ import annotations

import numpy as np
import pytest

import tile
import tile.language as tl
from tile.config import config
from tile.errors import DeadlockError


@tile.jit
def locked_increment(lock_ptr, count_ptr, seen_ptr):
    while tl.atomic_cas(lock_ptr, 0, 1) == 1:
        pass
    seen = tl.load(count_ptr)
    tl.store(count_ptr, seen + 1)
    tl.atomic_xchg(lock_ptr, 0)
    tl.store(seen_ptr + tl.program_id(0), seen)


@tile.jit
def look_back(flag_ptr, x_ptr, o_ptr, n, BACKWARDS: tl.constexpr):
    """A running sum in which each program waits for the program before it."""
    pid = tl.program_id(0)
    if BACKWARDS:
        before = pid + 1
        first = pid == n - 1
    else:
        before = pid - 1
        first = pid == 0
    total = tl.load(x_ptr + pid)
    if not first:
        while tl.load(flag_ptr + before, volatile=True) == 0:
            pass
        total += tl.load(o_ptr + before)
    tl.store(o_ptr + pid, total)
    tl.store(flag_ptr + pid, 1)


@tile.jit
def take_tickets(next_ptr, ticket_ptr, log_ptr, rounds):
    for _ in range(rounds):
        ticket = tl.atomic_add(next_ptr, 1)
        while tl.load(ticket_ptr, volatile=True) != ticket:
            pass
        tl.store(log_ptr + ticket, tl.program_id(0))
        tl.store(ticket_ptr, ticket + 1)


@tile.jit
def grid_barrier(arrived_ptr, x_ptr, o_ptr, n):
    pid = tl.program_id(0)
    tl.store(x_ptr + pid, pid * pid)
    tl.atomic_add(arrived_ptr, 1)
    spins = 0
    while tl.load(arrived_ptr, volatile=True) < n:
        spins += 1
    tl.store(o_ptr + pid, tl.load(x_ptr + (pid + 1) % n))


@tile.jit
def wait_for_nobody(flag_ptr, o_ptr):
    pid = tl.program_id(0)
    if pid >= 3:
        while tl.load(flag_ptr + pid, volatile=True) == 0:
            pass
    tl.store(o_ptr + pid, 1)


@tile.jit
def never_released(lock_ptr):
    while tl.atomic_cas(lock_ptr, 0, 1) == 1:
        pass


@tile.jit
def loops_for_ever(x_ptr):
    x = tl.load(x_ptr)
    while x > 0:
        x = tl.minimum(x, 5)
    tl.store(x_ptr, x)


@pytest.mark.parametrize("chunk", [1, 1 << 21])
def test_a_lock_is_held_by_one_program_at_a_time(chunk: int) -> None:
    lock, count = np.zeros(1, np.int32), np.zeros(1, np.int32)
    seen = np.full(50, -1, np.int32)
    with config.scope(chunk_bytes=chunk):
        locked_increment[(50,)](lock, count, seen)
    assert count[0] == 50
    np.testing.assert_array_equal(np.sort(seen), np.arange(50))


@pytest.mark.parametrize("chunk", [1, 1 << 21])
@pytest.mark.parametrize("backwards", [False, True])
def test_programs_may_wait_for_earlier_and_for_later_ones(chunk: int, backwards: bool) -> None:
    n = 40
    x = np.arange(n, dtype=np.int32)
    out, flag = np.zeros(n, np.int32), np.zeros(n, np.int32)
    with config.scope(chunk_bytes=chunk):
        look_back[(n,)](flag, x, out, n, BACKWARDS=backwards)
    expected = np.cumsum(x[::-1])[::-1] if backwards else np.cumsum(x)
    np.testing.assert_array_equal(out, expected)


def test_tickets_are_served_in_order() -> None:
    log = np.full(30, -1, np.int32)
    take_tickets[(10,)](np.zeros(1, np.int32), np.zeros(1, np.int32), log, 3)
    assert (np.bincount(log, minlength=10) == 3).all()


@pytest.mark.parametrize("chunk", [1, 1 << 21])
def test_a_barrier_over_the_grid_lets_all_pass(chunk: int) -> None:
    n = 20
    x, out = np.zeros(n, np.int32), np.zeros(n, np.int32)
    with config.scope(chunk_bytes=chunk):
        grid_barrier[(n,)](np.zeros(1, np.int32), x, out, n)
    np.testing.assert_array_equal(out, np.roll(np.arange(n) ** 2, -1))


def test_a_wait_that_cannot_end_is_a_deadlock() -> None:
    out = np.zeros(8, np.int32)
    with pytest.raises(DeadlockError) as caught:
        wait_for_nobody[(8,)](np.zeros(8, np.int32), out)
    text = str(caught.value)
    assert "5 of 8 programs of `wait_for_nobody` wait" in text
    assert "program (3, 0, 0) of grid (8, 1, 1)" in text
    assert "while tl.load(flag_ptr + pid, volatile=True) == 0:" in text
    # The others were not held up.
    np.testing.assert_array_equal(out, [1, 1, 1, 0, 0, 0, 0, 0])


def test_a_lock_that_is_never_released_is_a_deadlock() -> None:
    with pytest.raises(DeadlockError, match="3 of 4 programs"):
        never_released[(4,)](np.zeros(1, np.int32))


def test_a_loop_that_changes_nothing_is_a_deadlock() -> None:
    with pytest.raises(DeadlockError, match="1 of 1 programs"):
        loops_for_ever[(1,)](np.ones(1, np.int32))
