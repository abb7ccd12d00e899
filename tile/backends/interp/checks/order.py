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
MAX_CACHED_VIEWS = 64


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
    chained: list[int] = field(default_factory=list)


@dataclass
class Acquires:
    """The acquires of one program: for each place their times, in order."""

    addresses: dict[int, list[int]] = field(default_factory=dict)
    released: int = -1  # when the program released last


class VectorView:
    """What a program knows, as far as somebody asked."""

    def __init__(self, programs: int, acquires: Acquires) -> None:
        self.clock = np.full(programs, -1, np.int64)  # by program, the last release known of
        self.releases_seen: dict[int, int] = {}  # by place, how many of its releases are in `known`
        self.pending = [(address, times[-1]) for address, times in acquires.addresses.items()]


class HappensBefore:
    """The happens-before relation among the programs of a launch."""

    def __init__(self, programs: int) -> None:
        self.programs = programs
        self.now = 0
        self.releases: dict[int, Releases] = {}
        self.acquires: dict[int, Acquires] = {}
        self._views: dict[int, VectorView] = {}

    def synchronize(
        self, programs: Array, addresses: Array, acquires: bool, releases: Array
    ) -> None:
        """Atomic operations of programs at places, one after the other; who of them releases."""
        for program, address, release in zip(
            programs.tolist(), addresses.tolist(), releases.tolist(), strict=True
        ):
            self.now += 1
            if acquires:
                self._acquire(program, address)
            if release:
                self._release(program, address)

    def _acquire(self, program: int, address: int) -> None:
        acquires = self.acquires.setdefault(program, Acquires())
        times = acquires.addresses.setdefault(address, [])
        # Nobody can have learnt what was known between this one and the last before it.
        if times and times[-1] > acquires.released:
            times[-1] = self.now
        else:
            times.append(self.now)
        self._views.pop(program, None)

    def _release(self, program: int, address: int) -> None:
        releases = self.releases.setdefault(address, Releases())
        acquires = self.acquires.get(program)
        if acquires is not None:
            acquires.released = self.now
            if len(acquires.addresses) > (address in acquires.addresses):
                releases.chained.append(len(releases.times))
        releases.times.append(self.now)
        releases.programs.append(program)

    def happens_before(self, programs: Array, times: Array, observers: Array) -> Array:
        """Whether accesses that programs made at some times are known to those that meet them."""
        if (observers == observers[0]).all():
            return self._visible_to(int(observers[0]), programs, times)
        result = np.zeros(programs.shape, np.bool_)
        sequence = np.argsort(observers, kind="stable")
        ends = np.flatnonzero(np.diff(observers[sequence])) + 1
        for mine in np.split(sequence, ends):
            result[mine] = self._visible_to(int(observers[mine[0]]), programs[mine], times[mine])
        return result

    def _visible_to(self, observer: int, programs: Array, times: Array) -> Array:
        acquires = self.acquires.get(observer)
        if acquires is None:
            return np.zeros(programs.shape, np.bool_)
        view = self._views.get(observer)
        if view is None:
            if len(self._views) >= MAX_CACHED_VIEWS:
                self._views.clear()
            view = self._views[observer] = VectorView(self.programs, acquires)
        while True:
            result: Array = times < view.clock[programs]
            if not view.pending or result.all():
                return result
            self._join_releases(view)

    def _join_releases(self, view: VectorView) -> None:
        """Follow one edge: take in what was released at a place before some time."""
        address, time = view.pending.pop()
        releases = self.releases.get(address)
        if releases is None:
            return
        first, last = view.releases_seen.get(address, 0), bisect_left(releases.times, time)
        if last <= first:
            return
        view.releases_seen[address] = last
        writers = np.frombuffer(releases.programs[first:last], np.int64)
        np.maximum.at(view.clock, writers, np.frombuffer(releases.times[first:last], np.int64))
        oldest, newest = (bisect_left(releases.chained, position) for position in (first, last))
        for position in releases.chained[oldest:newest]:
            self._add_acquires(view, releases.programs[position], releases.times[position], address)

    def _add_acquires(self, view: VectorView, program: int, released: int, address: int) -> None:
        """Go on to what a program had acquired elsewhere by the time of its release."""
        for other, times in self.acquires[program].addresses.items():
            count = bisect_right(times, released)
            if count and other != address:
                view.pending.append((other, times[count - 1]))
