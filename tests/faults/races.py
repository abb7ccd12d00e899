"""Accesses of two programs, one of which writes, that nothing orders."""

from __future__ import annotations

import warnings

import numpy as np

import tile
import tile.language as tl
from tests.faults.planted import planted

F32, I32 = np.float32, np.int32


def zeros(n, dtype=I32):
    return np.zeros(n, dtype)


@tile.jit
def fill_blocks(o_ptr, step, B: tl.constexpr):
    i = tl.program_id(0) * step + tl.arange(0, B)
    tl.store(o_ptr + i, tl.program_id(0))  # fault


@planted("race", "blocks that overlap", place=("o_ptr", (6,)), other=(1, 0, 0))
def overlapping_blocks(bug):
    fill_blocks[(4,)](zeros(32), 6 if bug else 8, B=8)


@tile.jit
def store_blocks(o_ptr, n, step, B: tl.constexpr):
    boxes = tl.make_tensor_descriptor(o_ptr, [n], [1], [B])
    number = tl.full((B,), 0, tl.int32) + tl.program_id(0)
    boxes.store([tl.program_id(0) * step], number)  # fault


@planted("race", "boxes of a descriptor that overlap", place=("o_ptr", (6,)), other=(1, 0, 0))
def overlapping_stores(bug):
    store_blocks[(4,)](zeros(32), 32, 6 if bug else 8, B=8)


@tile.jit
def sums_of_windows(x_ptr, o_ptr, B: tl.constexpr):
    """Reads two blocks by one load, of which the program writes the first."""
    i = tl.program_id(0) * B + tl.arange(0, 2 * B)
    total = tl.sum(tl.load(x_ptr + i), 0)
    tl.store(o_ptr + tl.program_id(0) * B + tl.arange(0, B), total)  # fault


@planted("race", "windows of one load that overlap", place=("o_ptr", (8,)), other=(0, 0, 0))
def overlapping_windows(bug):
    x = zeros(40)
    sums_of_windows[(4,)](x, x if bug else zeros(40), B=8)


@tile.jit
def zeroed_sums(o_ptr, B: tl.constexpr, BUG: tl.constexpr):
    """Each program clears a part of the sums, to all of which all programs then add."""
    i = tl.arange(0, B)
    if BUG:
        tl.store(o_ptr + tl.program_id(0) * B + i, 0)
    for block in range(4):
        tl.atomic_add(o_ptr + block * B + i, 1)  # fault


@planted("race", "sums that programs clear themselves", place=("o_ptr", (0,)), other=(0, 0, 0))
def cleared_sums(bug):
    zeroed_sums[(4,)](zeros(32), B=8, BUG=bug)


@tile.jit
def everybody(o_ptr, BUG: tl.constexpr):
    if BUG:
        tl.store(o_ptr, 1)  # fault
    else:
        tl.store(o_ptr, 1, mask=tl.program_id(0) == 0)


@planted("race", "all programs write one element", element=(), place=("o_ptr", (0,)))
def everybody_stores(bug):
    everybody[(4,)](zeros(1), BUG=bug)


@tile.jit
def overlapping_halves(o_ptr, N: tl.constexpr, BUG: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(o_ptr + i // 2, i if BUG else i // 2)  # fault


@planted("race", "one store, one address, two values", element=(0,), place=("o_ptr", (0,)))
def two_values(bug):
    overlapping_halves[(1,)](zeros(4), N=8, BUG=bug)


@tile.jit
def count_plainly(o_ptr, BUG: tl.constexpr):
    if BUG:
        tl.store(o_ptr, tl.load(o_ptr) + 1)  # fault
    else:
        tl.atomic_add(o_ptr, 1)


@planted("race", "a counter without atomics", place=("o_ptr", (0,)))
def lost_increment(bug):
    count_plainly[(8,)](zeros(1), BUG=bug)


@tile.jit
def split_k(x_ptr, o_ptr, n, B: tl.constexpr, BUG: tl.constexpr):
    i = tl.arange(0, B)
    part = tl.load(x_ptr + (tl.program_id(0) + tl.program_id(1) * n) * B + i)
    at = o_ptr + tl.program_id(0) * B + i
    if BUG:
        tl.store(at, tl.load(at) + part)  # fault
    else:
        tl.atomic_add(at, part, sem="relaxed")


@planted("race", "parts of a sum added without atomics", element=(0,))
def split_without_atomics(bug):
    split_k[(2, 3)](zeros(48), zeros(16), 2, B=8, BUG=bug)


@tile.jit
def shift_in_place(x_ptr, o_ptr, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    x = tl.load(x_ptr + i + 1, mask=i + 1 < n, other=0)
    tl.store(o_ptr + i, x)  # fault


@planted("race", "shifted in place", program=(1, 0, 0), other=(0, 0, 0), place=("o_ptr", (8,)))
def shifted_in_place(bug):
    x = zeros(32)
    shift_in_place[(4,)](x, x if bug else zeros(32), 32, B=8)


@planted("race", "two names for views that overlap")
def overlapping_views(bug):
    whole = zeros(64)
    shift_in_place[(4,)](whole[:32], whole[8:40] if bug else whole[32:], 32, B=8)


@tile.jit
def add_two(x_ptr, a_ptr, b_ptr, B: tl.constexpr):
    pid = tl.program_id(0)
    i = tl.arange(0, B)
    x = tl.load(x_ptr + pid * B + i)
    if pid == 0:
        tl.store(a_ptr + i, x)
    else:
        tl.store(b_ptr + i, x + 1)  # fault


@planted("race", "two outputs that are one array", place=("b_ptr", (0,)))
def aliasing_outputs(bug):
    a = zeros(8)
    add_two[(2,)](zeros(16), a, a if bug else zeros(8), B=8)


@tile.jit
def locked(lock_ptr, count_ptr, TAKE: tl.constexpr, GIVE: tl.constexpr, EARLY: tl.constexpr):
    while tl.atomic_cas(lock_ptr, 0, 1, sem=TAKE) == 1:
        pass
    seen = tl.load(count_ptr)  # fault
    if EARLY:
        tl.atomic_xchg(lock_ptr, 0, sem=GIVE)
        tl.store(count_ptr, seen + 1)  # fault
    else:
        tl.store(count_ptr, seen + 1)
        tl.atomic_xchg(lock_ptr, 0, sem=GIVE)


def _locked(take, give, early=False):
    lock, count = zeros(1), zeros(1)
    locked[(6,)](lock, count, TAKE=take, GIVE=give, EARLY=early)


@planted("race", "a lock taken by a relaxed operation", place=("count_ptr", (0,)))
def relaxed_lock(bug):
    _locked("relaxed" if bug else "acquire", "release")


@planted("race", "a lock given back by a relaxed operation", place=("count_ptr", (0,)))
def relaxed_unlock(bug):
    _locked("acquire", "relaxed" if bug else "release")


@planted("race", "a lock given back before the store", place=("count_ptr", (0,)))
def early_unlock(bug):
    _locked("acquire", "release", early=bug)


@tile.jit
def two_locks(lock_ptr, count_ptr, BUG: tl.constexpr):
    mine = lock_ptr + tl.program_id(0) % 2 if BUG else lock_ptr
    while tl.atomic_cas(mine, 0, 1) == 1:
        pass
    tl.store(count_ptr, tl.load(count_ptr) + 1)  # fault
    tl.atomic_xchg(mine, 0)


@planted("race", "two locks for one counter", place=("count_ptr", (0,)))
def wrong_lock(bug):
    two_locks[(4,)](zeros(2), zeros(1), BUG=bug)


@tile.jit
def unlocked_by_store(lock_ptr, count_ptr, BUG: tl.constexpr):
    while tl.atomic_cas(lock_ptr, 0, 1) == 1:  # fault
        pass
    tl.store(count_ptr, tl.load(count_ptr) + 1)  # fault
    if BUG:
        tl.store(lock_ptr, 0)  # fault
    else:
        tl.atomic_xchg(lock_ptr, 0)


@planted("race", "a lock given back by a plain store")
def plain_unlock(bug):
    unlocked_by_store[(4,)](zeros(1), zeros(1), BUG=bug)


@tile.jit
def last_sums(x_ptr, part_ptr, next_ptr, o_ptr, n, B: tl.constexpr, N: tl.constexpr,
              SEM: tl.constexpr, LATE: tl.constexpr):  # fmt: skip
    pid = tl.program_id(0)
    part = tl.sum(tl.load(x_ptr + pid * B + tl.arange(0, B)), 0)
    if not LATE:
        tl.store(part_ptr + pid, part)
    before = tl.atomic_add(next_ptr, 1, sem=SEM)
    if LATE:
        tl.store(part_ptr + pid, part)  # fault
    if before == n - 1:
        parts = tl.load(part_ptr + tl.arange(0, N))  # fault
        tl.store(o_ptr, tl.sum(parts, 0))


def _last(sem, late=False):
    last_sums[(8,)](zeros(64), zeros(8), zeros(1), zeros(1), 8, B=8, N=8, SEM=sem, LATE=late)


@planted("race", "the last program adds up, by relaxed tickets")
def relaxed_tickets(bug):
    _last("relaxed" if bug else "acq_rel")


@planted("race", "tickets that acquire, and do not release")
def tickets_without_release(bug):
    _last("acquire" if bug else "acq_rel")


@planted("race", "tickets that release, and do not acquire")
def tickets_without_acquire(bug):
    _last("release" if bug else "acq_rel")


@planted("race", "a part written behind its ticket")
def unordered_part(bug):
    _last("acq_rel", late=bug)


@tile.jit
def look_back(flag_ptr, x_ptr, o_ptr, WAIT: tl.constexpr, TELL: tl.constexpr):
    pid = tl.program_id(0)
    total = tl.load(x_ptr + pid)
    if pid > 0:
        if WAIT != "none":
            while tl.atomic_add(flag_ptr + pid - 1, 0, sem=WAIT) == 0:
                pass
        total += tl.load(o_ptr + pid - 1)  # fault
    tl.store(o_ptr + pid, total)  # fault
    tl.atomic_xchg(flag_ptr + pid, 1, sem=TELL)


def _look_back(wait, tell):
    look_back[(6,)](zeros(6), np.ones(6, I32), zeros(6), WAIT=wait, TELL=tell)


@planted("race", "a reader ahead of its writer in look-back")
def reader_ahead(bug):
    _look_back("none" if bug else "acquire", "release")


@planted("race", "look-back by a relaxed wait")
def relaxed_wait(bug):
    _look_back("relaxed" if bug else "acquire", "release")


@planted("race", "look-back by a relaxed flag")
def relaxed_flag(bug):
    _look_back("acquire", "relaxed" if bug else "release")


@tile.jit
def along_a_tree(flag_ptr, o_ptr, BUG: tl.constexpr):
    """Each waits for its parent, who waited for its own."""
    pid = tl.program_id(0)
    total = 1
    if pid > 0:
        parent = (pid - 1) // 2
        while tl.atomic_add(flag_ptr + parent, 0, sem="acquire") == 0:
            pass
        total += tl.load(o_ptr) + tl.load(o_ptr + (pid - 1 if BUG else parent))  # fault
    tl.store(o_ptr + pid, total)  # fault
    tl.atomic_xchg(flag_ptr + pid, 1, sem="release")


@planted("race", "flags along a tree, and a read of a sibling")
def outside_the_chain(bug):
    along_a_tree[(9,)](zeros(9), zeros(9), BUG=bug)


@tile.jit
def volatile_spin(flag_ptr, o_ptr, BUG: tl.constexpr):
    pid = tl.program_id(0)
    if pid == 0:
        tl.store(o_ptr, 5)
        tl.atomic_xchg(flag_ptr, 1, sem="release")  # fault
    else:
        if BUG:
            while tl.load(flag_ptr, volatile=True) == 0:  # fault
                pass
        else:
            while tl.atomic_add(flag_ptr, 0, sem="acquire") == 0:
                pass
        tl.store(o_ptr + pid, tl.load(o_ptr))


@planted("race", "a wait by volatile loads", place=("flag_ptr", (0,)))
def volatile_wait(bug):
    volatile_spin[(3,)](zeros(1), zeros(3), BUG=bug)


@tile.jit
def mixed(o_ptr, BUG: tl.constexpr):
    pid = tl.program_id(0)
    tl.atomic_add(o_ptr, 1)
    if pid == 3:
        if BUG:
            tl.store(o_ptr + 1, tl.load(o_ptr))  # fault
        else:
            tl.store(o_ptr + 1, tl.atomic_add(o_ptr, 0))


@planted("race", "a plain read beside atomic operations", program=(3, 0, 0))
def plain_read_of_atomics(bug):
    mixed[(4,)](zeros(2), BUG=bug)


@tile.jit
def scoped(o_ptr, SCOPE: tl.constexpr):
    tl.atomic_add(o_ptr, 1, scope=SCOPE)  # fault


@planted("race", "atomic for the program alone", place=("o_ptr", (0,)))
def narrow_scope(bug):
    scoped[(4,)](zeros(1), SCOPE="cta" if bug else "gpu")


@tile.jit
def transpose(x_ptr, o_ptr, n, B: tl.constexpr):
    r = tl.program_id(0) * B + tl.arange(0, B)[:, None]
    c = tl.program_id(1) * B + tl.arange(0, B)[None, :]
    x = tl.load(x_ptr + r * n + c)
    tl.store(o_ptr + c * n + r, x)  # fault


@planted("race", "a transposition in place")
def transposed_in_place(bug):
    x = zeros((16, 16))
    transpose[(2, 2)](x, x if bug else zeros((16, 16)), 16, B=8)


@tile.jit
def smooth(x_ptr, o_ptr, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    x = tl.load(x_ptr + i)
    left = tl.load(x_ptr + i - 1, mask=i > 0, other=0)
    tl.store(o_ptr + i, x + left)  # fault


@planted("race", "a stencil in place", other=(1, 0, 0), program=(0, 0, 0), place=("o_ptr", (7,)))
def stencil_in_place(bug):
    x = zeros(32)
    smooth[(4,)](x, x if bug else zeros(32), 32, B=8)


@tile.jit
def two_axes(o_ptr, n, B: tl.constexpr, BUG: tl.constexpr):
    row = 0 if BUG else tl.program_id(1)
    i = row * n + tl.program_id(0) * B + tl.arange(0, B)
    tl.store(o_ptr + i, tl.program_id(1))  # fault


@planted("race", "an axis of the grid forgotten", other=(0, 2, 0), program=(0, 0, 0))
def forgotten_axis(bug):
    two_axes[(2, 3)](zeros(48), 16, B=8, BUG=bug)


@tile.jit
def grid_barrier(arrived_ptr, x_ptr, o_ptr, n, SEM: tl.constexpr):
    pid = tl.program_id(0)
    tl.store(x_ptr + pid, pid)
    tl.atomic_add(arrived_ptr, 1, sem=SEM)
    while tl.atomic_add(arrived_ptr, 0, sem="acquire") < n:
        pass
    tl.store(o_ptr + pid, tl.load(x_ptr + (pid + 1) % n))  # fault


@planted("race", "a barrier over the grid that releases nothing")
def weak_grid_barrier(bug):
    grid_barrier[(5,)](zeros(1), zeros(5), zeros(5), 5, SEM="relaxed" if bug else "release")


@tile.jit
def column_sums(x_ptr, o_ptr, n, B: tl.constexpr, BUG: tl.constexpr):
    i = tl.arange(0, B)
    x = tl.load(x_ptr + tl.program_id(0) * n + i)
    if BUG:
        tl.store(o_ptr + i, x)  # fault
    else:
        tl.atomic_max(o_ptr + i, x)


@planted("race", "each row writes the same columns", element=(0,))
def shared_columns(bug):
    column_sums[(4,)](zeros((4, 8)), zeros(8), 8, B=8, BUG=bug)


@tile.jit
def plain_spin(flag_ptr, o_ptr, BUG: tl.constexpr):
    pid = tl.program_id(0)
    if pid == 0:
        tl.store(o_ptr, 5)
        tl.atomic_xchg(flag_ptr, 1, sem="release")  # fault
    else:
        if BUG:
            while tl.load(flag_ptr) == 0:  # fault
                pass
        else:
            while tl.atomic_add(flag_ptr, 0, sem="acquire") == 0:
                pass
        tl.store(o_ptr + pid, tl.load(o_ptr))


@planted("race", "a wait by plain loads", place=("flag_ptr", (0,)))
def plain_race(bug):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        plain_spin[(3,)](zeros(1), zeros(3), BUG=bug)


@tile.jit
def counted_plain_spin(flag_ptr, o_ptr, BUG: tl.constexpr):
    pid = tl.program_id(0)
    spins = 0
    if pid == 1:
        tl.atomic_xchg(flag_ptr, 1)  # fault
    elif BUG:
        while tl.load(flag_ptr) == 0:  # fault
            spins += 1
    else:
        while tl.atomic_add(flag_ptr, 0) == 0:
            spins += 1
    tl.store(o_ptr + pid, spins)


@planted("race", "a wait by plain loads that counts", place=("flag_ptr", (0,)))
def counted_plain_wait(bug):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        counted_plain_spin[(2,)](zeros(1), zeros(2), BUG=bug)
