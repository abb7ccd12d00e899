"""Happens-before by edges agrees with vector clocks."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tile.backends.interp.sanitizer.happens_before import HappensBefore

PROGRAMS, ADDRESSES = 5, 3

EVENTS = st.lists(
    st.tuples(
        st.integers(0, PROGRAMS - 1),
        st.integers(0, ADDRESSES - 1),
        st.sampled_from([(True, False), (False, True), (True, True), (False, False)]),
    ),
    max_size=40,
)


class Clocks:
    """A reference with vector clocks: one for each program and for each address."""

    def __init__(self) -> None:
        self.program = np.full((PROGRAMS, PROGRAMS), -1)
        self.address = np.full((ADDRESSES, PROGRAMS), -1)

    def step(self, now: int, program: int, address: int, acquires: bool, releases: bool) -> None:
        if acquires:
            self.program[program] = np.maximum(self.program[program], self.address[address])
        if releases:
            mine = self.program[program].copy()
            mine[program] = now
            self.address[address] = np.maximum(self.address[address], mine)


@given(EVENTS)
def test_agrees_with_vector_clocks(events) -> None:
    order, clocks = HappensBefore(PROGRAMS), Clocks()
    times = []
    for program, address, (acquires, releases) in events:
        times.append(order.now)
        order.synchronize(np.array([program]), np.array([address]), acquires, np.array([releases]))
        clocks.step(order.now, program, address, acquires, releases)
    times.append(order.now)
    writers, readers, when = np.array(
        [(w, r, t) for w in range(PROGRAMS) for r in range(PROGRAMS) if w != r for t in times]
    ).T
    ordered = order.happens_before(writers, when, readers)
    np.testing.assert_array_equal(ordered, when < clocks.program[readers, writers])


@pytest.mark.parametrize("programs", [1 << 14])
def test_a_counter_of_many_programs_is_cheap(programs: int) -> None:
    """The last of many programs is ordered after all of them, without quadratic data."""
    order = HappensBefore(programs)
    everybody = np.arange(programs)
    order.synchronize(everybody, np.zeros_like(everybody), True, np.ones(programs, bool))
    last = np.full(programs - 1, programs - 1)
    assert order.happens_before(everybody[:-1], np.zeros(programs - 1, int), last).all()
    assert not order.happens_before(last, np.zeros(programs - 1, int), everybody[:-1]).any()


def test_long_chain_of_edges() -> None:
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
