"""Which accesses of different programs are ordered: what each program knows of the others.

Time counts the atomic operations that order anything. A release at some place and a later acquire
at the same place make an edge: whoever acquires knows what the other had done by the time of its
release, and what that one knew by then. All atomics here are read-modify-writes, so an acquire sees
every release that was before it at that place (the release sequence of C++ goes on through them).

Edges are kept as they come, by place and by program; nothing grows with the square of the grid.
What a program knows, as a time for each program, is worked out when two of its accesses meet: along
the edges backwards, newest first, until the question is answered. Kernels in which nothing acquires
have no `Order` at all.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from dataclasses import dataclass, field

import numpy as np

from tile.backends.interp.values import Array

# How many programs' knowledge is kept.
REMEMBERED = 64


def _times() -> array[int]:
    return array("q")


@dataclass
class Releases:
    """The releases at one place, in order of time.

    `foreign` has the positions of those whose programs had acquired at other places before, so that
    more is known through them than this place tells.
    """

    times: array[int] = field(default_factory=_times)
    programs: array[int] = field(default_factory=_times)
    foreign: list[int] = field(default_factory=list)


@dataclass
class Acquires:
    """The acquires of one program: for each place their times, in order."""

    places: dict[int, list[int]] = field(default_factory=dict)
    released: int = -1  # when the program released last


class Knowledge:
    """What a program knows, as far as somebody asked."""

    def __init__(self, programs: int, acquires: Acquires) -> None:
        self.known = np.full(programs, -1, np.int64)  # by program, the last release known of
        self.heard: dict[int, int] = {}  # by place, how many of its releases are in `known`
        self.pending = [(place, times[-1]) for place, times in acquires.places.items()]


class Order:
    """The happens-before relation among the programs of a launch."""

    def __init__(self, programs: int) -> None:
        self.programs = programs
        self.now = 0
        self.releases: dict[int, Releases] = {}
        self.acquires: dict[int, Acquires] = {}
        self._knowledge: dict[int, Knowledge] = {}

    def synchronise(self, programs: Array, places: Array, acquires: bool, releases: Array) -> None:
        """Atomic operations of programs at places, one after the other; who of them releases."""
        for program, place, release in zip(
            programs.tolist(), places.tolist(), releases.tolist(), strict=True
        ):
            self.now += 1
            if acquires:
                self._acquire(program, place)
            if release:
                self._release(program, place)

    def _acquire(self, program: int, place: int) -> None:
        own = self.acquires.setdefault(program, Acquires())
        times = own.places.setdefault(place, [])
        # Nobody can have learnt what was known between this one and the last before it.
        if times and times[-1] > own.released:
            times[-1] = self.now
        else:
            times.append(self.now)
        self._knowledge.pop(program, None)

    def _release(self, program: int, place: int) -> None:
        at = self.releases.setdefault(place, Releases())
        own = self.acquires.get(program)
        if own is not None:
            own.released = self.now
            if len(own.places) > (place in own.places):
                at.foreign.append(len(at.times))
        at.times.append(self.now)
        at.programs.append(program)

    def before(self, programs: Array, times: Array, readers: Array) -> Array:
        """Whether accesses that programs made at some times are known to those that meet them."""
        if (readers == readers[0]).all():
            return self._known_to(int(readers[0]), programs, times)
        result = np.zeros(programs.shape, np.bool_)
        sequence = np.argsort(readers, kind="stable")
        ends = np.flatnonzero(np.diff(readers[sequence])) + 1
        for mine in np.split(sequence, ends):
            result[mine] = self._known_to(int(readers[mine[0]]), programs[mine], times[mine])
        return result

    def _known_to(self, reader: int, programs: Array, times: Array) -> Array:
        acquires = self.acquires.get(reader)
        if acquires is None:
            return np.zeros(programs.shape, np.bool_)
        knowledge = self._knowledge.get(reader)
        if knowledge is None:
            if len(self._knowledge) >= REMEMBERED:
                self._knowledge.clear()
            knowledge = self._knowledge[reader] = Knowledge(self.programs, acquires)
        while True:
            result: Array = times < knowledge.known[programs]
            if not knowledge.pending or result.all():
                return result
            self._learn(knowledge)

    def _learn(self, knowledge: Knowledge) -> None:
        """Follow one edge: take in what was released at a place before some time."""
        place, time = knowledge.pending.pop()
        releases = self.releases.get(place)
        if releases is None:
            return
        first, last = knowledge.heard.get(place, 0), bisect_left(releases.times, time)
        if last <= first:
            return
        knowledge.heard[place] = last
        who = np.frombuffer(releases.programs[first:last], np.int64)
        np.maximum.at(knowledge.known, who, np.frombuffer(releases.times[first:last], np.int64))
        oldest, newest = (bisect_left(releases.foreign, position) for position in (first, last))
        for position in releases.foreign[oldest:newest]:
            self._follow(knowledge, releases.programs[position], releases.times[position], place)

    def _follow(self, knowledge: Knowledge, program: int, released: int, place: int) -> None:
        """Go on to what a program had acquired elsewhere by the time of its release."""
        for further, times in self.acquires[program].places.items():
            at = bisect_right(times, released)
            if at and further != place:
                knowledge.pending.append((further, times[at - 1]))
