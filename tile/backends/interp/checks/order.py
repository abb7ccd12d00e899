"""Which accesses of different programs are ordered: what each program knows of the others.

Time counts the atomic operations that order anything. A release at some place and a later acquire
at the same place make an edge: whoever acquires knows what the other had done by the time of its
release, and what that one knew by then. All atomics here are read-modify-writes, so an acquire sees
every release that was before it at that place (the release sequence of C++ goes on through them).

Edges are kept as they come, by place and by program; nothing grows with the square of the grid.
What a program knows, as a time for each program, is worked out when two of its accesses meet, and
kept until it acquires again. Kernels in which nothing acquires have no `Order` at all.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass, field

import numpy as np

from tile.backends.interp.values import Array

# How many programs' knowledge is kept.
REMEMBERED = 64


@dataclass
class Releases:
    """The releases at one place, in order of time."""

    times: list[int] = field(default_factory=list)
    programs: list[int] = field(default_factory=list)


@dataclass
class Acquires:
    """The acquires of one program: for each place their times, in order."""

    places: dict[int, list[int]] = field(default_factory=dict)
    released: int = -1  # when the program released last


class Order:
    """The happens-before relation among the programs of a launch."""

    def __init__(self, programs: int) -> None:
        self.programs = programs
        self.now = 0
        self.releases: dict[int, Releases] = {}
        self.acquires: dict[int, Acquires] = {}
        self._known: dict[int, Array] = {}

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
        self._known.pop(program, None)

    def _release(self, program: int, place: int) -> None:
        at = self.releases.setdefault(place, Releases())
        at.times.append(self.now)
        at.programs.append(program)
        own = self.acquires.get(program)
        if own is not None:
            own.released = self.now

    def before(self, programs: Array, times: Array, readers: Array) -> Array:
        """Whether accesses that programs made at some times are known to those that meet them."""
        result = np.zeros(programs.shape, np.bool_)
        for reader in np.unique(readers):
            mine = readers == reader
            known = self._knowledge(int(reader))
            if known is not None:
                result[mine] = times[mine] < known[programs[mine]]
        return result

    def _knowledge(self, program: int) -> Array | None:
        """For each program, the time of its last release that `program` knows of, or -1."""
        if program not in self.acquires:
            return None
        known = self._known.get(program)
        if known is None:
            if len(self._known) >= REMEMBERED:
                self._known.clear()
            known = self._known[program] = self._learn(program)
        return known

    def _learn(self, program: int) -> Array:
        known = np.full(self.programs, -1, np.int64)
        heard: dict[int, int] = {}  # by place, how many of its releases are known
        pending = [(place, times[-1]) for place, times in self._places(program)]
        while pending:
            place, time = pending.pop()
            releases = self.releases.get(place)
            if releases is None:
                continue
            first, last = heard.get(place, 0), bisect_left(releases.times, time)
            if last <= first:
                continue
            heard[place] = last
            newest: dict[int, int] = {}
            for index in range(first, last):
                newest[releases.programs[index]] = releases.times[index]
            for other, released in newest.items():
                if released <= known[other]:
                    continue
                known[other] = released
                for further, times in self._places(other):
                    at = bisect_right(times, released)
                    if at:
                        pending.append((further, times[at - 1]))
        return known

    def _places(self, program: int) -> list[tuple[int, list[int]]]:
        own = self.acquires.get(program)
        return [] if own is None else list(own.places.items())
