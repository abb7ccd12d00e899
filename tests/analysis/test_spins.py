"""Waits by plain loads are told from loops that read what does not change."""

from __future__ import annotations

import linecache
import warnings
from typing import Any

import pytest

import tile
import tile.language as tl


@tile.jit
def flag(lock, n, o):
    while tl.load(lock) == 0:  # warned
        pass
    tl.store(o, 1)


@tile.jit
def truth(lock, n, o):
    while tl.load(lock):  # warned
        pass
    tl.store(o, 1)


@tile.jit
def carried_load(lock, n, o):
    x = tl.load(lock)
    while x == 0:  # warned
        x = tl.load(lock)
    tl.store(o, x)


@tile.jit
def left_by_break(lock, n, o):
    while True:  # warned
        if tl.load(lock + n) != 0:
            break
    tl.store(o, 1)


@tile.jit
def bounded(lock, n, o):
    t = 0
    while tl.load(lock) == 0 and t < n:  # warned
        t += 1
    tl.store(o, t)


@tile.jit
def counted(lock, n, o):
    t = 0
    for i in range(n):  # warned
        t = i
        if tl.load(lock) != 0:
            break
    tl.store(o, t)


@tile.jit
def several_flags(lock, n, o):
    while tl.sum(tl.load(lock + tl.arange(0, 8))) != 8:  # warned
        pass
    tl.store(o, 1)


@tile.jit
def with_work(lock, n, o):
    t = 0
    while tl.load(lock) < tl.load(lock + 1):  # warned
        t += tl.atomic_add(o, 1)
    tl.store(o, t)


@tile.jit
def is_set(lock):
    return tl.load(lock) != 0


@tile.jit
def called(lock, n, o):
    while not is_set(lock):  # warned
        pass
    tl.store(o, 1)


WAITS = (
    flag,
    truth,
    carried_load,
    left_by_break,
    bounded,
    counted,
    several_flags,
    with_work,
    called,
)


@tile.jit
def volatile(lock, n, o):
    while tl.load(lock, volatile=True) == 0:
        pass
    tl.store(o, 1)


@tile.jit
def uncached(lock, n, o):
    while tl.load(lock, cache_modifier=".cv") == 0:
        pass
    tl.store(o, 1)


@tile.jit
def atomic(lock, n, o):
    while tl.atomic_add(lock, 0) == 0:
        pass
    tl.store(o, 1)


@tile.jit
def bound(lock, n, o):
    i = 0
    while i < tl.load(lock):
        tl.store(o + i, i)
        i += 1


@tile.jit
def search(lock, n, o):
    i = 0
    while tl.load(lock + i) != n:
        i += 1
    tl.store(o, i)


@tile.jit
def bisection(lock, n, o):
    low, high = 0, n
    while low < high:
        middle = (low + high) // 2
        if tl.load(lock + middle) < n:
            low = middle + 1
        else:
            high = middle
    tl.store(o, low)


@tile.jit
def own_work(lock, n, o):
    while tl.load(lock) > 0:
        tl.store(lock, tl.load(lock) - 1)


@tile.jit
def mode(lock, n, o):
    x = n
    while x < 100:
        if tl.load(lock) == 1:
            x += 1
        else:
            x += 2
    tl.store(o, x)


OTHERS = (volatile, uncached, atomic, bound, search, bisection, own_work, mode)
SIGNATURE = {"lock": "*i32", "n": "i32", "o": "*i32"}


def compiled(kernel: Any) -> list[warnings.WarningMessage]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        tile.compile(kernel, SIGNATURE, target="interp")
    return caught


@pytest.mark.parametrize("kernel", WAITS, ids=lambda kernel: kernel.__name__)
def test_a_wait_by_a_plain_load_is_warned_of_at_its_line(kernel: Any) -> None:
    (warning,) = compiled(kernel)
    assert "# warned" in linecache.getline(warning.filename, warning.lineno)
    assert "volatile=True" in str(warning.message) and "atomic" in str(warning.message)


@pytest.mark.parametrize("kernel", OTHERS, ids=lambda kernel: kernel.__name__)
def test_other_loops_are_not_warned_of(kernel: Any) -> None:
    assert compiled(kernel) == []
