"""The happens-before relation: which accesses of different programs are ordered.

Time counts the synchronizing atomic operations. A release at an address and a later acquire at the
same address form a synchronizes-with edge: what the releasing program did, or had acquired, before
its release happens before what the acquiring program does next. All atomics are
read-modify-writes, so an acquire synchronizes with every earlier release at its address (they
continue the release sequence, as in C++).

Edges are stored by address and by program; no data grows with the square of the grid. A program's
vector clock (a time for each program) is computed lazily, when two accesses meet: backwards along
the edges, newest first, until the query is answered. A kernel without acquires has no
`HappensBefore`.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from dataclasses import dataclass, field

import numpy as np

from tile.backends.interp.tuning import TUNING
from tile.backends.interp.values import Array


def _times() -> array[int]:
    return array("q")


@dataclass
class Releases:
    """The releases at one address, in order of time.

    `chained` has the positions of releases whose programs had acquired at other addresses before,
    so that edges of those addresses follow.
    """

    times: array[int] = field(default_factory=_times)
    programs: array[int] = field(default_factory=_times)
    chained: list[int] = field(default_factory=list)


@dataclass
class Acquires:
    """The acquires of one program: their times in order, by address."""

    addresses: dict[int, list[int]] = field(default_factory=dict)
    released: int = -1  # time of the program's last release


class VectorView:
    """The vector clock of a program, as far as queries have needed it."""

    def __init__(self, programs: int, acquires: Acquires) -> None:
        self.clock = np.full(
            programs, -1, np.int64
        )  # by program, the time of its last release that happens before
        self.releases_seen: dict[
            int, int
        ] = {}  # by address, the number of its releases that are in `clock`
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
        """Record atomic operations in order: programs, addresses, and which of them release."""
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
        # Without a release since the last acquire, no program can have observed that one.
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
        """Return True for accesses of `programs` at `times` that happen before the observers'."""
        if (observers == observers[0]).all():
            return self._visible_to(int(observers[0]), programs, times)
        result = np.zeros(programs.shape, np.bool_)
        sequence = np.argsort(observers, kind="stable")
        ends = np.flatnonzero(np.diff(observers[sequence])) + 1
        for group in np.split(sequence, ends):
            result[group] = self._visible_to(
                int(observers[group[0]]), programs[group], times[group]
            )
        return result

    def _visible_to(self, observer: int, programs: Array, times: Array) -> Array:
        acquires = self.acquires.get(observer)
        if acquires is None:
            return np.zeros(programs.shape, np.bool_)
        view = self._views.get(observer)
        if view is None:
            if len(self._views) >= TUNING.cached_views:
                self._views.clear()
            view = self._views[observer] = VectorView(self.programs, acquires)
        while True:
            result: Array = times < view.clock[programs]
            if not view.pending or result.all():
                return result
            self._join_releases(view)

    def _join_releases(self, view: VectorView) -> None:
        """Follow one pending edge: join the releases at an address before some time."""
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
        """Add edges for what a program had acquired at other addresses before its release."""
        for other, times in self.acquires[program].addresses.items():
            count = bisect_right(times, released)
            if count and other != address:
                view.pending.append((other, times[count - 1]))
