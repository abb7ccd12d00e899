"""Happens-before by edges says what vector clocks say."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tile.backends.interp.checks.order import HappensBefore

PROGRAMS, PLACES = 5, 3

EVENTS = st.lists(
    st.tuples(
        st.integers(0, PROGRAMS - 1),
        st.integers(0, PLACES - 1),
        st.sampled_from([(True, False), (False, True), (True, True), (False, False)]),
    ),
    max_size=40,
)


class Clocks:
    """The same, by vector clocks: a clock for each program and for each place."""

    def __init__(self) -> None:
        self.program = np.full((PROGRAMS, PROGRAMS), -1)
        self.place = np.full((PLACES, PROGRAMS), -1)

    def step(self, now: int, program: int, place: int, acquires: bool, releases: bool) -> None:
        if acquires:
            self.program[program] = np.maximum(self.program[program], self.place[place])
        if releases:
            mine = self.program[program].copy()
            mine[program] = now
            self.place[place] = np.maximum(self.place[place], mine)


@given(EVENTS)
def test_edges_say_what_clocks_say(events) -> None:
    order, clocks = HappensBefore(PROGRAMS), Clocks()
    times = []
    for program, place, (acquires, releases) in events:
        times.append(order.now)
        order.synchronize(np.array([program]), np.array([place]), acquires, np.array([releases]))
        clocks.step(order.now, program, place, acquires, releases)
    times.append(order.now)
    writers, readers, when = np.array(
        [(w, r, t) for w in range(PROGRAMS) for r in range(PROGRAMS) if w != r for t in times]
    ).T
    found = order.happens_before(writers, when, readers)
    np.testing.assert_array_equal(found, when < clocks.program[readers, writers])


@pytest.mark.parametrize("programs", [1 << 14])
def test_a_counter_of_many_programs_is_cheap(programs: int) -> None:
    """The last of many knows all of them, and nobody had to remember who knew what."""
    order = HappensBefore(programs)
    everybody = np.arange(programs)
    order.synchronize(everybody, np.zeros_like(everybody), True, np.ones(programs, bool))
    last = np.full(programs - 1, programs - 1)
    assert order.happens_before(everybody[:-1], np.zeros(programs - 1, int), last).all()
    assert not order.happens_before(last, np.zeros(programs - 1, int), everybody[:-1]).any()


def test_a_long_chain_is_followed_as_far_as_asked() -> None:
    programs = 2000
    order = HappensBefore(programs)
    for program in range(programs):
        if program:
            order.synchronize(np.array([program]), np.array([program - 1]), True, np.zeros(1, bool))
        order.synchronize(np.array([program]), np.array([program]), False, np.ones(1, bool))
        if program:
            assert order.happens_before(
                np.array([program - 1]), np.zeros(1, int), np.array([program])
            )[0]
    first, last = np.zeros(1, int), np.array([programs - 1])
    assert order.happens_before(first, np.zeros(1, int), last)[0]
    assert not order.happens_before(last, np.zeros(1, int), first)[0]
