"""Where all programs of a launch are."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from tile.backends.interp.launch import Launch
from tile.backends.interp.stepped.launch import SteppedLaunch
from tile.backends.interp.values import Rows
from tile.backends.interp.wave import Wave
from tile.debugger.frames import kernel_frames
from tile.debugger.source import shown

NAMED = 4  # how many runs of programs a list names


@dataclass(frozen=True, eq=False)
class Group:
    """Programs that are at one place. `wave` has their variables; None: there are none."""

    rows: Rows
    wave: Wave | None
    what: str


def groups(launch: SteppedLaunch) -> Iterator[Group]:
    """The programs of a launch by where they are; those that run first."""
    scheduler = launch.scheduling
    running = scheduler.running
    known: list[Rows] = []
    waves = [] if running is None else [running]
    waves += [wave for wave in scheduler.queue if wave is not running]
    for wave in waves:
        known.append(wave.rows)
        yield Group(wave.rows, wave, f"at {line_of(wave)}")
    for wave in scheduler.parked:
        if wave is not running:
            known.append(wave.rows)
            yield Group(wave.rows, wave, f"wait for a change of memory, at {line_of(wave)}")
    for join in scheduler.joins:
        if join.arrivals:
            rows = join.wave.rows[join.arrived()]
            known.append(rows)
            yield Group(rows, join.wave, f"wait for the others, at the end of {line_of(join.wave)}")
    begun = np.flatnonzero(scheduler.started)
    ended = np.setdiff1d(begun, np.concatenate(known)) if known else begun
    if len(ended):
        yield Group(ended, None, "ended")
    rest = np.flatnonzero(~scheduler.started)
    if len(rest):
        yield Group(rest, None, "not started")


def line_of(wave: Wave) -> str:
    """The line at which a wave stands."""
    frames = kernel_frames(wave, int(wave.rows[0]))
    return f"{shown(frames[-1].file)}:{frames[-1].line}" if frames else "the beginning"


def group_of(launch: SteppedLaunch, row: int) -> Group:
    """The programs among which one is."""
    return next(group for group in groups(launch) if row in group.rows)


def named(launch: Launch, rows: Rows) -> str:
    """Some programs of a launch in words."""
    if len(rows) == 1:
        return f"program {launch.coordinates(int(rows[0]))}"
    if len(rows) == launch.programs:
        return f"all {len(rows)} programs"
    return f"{len(rows)} programs: {', '.join(_runs(launch, rows))}"


def _runs(launch: Launch, rows: Rows) -> Sequence[str]:
    starts = np.flatnonzero(np.diff(rows) != 1) + 1
    words = []
    for run in np.split(rows, starts)[: NAMED + 1]:
        first, last = (launch.coordinates(int(row)) for row in (run[0], run[-1]))
        words.append(str(first) if len(run) == 1 else f"{first} to {last}")
    return words if len(words) <= NAMED else [*words[:NAMED], "..."]
