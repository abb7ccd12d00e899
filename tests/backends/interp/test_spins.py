"""Spin loops that run forever are reported, whatever else they carry; those that end, end."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tile
import tile.language as tl
from tests.sampling import is_nightly
from tile.config import config
from tile.errors import DeadlockError, DeviceAssertionError

LEVELS = ["tile", "thread"]


def zeros(n: int = 1) -> Any:
    return np.zeros(n, np.int32)


@pytest.fixture(params=LEVELS)
def level(request: pytest.FixtureRequest) -> Any:
    with config.scope(interp_level=request.param):
        yield request.param


# -- loops that never end; the last argument is memory to write to


@tile.jit
def plain_flag(lock, n, o):
    while tl.load(lock) == 0:  # fault
        pass
    tl.store(o, 1)


@tile.jit
def volatile_flag(lock, n, o):
    while tl.load(lock, volatile=True) == 0:  # fault
        pass
    tl.store(o, 1)


@tile.jit
def polls(lock, n, o):
    tl.atomic_poll(lock + tl.arange(0, 2), n)  # fault
    tl.store(o, 1)


@tile.jit
def parameter(lock, n, o):
    while n > 0:  # fault
        pass
    tl.store(o, 1)


@tile.jit
def times_one(lock, n, o):
    k = 0
    while k < n:  # fault
        k = k * 1
    tl.store(o, 1)


@tile.jit
def in_a_branch(lock, n, o):
    if n > 1:
        while n > 0:  # fault
            pass
    tl.store(o, 1)


@tile.jit
def waits_for(n):
    k = 0
    while k < n:  # fault
        k = k * 1
    return k


@tile.jit(noinline=True)
def waits_apart(n):
    k = 0
    while k < n:  # fault
        k = k * 1
    return k


@tile.jit
def calls(lock, n, o):
    waits_for(n)
    tl.store(o, 1)


@tile.jit
def calls_noinline(lock, n, o):
    waits_apart(n)
    tl.store(o, 1)


@tile.jit
def left_by_break(lock, n, o):
    while True:  # fault
        if n == 0:
            break
    tl.store(o, 1)


@tile.jit
def left_by_return(lock, n, o):
    while True:  # fault
        if n == 0:
            return
    tl.store(o, 1)


@tile.jit
def inside_a_counted_loop(lock, n, o):
    for _ in range(n):
        while n > 0:  # fault
            pass
    tl.store(o, 1)


@tile.jit
def step_past_the_bound(lock, n, o):
    k = n - n
    while k != n * 2 + 1:  # fault
        k = (k + 2) % 64
    tl.store(o, 1)


@tile.jit
def back_and_forth(lock, n, o):
    k = 0
    while k != n:  # fault
        k = 1 - k
    tl.store(o, 1)


@tile.jit
def counts_while_waiting(lock, n, o):
    t = 0
    while tl.load(lock, volatile=True) == 0:  # fault
        t += 1
    tl.store(o, t)


@tile.jit
def lock_with_counter(lock, n, o):
    t = 0
    tl.atomic_xchg(lock, 1)
    while tl.atomic_cas(lock, 0, 1) != 0:  # fault
        t += 1
    tl.store(o, t)


@tile.jit
def counter_without_memory(lock, n, o):
    t = 0
    while n > 0:  # fault
        t += 1
    tl.store(o, t)


@tile.jit
def doubled_back_off(lock, n, o):
    delay = 1
    total = 0
    tl.atomic_xchg(lock, 1)
    while tl.atomic_cas(lock, 0, 1) != 0:  # fault
        for i in range(delay):
            total += i
        delay = tl.minimum(delay * 2, 16)
    tl.store(o, total)


@tile.jit
def statistics(lock, n, o):
    tl.atomic_xchg(lock, 1)
    while tl.atomic_cas(lock, 0, 1) != 0:  # fault
        tl.atomic_add(o, 1)


@tile.jit
def statistics_outside_the_lock(lock, n, o):
    tl.atomic_xchg(lock, 1)
    seen = 0
    while tl.atomic_cas(lock, 0, 1) != 0:  # fault
        seen += tl.atomic_add(lock + 1, 1)
    tl.store(o, seen)


@tile.jit
def stores_its_counter(lock, n, o):
    t = 0
    while tl.load(lock, volatile=True) == 0:  # fault
        t += 1
        tl.store(lock + 1, t)


@tile.jit
def exchanges(lock, n, o):
    t = 0
    while tl.atomic_xchg(lock, 1) != 2:  # fault
        t += 1
    tl.store(o, t)


@tile.jit
def retries(lock, n, o):
    tries = 0
    done = False
    tl.atomic_xchg(lock, 1)
    while not done:  # fault
        spins = 0
        while tl.atomic_cas(lock, 0, 1) != 0 and spins < 5:
            spins += 1
        done = spins < 5
        tries += 1
    tl.store(o, tries)


FOREVER = (
    plain_flag,
    volatile_flag,
    polls,
    parameter,
    times_one,
    in_a_branch,
    calls,
    calls_noinline,
    left_by_break,
    left_by_return,
    inside_a_counted_loop,
    step_past_the_bound,
    back_and_forth,
    counts_while_waiting,
    lock_with_counter,
    counter_without_memory,
    doubled_back_off,
    statistics,
    statistics_outside_the_lock,
    stores_its_counter,
    exchanges,
    retries,
)


@pytest.mark.filterwarnings("ignore:a GPU")
@pytest.mark.parametrize("kernel", FOREVER, ids=lambda kernel: kernel.__name__)
@pytest.mark.parametrize("programs", [1, 3])
def test_spin_loop_is_a_deadlock_at_its_line(kernel: Any, programs: int, level: str) -> None:
    with pytest.raises(DeadlockError) as caught:
        kernel[(programs,)](zeros(2), 3, zeros())
    assert "# fault" in str(caught.value)


def test_printing_is_no_progress(capsys: Any, level: str) -> None:
    with pytest.raises(DeadlockError, match="1 of 1 programs"):
        prints_while_waiting[(1,)](zeros())
    assert len(capsys.readouterr().out.splitlines()) < 200


@tile.jit
def prints_while_waiting(lock):
    t = 0
    while tl.load(lock, volatile=True) == 0:
        tl.device_print("waiting", t)
        t += 1


# -- loops that end


@tile.jit
def bounded(lock, o):
    t = 0
    while tl.atomic_cas(lock, 0, 1) != 0 and t < 1000:
        t += 1
    tl.store(o, t)


@tile.jit
def bounded_by_break(lock, o):
    t = 0
    while tl.load(lock, volatile=True) != 0:
        t += 1
        if t == 1000:
            break
    tl.store(o, t)


@tile.jit
def bounded_in_memory(lock, o):
    t = 0
    while tl.load(lock, volatile=True) != 0:
        t += 1
        if tl.atomic_add(o, 1) == 999:
            break
    tl.store(o, t)


@tile.jit
def steals_the_lock(lock, o):
    """The lock is taken from whoever holds it after a while."""
    t = 0
    while tl.atomic_cas(lock, 0, 1) != 0:
        t += 1
        if t == 1000:
            tl.atomic_xchg(lock, 0)
    tl.store(o, t)


@tile.jit
def stores_what_it_waits_for(lock, o):
    t = 0
    while tl.load(lock, volatile=True) != 3000:
        t += 1
        tl.store(lock, 1 + t // 1000 * 2999 // 1)
        if t == 1000:
            tl.store(lock, 3000)
    tl.store(o, t)


@tile.jit
def stores_rarely_what_it_waits_for(lock, o):
    t = 0
    while tl.load(lock, volatile=True) != 2:
        t += 1
        tl.store(lock, 1 + t // 1000)
    tl.store(o, t)


ENDING = (
    bounded,
    bounded_by_break,
    bounded_in_memory,
    steals_the_lock,
    stores_what_it_waits_for,
    stores_rarely_what_it_waits_for,
)


@pytest.mark.parametrize("kernel", ENDING, ids=lambda kernel: kernel.__name__)
def test_a_bounded_wait_ends(kernel: Any, level: str) -> None:
    out = zeros()
    kernel[(1,)](np.ones(1, np.int32), out)
    assert out[0] == 1000


@tile.jit
def watched(lock):
    t = 0
    while tl.load(lock, volatile=True) == 0:
        t += 1
        tl.device_assert(t < 500, "stuck")


def test_an_assertion_ends_a_wait(level: str) -> None:
    with pytest.raises(DeviceAssertionError, match="stuck"):
        watched[(1,)](zeros())


@tile.jit
def through_two_names(lock, same, o):
    """Both are one array, so the loop ends by what it stores."""
    t = 0
    while tl.load(lock, volatile=True) != 2:
        t += 1
        tl.store(same, 1 + t // 300)
    tl.store(o, t)


def test_a_loop_may_end_by_what_it_stores_under_another_name(level: str) -> None:
    flag, out = zeros(4), zeros()
    through_two_names[(1,)](flag[1:], flag[1:3], out)
    assert out[0] == 300


@tile.jit
def locked_with_back_off(lock, count, stat, rounds, STAT: tl.constexpr):
    for _ in range(rounds):
        t = 0
        delay = 1
        total = 0
        while tl.atomic_cas(lock, 0, 1) != 0:
            t += 1
            for i in range(delay):
                total += i
            delay = tl.minimum(delay * 2, 16)
            if STAT:
                tl.atomic_add(stat, 1, sem="relaxed")
        tl.store(count, tl.load(count) + 1)
        tl.atomic_xchg(lock, 0)
        tl.store(stat + 1 + tl.program_id(0), t + total)


@pytest.mark.parametrize("chunk", [1, 1 << 21])
@pytest.mark.parametrize("stat", [False, True])
def test_back_off_waits_for_a_lock_that_is_released(chunk: int, stat: bool, level: str) -> None:
    count = zeros()
    with config.scope(chunk_bytes=chunk):
        locked_with_back_off[(12,)](zeros(), count, zeros(13), 3, STAT=stat)
    assert count[0] == 36


@tile.jit
def pair(lock, stat, BUG: tl.constexpr):
    """Two programs wait for each other, and count how long."""
    pid = tl.program_id(0)
    if not BUG:
        tl.atomic_xchg(lock + pid, 1)
    while tl.atomic_add(lock + 1 - pid, 0) == 0:
        tl.atomic_add(stat, 1)
    if BUG:
        tl.atomic_xchg(lock + pid, 1)


@pytest.mark.parametrize("chunk", [1, 1 << 21])
def test_two_waiting_programs_are_a_deadlock(chunk: int, level: str) -> None:
    with config.scope(chunk_bytes=chunk):
        pair[(2,)](zeros(2), zeros(), BUG=False)
        with pytest.raises(DeadlockError, match="2 of 2 programs"):
            pair[(2,)](zeros(2), zeros(), BUG=True)


@tile.jit
def heartbeat(lock, beats, n, STORE: tl.constexpr):
    """Program 0 counts while it waits, and program 1 waits for that count."""
    if tl.program_id(0) == 0:
        t = 0
        while tl.atomic_add(lock, 0) == 0:
            t += 1
            if STORE:
                tl.atomic_xchg(beats, t)
            else:
                tl.atomic_add(beats, 1)
    else:
        k = 0
        while tl.atomic_add(beats, 0) < n:
            k += 1
        tl.atomic_xchg(lock, 1)


@pytest.mark.parametrize("chunk", [1, 1 << 21])
@pytest.mark.parametrize("store", [False, True])
def test_a_wait_may_be_for_what_a_waiting_program_writes(
    chunk: int, store: bool, level: str
) -> None:
    beats, lock = zeros(), zeros()
    with config.scope(chunk_bytes=chunk):
        heartbeat[(2,)](lock, beats, 1000, STORE=store)
    assert beats[0] >= 1000 and lock[0] == 1


@tile.jit
def timed_heartbeat(lock, beats, n):
    """As `heartbeat`; program 1 waits no longer than a time."""
    if tl.program_id(0) == 0:
        while tl.atomic_add(lock, 0) == 0:
            tl.atomic_add(beats, 1)
    else:
        start = tl.extra.cuda.globaltimer()
        while tl.atomic_add(beats, 0) < n and tl.extra.cuda.globaltimer() - start < 60_000_000_000:
            pass
        tl.atomic_xchg(lock, tl.atomic_add(beats, 0))


def test_a_wait_with_a_time_limit_is_served_too(level: str) -> None:
    lock = zeros()
    count = 200 if is_nightly() else 50
    timed_heartbeat[(2,)](lock, zeros(), count)
    assert lock[0] >= count


@tile.jit
def waits_for_another_value(lock, beats):
    """Program 0 writes ones; program 1 waits for a two."""
    if tl.program_id(0) == 0:
        while tl.atomic_add(lock, 0) == 0:
            tl.atomic_xchg(beats, 1)
    else:
        while tl.atomic_add(beats, 0) != 2:
            pass
        tl.atomic_xchg(lock, 1)


@pytest.mark.parametrize("chunk", [1, 1 << 21])
def test_writing_the_same_value_again_serves_no_wait(chunk: int, level: str) -> None:
    with config.scope(chunk_bytes=chunk), pytest.raises(DeadlockError, match="2 of 2 programs"):
        waits_for_another_value[(2,)](zeros(), zeros())


@tile.jit
def dead_loops(n, o):
    for i in range(n):
        if i * i == 1000003:
            break
    k = n
    while k > 0:
        k -= 1
    tl.store(o, 1)


def test_loops_that_are_proven_to_end_are_removed() -> None:
    kernel = tile.compile(dead_loops, {"n": "i32", "o": "*i32"}, target="interp")
    assert "while" not in str(kernel.asm["tile-optimized"])
