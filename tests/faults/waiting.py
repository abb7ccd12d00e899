"""Waits that nobody can end."""

from __future__ import annotations

import warnings

import numpy as np

import tile
import tile.language as tl
from tests.faults.planted import planted


def zeros(n):
    return np.zeros(n, np.int32)


def unwarned(launch, *args, **constants):
    """Launch a kernel that waits by a plain load, of which the compiler warns."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        launch(*args, **constants)


@tile.jit
def locked(lock_ptr, count_ptr, BUG: tl.constexpr):
    while tl.atomic_cas(lock_ptr, 0, 1) == 1:  # fault
        pass
    tl.store(count_ptr, tl.load(count_ptr) + 1)
    if not BUG:
        tl.atomic_xchg(lock_ptr, 0)


@planted("deadlock", "a lock that is never given back", program=(1, 0, 0))
def lost_release(bug):
    locked[(4,)](zeros(1), zeros(1), BUG=bug)


@tile.jit
def barrier(arrived_ptr, n):
    tl.atomic_add(arrived_ptr, 1)
    while tl.atomic_add(arrived_ptr, 0) < n:  # fault
        pass


@planted("deadlock", "a barrier for one program too many", program=(0, 0, 0))
def barrier_of_too_many(bug):
    barrier[(4,)](zeros(1), 4 + bug)


@tile.jit
def chain(flag_ptr, BUG: tl.constexpr):
    pid = tl.program_id(0)
    first = 0 if not BUG else -1
    if pid > first:
        while tl.atomic_add(flag_ptr + (pid + 3) % 4, 0) == 0:  # fault
            pass
    tl.atomic_xchg(flag_ptr + pid, 1)


@planted("deadlock", "a ring in which each waits for another")
def cycle(bug):
    chain[(4,)](zeros(4), BUG=bug)


@tile.jit
def tickets(ticket_ptr, BUG: tl.constexpr):
    pid = tl.program_id(0)
    while tl.atomic_add(ticket_ptr, 0) != pid:  # fault
        pass
    tl.atomic_add(ticket_ptr, 2 if BUG else 1)


@planted("deadlock", "a ticket that is skipped")
def skipped_ticket(bug):
    tickets[(4,)](zeros(1), BUG=bug)


@tile.jit
def unlock_another(lock_ptr, BUG: tl.constexpr):
    while tl.atomic_cas(lock_ptr, 0, 1) == 1:  # fault
        pass
    tl.atomic_xchg(lock_ptr + (1 if BUG else 0), 0)


@planted("deadlock", "another lock is given back")
def wrong_unlock(bug):
    unlock_another[(3,)](zeros(2), BUG=bug)


@tile.jit
def plain_flag(flag_ptr, o_ptr):
    while tl.load(flag_ptr) == 0:  # fault
        pass
    tl.store(o_ptr + tl.program_id(0), 1)


@planted("deadlock", "a plain load of a flag that nobody sets", program=(0, 0, 0))
def plain_wait(bug):
    unwarned(plain_flag[(2,)], zeros(1) if bug else zeros(1) + 1, zeros(2))


@tile.jit
def parameter_loop(o_ptr, n):
    while n > 0:  # fault
        pass
    tl.store(o_ptr, 1)


@planted("deadlock", "a loop on a parameter", program=(0, 0, 0))
def loop_on_a_parameter(bug):
    parameter_loop[(1,)](zeros(1), 3 if bug else -3)


@tile.jit
def growing(o_ptr, n, BUG: tl.constexpr):
    k = 0 if BUG else 1
    while k < n:  # fault
        k = k * (1 if BUG else 2)
    tl.store(o_ptr, k)


@planted("deadlock", "a factor of 1", program=(0, 0, 0))
def multiplied_by_one(bug):
    growing[(1,)](zeros(1), 100, BUG=bug)


@tile.jit
def unused_result(n, BUG: tl.constexpr):
    k = 0
    while k < n:  # fault
        k = k * 1 if BUG else k + 1
    return k


@tile.jit
def ignores_a_result(o_ptr, n, BUG: tl.constexpr):
    unused_result(n, BUG)
    tl.store(o_ptr, 1)


@planted("deadlock", "a loop whose result nobody uses", program=(0, 0, 0))
def loop_without_a_user(bug):
    ignores_a_result[(1,)](zeros(1), 100, BUG=bug)


@tile.jit
def flag_in_a_branch(flag_ptr, o_ptr):
    if tl.program_id(0) == 1:
        while tl.atomic_add(flag_ptr, 0) == 0:  # fault
            pass
    tl.store(o_ptr + tl.program_id(0), 1)


@planted("deadlock", "a wait in a branch that does nothing else", program=(1, 0, 0))
def wait_in_a_branch(bug):
    flag_in_a_branch[(3,)](zeros(1) if bug else zeros(1) + 1, zeros(3))


@tile.jit
def alternates(o_ptr, n):
    k = 0
    while k != n:  # fault
        k = 1 - k
    tl.store(o_ptr, k)


@planted("deadlock", "a loop that goes back and forth", program=(0, 0, 0))
def back_and_forth(bug):
    alternates[(1,)](zeros(1), 3 if bug else 1)


@tile.jit
def counted_lock(lock_ptr, count_ptr, spins_ptr, BUG: tl.constexpr):
    spins = 0
    while tl.atomic_cas(lock_ptr, 0, 1) != 0:  # fault
        spins += 1
    tl.store(count_ptr, tl.load(count_ptr) + 1)
    if not BUG:
        tl.atomic_xchg(lock_ptr, 0)
    tl.store(spins_ptr + tl.program_id(0), spins)


@planted("deadlock", "a lost release, and a count of spins", program=(1, 0, 0))
def counted_lost_release(bug):
    counted_lock[(4,)](zeros(1), zeros(1), zeros(4), BUG=bug)


@tile.jit
def bounded_lock(lock_ptr, o_ptr, most, BUG: tl.constexpr):
    spins = 0
    while tl.atomic_cas(lock_ptr, 0, 1) != 0 and (BUG or spins < most):  # fault
        spins += 1
    tl.store(o_ptr + tl.program_id(0), spins)


@planted("deadlock", "a bound of spins that is not looked at")
def forgotten_bound(bug):
    bounded_lock[(3,)](zeros(1), zeros(3), 500, BUG=bug)


@tile.jit
def backing_off(lock_ptr, o_ptr, BUG: tl.constexpr):
    delay = 1
    done = 0
    while tl.atomic_cas(lock_ptr, 0, 1) != 0:  # fault
        for i in range(delay):
            done += i
        delay = tl.minimum(delay * 2, 32)
    if not BUG:
        tl.atomic_xchg(lock_ptr, 0)
    tl.store(o_ptr + tl.program_id(0), done)


@planted("deadlock", "back-off from a lock that is never given back", program=(1, 0, 0))
def back_off(bug):
    backing_off[(5,)](zeros(1), zeros(5), BUG=bug)


@tile.jit
def counted_in_memory(lock_ptr, spins_ptr, BUG: tl.constexpr):
    while tl.atomic_cas(lock_ptr, 0, 1) != 0:  # fault
        tl.atomic_add(spins_ptr, 1)
    if not BUG:
        tl.atomic_xchg(lock_ptr, 0)


@planted("deadlock", "a lost release, and spins counted in memory", program=(1, 0, 0))
def counted_in_memory_for_ever(bug):
    counted_in_memory[(4,)](zeros(1), zeros(1), BUG=bug)


@planted("deadlock", "spins counted beside their lock", program=(1, 0, 0))
def counted_outside_the_lock(bug):
    both = zeros(2)
    counted_in_memory[(4,)](both[:1], both[1:], BUG=bug)


@tile.jit
def stored_progress(flag_ptr, o_ptr, BUG: tl.constexpr):
    pid = tl.program_id(0)
    if pid == 1:
        spins = 0
        while tl.atomic_add(flag_ptr, 0) == 0:  # fault
            spins += 1
            tl.store(o_ptr, spins)
    elif not BUG:
        tl.atomic_xchg(flag_ptr, 1)


@planted("deadlock", "a wait that stores how long it took", program=(1, 0, 0))
def stores_how_long(bug):
    stored_progress[(3,)](zeros(1), zeros(1), BUG=bug)
