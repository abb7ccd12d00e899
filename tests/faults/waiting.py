"""Waits that nobody can end."""

from __future__ import annotations

import numpy as np

import tile
import tile.language as tl
from tests.faults.planted import planted


def zeros(n):
    return np.zeros(n, np.int32)


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
def ring(bug):
    chain[(4,)](zeros(4), BUG=bug)


@tile.jit
def tickets(turn_ptr, BUG: tl.constexpr):
    pid = tl.program_id(0)
    while tl.atomic_add(turn_ptr, 0) != pid:  # fault
        pass
    tl.atomic_add(turn_ptr, 2 if BUG else 1)


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
